"""Routes of the approval pages."""

from __future__ import annotations

from django.urls import path

from registration.views import approvals

app_name = "registration"

urlpatterns = [
    path("approvals/", approvals.inbox, name="approvals"),
    path("approvals/<str:name>/", approvals.request_detail, name="request"),
    path("approvals/<str:name>/accept/", approvals.accept, name="accept"),
    path("approvals/<str:name>/override/", approvals.override, name="override"),
    path("approvals/<str:name>/decline/", approvals.decline, name="decline"),
    path("approvals/<str:name>/lift/", approvals.lift, name="lift"),
    path("clusters/<str:name>/disconnect/", approvals.disconnect, name="disconnect"),
]
