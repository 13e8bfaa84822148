"""Routes of the approval pages."""

from __future__ import annotations

from django.urls import path

from registration import views

app_name = "registration"

urlpatterns = [
    path("approvals/", views.approvals, name="approvals"),
    path("approvals/<str:name>/", views.request_detail, name="request"),
    path("approvals/<str:name>/accept/", views.accept, name="accept"),
    path("approvals/<str:name>/override/", views.override, name="override"),
    path("approvals/<str:name>/decline/", views.decline, name="decline"),
    path("approvals/<str:name>/lift/", views.lift, name="lift"),
    path("clusters/<str:name>/disconnect/", views.disconnect, name="disconnect"),
]
