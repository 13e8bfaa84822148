"""Routes of the cluster pages, and of what clusters claim."""

from __future__ import annotations

from django.urls import include, path

from clusters.views import bulk, detail, document, events, export, health, labels, maintenance, remove, saved, taints  # noqa: F401 - tabs
from clusters.views.claims import claims_page
from clusters.views.list import cluster_list

app_name = "clusters"

CLUSTERS = [
    path("", cluster_list, name="list"),
    # No cluster's name begins so.
    path("_export/<str:form>/", export.export, name="export"),
    path("_views/", saved.save_view, name="save-view"),
    path("_views/<int:view>/forget/", saved.forget_view, name="forget-view"),
    path("_columns/", saved.choose_columns, name="columns"),
    path("_select/", bulk.select, name="select"),
    path("_bulk/<uuid:pk>/<str:name>/", bulk.bulk_act, name="bulk"),
    path("<str:name>/", detail.cluster_detail, name="detail"),
    path("<str:name>/undo/<int:entry>/", detail.undo, name="undo"),
    path("<str:name>/maintenance/", maintenance.cluster_maintenance, name="maintenance"),
    path("<str:name>/maintenance/end/", maintenance.end_maintenance, name="end-maintenance"),
    path("<str:name>/taints/set/", taints.set_taint, name="set-taint"),
    path("<str:name>/taints/remove/", taints.remove_taint, name="remove-taint"),
    path("<str:name>/labels/set/", labels.set_label, name="set-label"),
    path("<str:name>/labels/remove/", labels.remove_label, name="remove-label"),
    path("<str:name>/yaml/edit/", document.edit_document, name="edit"),
    path("<str:name>/remove/", remove.remove_cluster, name="remove"),
    path("<str:name>/remove/force/", remove.abandon, name="abandon"),
    path("<str:name>/<str:tab>/", detail.cluster_detail, name="tab"),
]

urlpatterns = [
    path("claims/", claims_page, name="claims"),
    path("clusters/", include(CLUSTERS)),
]
