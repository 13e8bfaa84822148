"""The console's frame: what every page's shell shows, and the page that explains its words."""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.utils.functional import SimpleLazyObject
from django.utils.text import capfirst
from django.views.decorators.http import require_GET

from clusters.cluster_rights import FleetVisibility
from clusters.health.status import Word
from ocmconsole.console import attention, attention_pages, navigation, preferences
from ocmconsole.environment import installation
from ocmconsole.kubeapi import request_cache
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.health import outages

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse
    from django.http.response import HttpResponseBase


@login_required
@require_GET
def help_page(request: HttpRequest) -> HttpResponse:
    return render(request, "console/help.html", {"words": [(word, rules()[word]) for word in Word]})


@cache
def rules() -> dict[str, str]:
    """When each state applies, as docs/guide/status.md says it."""
    text = (installation.ROOT / "docs/guide/status.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \*\*.+?\*\* \(`(.+?)`\) \| (.+?) \|", text, re.MULTILINE)
    return {value: rule.replace("`", "") for value, rule in rows}


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor: hub, navigation with its counts, and how the person wants pages to be.

    What takes queries is looked up by the templates that show it: Django admin's do not.
    """
    prefs = preferences.preferences_of(request)
    frame: dict[str, Any] = {
        "hub": {"name": settings.OCMCONSOLE_HUB_NAME, "environment": settings.OCMCONSOLE_ENVIRONMENT},
        "program": installation.PROGRAM,
        "prefs": prefs,
        "theme": prefs["theme"],
        "read_only": f"{capfirst(outages.state.read_only)}." if outages.state.read_only else "",
    }
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return frame
    frame["sight"] = FleetVisibility(actor_of(request))
    if "X-Fragment" in request.headers:
        return frame
    frame["hub"]["is_demo"] = SimpleLazyObject(lambda: attention.glance(request).is_demo)
    counts: Any = SimpleLazyObject(partial(_counts, request))
    return {
        **frame,
        "nav": SimpleLazyObject(partial(_menu, request, counts)),
        "needs_you": counts,
        "seen": SimpleLazyObject(lambda: attention.glance(request).newest),
    }


def looks_first(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: ``seen`` of a page that is opened is from before its view reads anything.

    What is committed while the view works is then a notice for the page, which may have read what was before.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        is_page = request.method == "GET" and "text/html" in request.headers.get("Accept", "")
        if is_page and request.user.is_authenticated:
            attention.glance(request)
        return get_response(request)

    return middleware


def _menu(request: HttpRequest, counts: Any) -> Any:
    with request_cache.sharing():
        return navigation.menu(request, actor_of(request), counts)


def _counts(request: HttpRequest) -> dict[str, int]:
    with request_cache.sharing():
        found = {item.key: item.count for item in attention.attention_items(request)}
        counts = {"waiting": found.get("approvals", 0), "second": found.get("second-approval", 0)}
        return {**counts, "attention": attention_pages.count(request)}
