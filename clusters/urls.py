"""Routes of the cluster pages."""

from __future__ import annotations

from django.urls import path

from clusters.views.detail import cluster_detail
from clusters.views.list import cluster_list

app_name = "clusters"

urlpatterns = [
    path("", cluster_list, name="list"),
    path("<str:name>/", cluster_detail, name="detail"),
]
