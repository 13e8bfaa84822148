"""The console's frame: the first page, and what every page's shell shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.shortcuts import redirect

from ocmconsole.kubeapi.session import actor_of
from registration.queries import waiting_names

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


def home(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - a view's signature
    """Until the overview exists, the inbox is what needs a person."""
    return redirect("registration:approvals")


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor: hub name and counts for the navigation."""
    user = getattr(request, "user", None)
    waiting = len(waiting_names(actor_of(request))) if user is not None and user.is_authenticated else 0
    return {
        "hub": {"name": settings.OCMCONSOLE_HUB_NAME, "environment": settings.OCMCONSOLE_ENVIRONMENT},
        "nav": {"waiting": waiting},
    }
