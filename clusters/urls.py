"""Routes of the cluster pages."""

from __future__ import annotations

from django.urls import path

from clusters import views

app_name = "clusters"

urlpatterns = [
    path("", views.cluster_list, name="list"),
    path("<str:name>/", views.cluster_detail, name="detail"),
]
