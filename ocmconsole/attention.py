"""What needs a person: the overview's first row, the bell and its page. Each has a way to act.

An item that somebody has put away stays away until it changes: its ``state`` is remembered for the person.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from hashlib import sha256
from operator import or_
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max, Min
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from clusters import credentials, words
from clusters import queries as clusters
from clusters.credentials import ExpiryBucket
from clusters.filters import SPANS
from clusters.kinds import LONGEST_LEASE_SECONDS
from clusters.status import Word, clock, grace
from ocmconsole import preferences
from ocmconsole.corekinds import access
from ocmconsole.durations import span
from ocmconsole.kubeapi.session import actor_of
from registration import policy_services, register
from registration.later import in_sight

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.actor import Actor

STUCK = SPANS["10m"][1]
MOST_PUT_AWAY = 20
MOST_COUNTED = 100
KEPT = "ocmconsole.attention"


@dataclass(frozen=True, slots=True)
class Item:
    """Something that needs a person. ``state`` changes when it should be looked at again."""

    key: str
    count: int
    label: str
    icon: str
    tone: str
    text: str
    act: str
    url: str
    state: str


def of(request: HttpRequest) -> list[Item]:
    """What there is for who is signed in; looked up once a request."""
    if KEPT not in request.META:
        request.META[KEPT] = items(actor_of(request), timezone.now())
    found: list[Item] = request.META[KEPT]
    return found


def items(actor: Actor, now: datetime) -> list[Item]:
    """All that there is for the person to see to, in the order of the overview."""
    visible = clusters.clusters_for(actor)
    found = (
        _incidents(actor),
        _approvals(actor, now),
        _silent(visible, now),
        _credentials(visible, now),
        _removals(visible, now),
        _leases(visible),
        _policies(actor),
        _wishes(actor),
    )
    return [item for item in found if item]


def _incidents(actor: Actor) -> Item | None:
    """D26: incidents: certificates of the hub's CA that the hub did not issue. For admins; None without any."""
    if not actor.is_master:
        return None
    rows = register.incidents()
    count, newest = rows.count(), rows.first()
    if newest is None:
        return None
    text = (
        f"Refused. Last: {newest.common_name}, from {newest.address or 'an unknown address'}. Somebody else has ca.key."
    )
    url = f"{reverse('registration:ca')}#unknown"
    state = f"{count} {max(row.first_seen for row in rows[:MOST_COUNTED])}"
    return Item("incidents", count, "Certificates not issued here", "ban", "danger", text, "See which", url, state)


def _approvals(actor: Actor, now: datetime) -> Item | None:
    names = in_sight(actor)
    if not names:
        return None
    asked = clusters.clusters_for(actor).filter(name__in=names).aggregate(first=Min("created"))["first"]
    oldest = f"Oldest has waited {span(now - asked)}." if asked else ""
    url = reverse("registration:approvals")
    state = _digest(names)
    return Item(
        "approvals", len(names), "Approvals waiting", "user-check", "accent", oldest, "Review approvals", url, state
    )


def _silent(visible: QuerySet[Any], now: datetime) -> Item | None:
    """Those of one set that fell silent together are likely to have one cause."""
    rows = words.with_word(visible.filter(available="Unknown"), now).filter(rank=words.RANKS[Word.SILENT]).order_by()
    found = rows.values("clusterset").annotate(n=Count("pk"), at=Min("since"), newest=Max("since"))
    sets = sorted(found, key=lambda row: -row["n"])
    if not sets:
        return None
    total, worst, first = sum(row["n"] for row in sets), sets[0], min(row["at"] for row in sets)
    asked = {"status": Word.SILENT.value}
    text, act = f"The first fell silent {span(now - first)} ago.", "See them"
    if worst["clusterset"] and worst["n"] > 1:
        text = f"{worst['n']} are in set {worst['clusterset']}, the first since {clock(worst['at'], now)}."
        asked, act = asked | {"set": worst["clusterset"]}, f"See the {worst['n']} together"
    url = f"{reverse('clusters:list')}?{urlencode(asked)}"
    return Item(
        Word.SILENT.value,
        total,
        "Silent",
        Word.SILENT.icon,
        "danger",
        text,
        act,
        url,
        f"{total} {max(row['newest'] for row in sets)}",
    )


def _credentials(visible: QuerySet[Any], now: datetime) -> Item | None:
    lanes = credentials.lanes(now)
    counted = (ExpiryBucket.REVOKED, ExpiryBucket.EXPIRED, ExpiryBucket.WEEK)
    counts = visible.filter(reduce(or_, (lanes[lane] for lane in counted)), hub_accepts_client=True).aggregate(
        **{lane.value: Count("pk", filter=lanes[lane]) for lane in counted}, last=Max("facts__certificate_not_after")
    )
    revoked, ended, soon = (counts[lane.value] for lane in counted)
    over = revoked + ended
    if not over + soon:
        return None
    found = (
        (revoked, "revoked and cannot speak"),
        (ended, "ended and cannot speak"),
        (soon, f"end{'s' if soon == 1 else ''} within 7 days"),
    )
    parts = [f"{number} {what}." for number, what in found if number]
    asked = {"certificate": [lane.value for lane in counted], "accepted": "yes"}
    url = f"{reverse('clusters:list')}?{urlencode(asked, doseq=True)}"
    text = " ".join(parts)
    tone = "danger" if over else "caution"
    state = f"{over} {soon} {counts['last']}"
    return Item("credentials", over + soon, "Credentials ending", "file-key", tone, text, "See which", url, state)


def _removals(visible: QuerySet[Any], now: datetime) -> Item | None:
    stuck = visible.filter(deleted_at__lt=now - STUCK).order_by("deleted_at")
    count, longest, newest = stuck.count(), stuck.first(), stuck.last()
    if longest is None or newest is None:
        return None
    text = f"Longest: {longest.name}, {span(now - longest.deleted_at)}."
    url = f"{reverse('clusters:list')}?{urlencode({'status': Word.REMOVING.value, 'for': '10m'})}"
    return Item(
        "removals", count, "Removals stuck", "trash-2", "warn", text, "Show blockers", url, f"{count} {newest.uid}"
    )


def _leases(visible: QuerySet[Any]) -> Item | None:
    """Accepted clusters whose ``leaseDurationSeconds`` reaches the bound: their silence would be found late."""
    found = visible.filter(lease_duration_seconds__gte=LONGEST_LEASE_SECONDS, hub_accepts_client=True)
    names = list(found.order_by("name").values_list("name", flat=True)[:MOST_COUNTED])
    if not names:
        return None
    late = span(grace(LONGEST_LEASE_SECONDS))
    text = f"{names[0]}: silence is found after {late} only, because its leaseDurationSeconds is a day or more."
    url = reverse("clusters:detail", args=[names[0]])
    return Item(
        "leases", len(names), "Long leases", Word.SILENT.icon, "caution", text, "Open cluster", url, _digest(names)
    )


def _policies(actor: Actor) -> Item | None:
    failing = policy_services.failing(actor)
    if not failing:
        return None
    first = failing[0]
    text = f"{first.name}: {first.failure}"
    url = reverse("registration:policy", args=[first.name]) if len(failing) == 1 else reverse("registration:policies")
    label = f"Polic{'y' if len(failing) == 1 else 'ies'} failing"
    return Item("policies", len(failing), label, "scroll-text", "danger", text, "Open policy", url, text)


def _wishes(actor: Actor) -> Item | None:
    """Somebody asks for a right that the person can give."""
    waiting = list(access.waiting_requests(actor)[:MOST_COUNTED])
    if not waiting:
        return None
    first, url = waiting[0], reverse("access:requests")
    what = " ".join(filter(None, (first.verb, first.resource.partition(".")[0], first.name)))
    text = f"{first.user} would like to {what}."
    return Item(
        "access",
        len(waiting),
        "Access requested",
        "users",
        "accent",
        text,
        "Answer",
        url,
        _digest(row.pk for row in waiting),
    )


def _digest(things: Iterable[object]) -> str:
    """Changes when one of them does, or is another."""
    return sha256("\n".join(sorted(map(str, things))).encode()).hexdigest()[:16]


# ---------------------------------------------------------------- the bell


def count(request: HttpRequest) -> int:
    """For the badge of the bell: things that are not put away."""
    away = put_away(request)
    return sum(away.get(item.key) != item.state for item in of(request))


@login_required
@require_GET
def attention(request: HttpRequest) -> HttpResponse:
    """All of it, and what the person has put away."""
    found, away = of(request), put_away(request)
    context = {
        "items": [item for item in found if away.get(item.key) != item.state],
        "away": [item for item in found if away.get(item.key) == item.state],
    }
    return render(request, "attention.html", context)


@login_required
@require_POST
def dismiss(request: HttpRequest) -> HttpResponse:
    """Put an item away until it changes, or take it back."""
    key, state = request.POST.get("key", "")[:40], request.POST.get("state", "")[:300]
    away = {**put_away(request), key: state}
    if "back" in request.POST:
        away.pop(key)
    preferences.keep(request, put_away={key: away[key] for key in sorted(away)[:MOST_PUT_AWAY]})
    return redirect("attention")


def put_away(request: HttpRequest) -> dict[str, str]:
    return dict(preferences.kept_for(request).get("put_away") or {})
