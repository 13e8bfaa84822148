"""Routes of the cluster pages, and of what clusters claim."""

from __future__ import annotations

from django.urls import include, path

from clusters.cluster import (  # noqa: F401 - tabs
    events_tab,
    health_tab,
    labels_tab,
    maintenance_pages,
    remove_pages,
    summary_tab,
    taints_tab,
    yaml_tab,
)
from clusters.fleet import bulk_pages, export_pages, saved_view_pages
from clusters.fleet.claim_pages import claims_page
from clusters.fleet.list_pages import cluster_list

app_name = "clusters"

CLUSTERS = [
    path("", cluster_list, name="list"),
    # No cluster's name begins so.
    path("_export/<str:form>/", export_pages.export, name="export"),
    path("_views/", saved_view_pages.save_view, name="save-view"),
    path("_views/<int:view>/forget/", saved_view_pages.forget_view, name="forget-view"),
    path("_columns/", saved_view_pages.choose_columns, name="columns"),
    path("_select/", bulk_pages.select, name="select"),
    path("_bulk/<uuid:pk>/<str:name>/", bulk_pages.bulk_act, name="bulk"),
    path("<str:name>/", summary_tab.cluster_detail, name="detail"),
    path("<str:name>/undo/<int:entry>/", summary_tab.undo, name="undo"),
    path("<str:name>/maintenance/", maintenance_pages.cluster_maintenance, name="maintenance"),
    path("<str:name>/maintenance/end/", maintenance_pages.end_maintenance, name="end-maintenance"),
    path("<str:name>/taints/set/", taints_tab.set_taint, name="set-taint"),
    path("<str:name>/taints/remove/", taints_tab.remove_taint, name="remove-taint"),
    path("<str:name>/labels/set/", labels_tab.set_label, name="set-label"),
    path("<str:name>/labels/remove/", labels_tab.remove_label, name="remove-label"),
    path("<str:name>/yaml/edit/", yaml_tab.edit_document, name="edit"),
    path("<str:name>/remove/", remove_pages.remove_cluster, name="remove"),
    path("<str:name>/remove/force/", remove_pages.abandon, name="abandon"),
    path("<str:name>/<str:tab>/", summary_tab.cluster_detail, name="tab"),
]

urlpatterns = [
    path("claims/", claims_page, name="claims"),
    path("clusters/", include(CLUSTERS)),
]
