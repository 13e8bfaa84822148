"""Routes of the cluster pages, and of what clusters claim."""

from __future__ import annotations

from django.urls import include, path

from clusters.views.claims import claims_page
from clusters.views.detail import cluster_detail
from clusters.views.list import cluster_list

app_name = "clusters"

CLUSTERS = [
    path("", cluster_list, name="list"),
    path("<str:name>/", cluster_detail, name="detail"),
]

urlpatterns = [
    path("claims/", claims_page, name="claims"),
    path("clusters/", include(CLUSTERS)),
]
