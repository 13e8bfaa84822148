"""What a new hub still lacks, for its admins: shown on the overview while there is no cluster.

Each step is computed from the state of the hub, except the copy of its data, of which the hub cannot know unless it
makes one by the clock. A step that an admin has put away stays away for that account.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from ocmconsole.backup import scheduled
from ocmconsole.console import preferences
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi.access.actor import MASTERS
from ocmconsole.kubeapi.access.session import actor_of
from registration import hub_setup, join_guide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.http import HttpRequest, HttpResponse

PUT_AWAY = "first_steps"  # in the preferences: the keys of steps that are put away
ENOUGH_ADMINS = 2  # accounts: one of them may lose their passkey


@dataclass(frozen=True, slots=True)
class SetupStep:
    """``is_done`` is None where the hub cannot know."""

    key: str
    title: str
    text: str
    is_done: bool | None
    act: str
    url: str


def setup_steps(request: HttpRequest) -> list[SetupStep]:
    """The steps that the person has not put away, done or not; none for people who are no admins."""
    if MASTERS not in actor_of(request).groups:
        return []
    away = put_away(request)
    return [step for step in _steps(request) if step.key not in away]


def put_away(request: HttpRequest) -> list[str]:
    found = preferences.kept_for(request).get(PUT_AWAY)
    return found if isinstance(found, list) else []


def _steps(request: HttpRequest) -> Iterator[SetupStep]:
    url = join_guide.addresses()[0]
    problems = join_guide.address_problems(url)
    yield SetupStep(
        "address", "An address for other machines", " ".join(problems) or f"Agents find the hub at {url}.",
        not problems, "Set the address", reverse("registration:add"),
    )  # fmt: skip
    admins = list(
        User.objects.filter(is_superuser=True, is_active=True).order_by("pk").values_list("username", flat=True)
    )
    yield SetupStep(
        "admin", "A second admin",
        f"{len(admins)} people are admins: {', '.join(admins[:3])}{' …' if len(admins) > 3 else ''}."  # noqa: PLR2004
        if len(admins) >= ENOUGH_ADMINS
        else f"{admins[0]} is the only one. If that account is lost, only the command line of the hub's machine helps.",
        len(admins) >= ENOUGH_ADMINS, "Add an admin", reverse("admin:auth_user_add"),
    )  # fmt: skip
    has_one = Authenticator.objects.filter(user_id=request.user.pk, type=Authenticator.Type.WEBAUTHN).exists()
    yield SetupStep(
        "passkey", "A passkey for yourself", "You have one." if has_one else _why_a_passkey(),
        has_one, "Add a passkey", reverse("mfa_list_webauthn"),
    )  # fmt: skip
    yield SetupStep(
        "copy", "A copy of the hub", *_copies(), "How to copy it", f"{reverse('help')}#copy",
    )  # fmt: skip


def _why_a_passkey() -> str:
    text = "You sign in with a password alone."
    host = urlsplit(settings.OCMCONSOLE_CONSOLE_URL).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return text
    port = urlsplit(settings.OCMCONSOLE_CONSOLE_URL).port
    name = f"http://localhost{f':{port}' if port else ''}" if ip_address(host).is_loopback else "https://NAME"
    why = f"Browsers make passkeys for names only, not for {host}"
    return f"{text} {why}: start the hub with OCMCONSOLE_CONSOLE_URL={name}."


def _copies() -> tuple[str, bool | None]:
    """What is known of copies, and whether they are made."""
    every, place = settings.OCMCONSOLE_BACKUP_EVERY, settings.OCMCONSOLE_BACKUP_PLACE
    if not every or place is None:
        return f"The hub makes none, and cannot know whether you do. {_what_to_copy()}", None
    if wrong := scheduled.warning():
        return f"The hub makes one every {span(every)}, but {wrong}.", False
    return f"The hub makes one every {span(every)}, in {place}. Keep its key elsewhere.", True


def _what_to_copy() -> str:
    home = hub_setup.shown_home()
    if connection.vendor == "sqlite":
        return f"Everything is in {home}."
    return f"Keys and certificates are in {home}, everything else in PostgreSQL."


@login_required
@require_POST
def dismiss(request: HttpRequest) -> HttpResponse:
    """Put a step away; without one bring all of them back."""
    if MASTERS not in actor_of(request).groups:
        raise PermissionDenied("What a new hub lacks is shown to its admins.")
    keys = {step.key for step in _steps(request)}
    key = request.POST.get("step", "")
    kept = sorted(keys & {*put_away(request), key}) if key else []
    preferences.keep_preferences(request, **{PUT_AWAY: kept})
    return redirect("home")
