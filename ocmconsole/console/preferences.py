"""How a person wants pages to be: theme, contrast, density, times, shortcuts, live updates.

Kept with the account, so that every browser shows them; ``preferences_of`` gives what base.html writes on ``<html>``,
empty where the page should be as it is for everybody. A theme chosen in the masthead is this browser's, and goes
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from ocmconsole.kubeapi import request_cache
from ocmconsole.models import Preferences

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

THEME_COOKIE = "theme"
THEMES = ("light", "dark")


def _choice(label: str, *choices: tuple[str, str], help_text: str = "") -> forms.ChoiceField:
    """The first choice is what everybody has."""
    return forms.ChoiceField(
        label=label, choices=choices, initial=choices[0][0], widget=forms.RadioSelect, help_text=help_text
    )


class PreferencesForm(forms.Form):
    theme = _choice("Theme", ("system", "As the system"), ("light", "Light"), ("dark", "Dark"))
    contrast = _choice("Contrast", ("system", "As the system"), ("high", "High"), help_text="Darker lines and text.")
    density = _choice("Density", ("comfortable", "Comfortable"), ("compact", "Compact"))
    times = _choice("Times", ("relative", "How long ago"), ("utc", "Date and time in UTC"))
    shortcuts = _choice(
        "Single-key shortcuts",
        ("off", "Off"),
        ("on", "On"),
        help_text="Such as / for the filter of a page. Leave them off if you speak to your computer.",
    )
    live = _choice(
        "Live updates",
        ("on", "On"),
        ("off", "Off"),
        help_text="Pages follow what happens. They can also be paused in the masthead.",
    )


USUAL = {name: field.initial for name, field in PreferencesForm.base_fields.items()}


def preferences_of(request: HttpRequest) -> dict[str, str]:
    """For every page: each name with its value, or with an empty text."""
    values = _stored(request)
    cookie = request.COOKIES.get(THEME_COOKIE, "")
    return values | {"theme": cookie if cookie in THEMES else values["theme"]}


def _stored(request: HttpRequest) -> dict[str, str]:
    kept = kept_for(request)
    return {name: kept.get(name, "") for name in USUAL}


def kept_for(request: HttpRequest) -> dict[str, Any]:
    """All that is kept with the account, for pages that remember more than the form asks."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    row = request_cache.cached(("preferences", user.pk), Preferences.objects.filter(user_id=user.pk).first)
    return dict(row.values) if row is not None else {}


def keep_preferences(request: HttpRequest, **values: Any) -> None:
    """Beside what is kept already; an empty value is forgotten."""
    merged = {name: value for name, value in {**kept_for(request), **values}.items() if value}
    assert request.user.is_authenticated
    Preferences.objects.update_or_create(user=request.user, defaults={"values": merged})


def _chosen(request: HttpRequest) -> dict[str, str]:
    return {name: value or USUAL[name] for name, value in _stored(request).items()}


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def preferences(request: HttpRequest) -> HttpResponse:
    """One form; where it is saved, the browser's own theme gives way."""
    if request.method != "POST":
        return render(request, "console/preferences.html", {"form": PreferencesForm(initial=_chosen(request))})
    form = PreferencesForm(request.POST)
    if not form.is_valid():
        return render(request, "console/preferences.html", {"form": form}, status=400)
    keep_preferences(
        request, **{name: "" if value == USUAL[name] else value for name, value in form.cleaned_data.items()}
    )
    messages.success(request, "Your preferences are saved, for every browser.")
    response = redirect("preferences")
    response.delete_cookie(THEME_COOKIE)
    return response
