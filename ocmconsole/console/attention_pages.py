"""The bell and its page: what needs a person and what that person has put away.

An item that somebody has put away stays away until it changes: its ``state`` is remembered for the person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from ocmconsole.console import preferences
from ocmconsole.console.attention import attention_items

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

MOST_PUT_AWAY = 20  # items in a person's preferences, so that these stay small


def count(request: HttpRequest) -> int:
    """For the badge of the bell: things that are not put away."""
    away = put_away(request)
    return sum(away.get(item.key) != item.state for item in attention_items(request))


@login_required
@require_GET
def attention(request: HttpRequest) -> HttpResponse:
    """All of it, and what the person has put away."""
    found, away = attention_items(request), put_away(request)
    context = {
        "items": [item for item in found if away.get(item.key) != item.state],
        "away": [item for item in found if away.get(item.key) == item.state],
    }
    return render(request, "console/attention.html", context)


@login_required
@require_POST
def dismiss(request: HttpRequest) -> HttpResponse:
    """Put an item away until it changes, or take it back."""
    key, state = request.POST.get("key", "")[:40], request.POST.get("state", "")[:300]
    away = {**put_away(request), key: state}
    if "back" in request.POST:
        away.pop(key)
    preferences.keep_preferences(request, put_away={key: away[key] for key in sorted(away)[:MOST_PUT_AWAY]})
    return redirect("attention")


def put_away(request: HttpRequest) -> dict[str, str]:
    return dict(preferences.kept_for(request).get("put_away") or {})
