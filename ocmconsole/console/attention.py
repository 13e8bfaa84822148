"""What needs a person, for the overview's first row and ``attention_pages``. Each item has a way to act."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.contenttypes.models import ContentType
from django.db.models import Count, Exists, Max, Min, Q, Subquery, Sum
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.text import capfirst

from clusters import queries as clusters
from clusters.fleet.filters import ENDING_CREDENTIALS, SPANS
from clusters.health import certificate_expiry, status_sql
from clusters.health.certificate_expiry import ExpiryBucket
from clusters.health.status import Word, clock_time, silence_grace
from clusters.kinds import LONGEST_LEASE_SECONDS
from clusters.models import ClusterFacts
from ocmconsole.access import services
from ocmconsole.environment import installation
from ocmconsole.environment.durations import span
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import incarnations
from ocmconsole.models import DemoFleet
from ocmconsole.second_approval import acts, decisions
from placements import queries as placements
from registration import queries
from registration.approvals.snooze import in_sight
from registration.keys import certificate_register
from registration.policies import policy_services

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from ocmconsole.kubeapi.access.actor import Actor

STUCK = SPANS["10m"][1]
MOST_READ = 100  # rows of one item; more are counted by the database
ENDING = (ExpiryBucket.REVOKED, ExpiryBucket.EXPIRED, ExpiryBucket.WEEK)
LONG_LEASE = Q(lease_duration_seconds__gte=LONGEST_LEASE_SECONDS, hub_accepts_client=True)
KEPT, LOOKED = "ocmconsole.attention", "ocmconsole.glance"


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


@dataclass(frozen=True, slots=True)
class Glance:
    """One statement about much: of which of the things below there are any at all, and the audit's newest entry."""

    present: frozenset[str]
    newest: int = 0
    is_demo: bool = False


def glance(request: HttpRequest) -> Glance:
    """For the frame of the page; looked up once a request."""
    if LOOKED not in request.META:
        request.META[LOOKED] = look(actor_of(request), clock.now())
    found: Glance = request.META[LOOKED]
    return found


def look(actor: Actor, now: datetime) -> Glance:
    """What follows is asked only of what is there: on most pages, of nothing."""
    visible = clusters.clusters_for(actor).order_by()
    asked = {
        "silent": visible.filter(available="Unknown"),
        "held": placements.placements_for(actor).filter(held__count__gt=0),
        "credentials": visible.filter(_ending(now), hub_accepts_client=True),
        "removals": visible.filter(deleted_at__lt=now - STUCK),
        "leases": visible.filter(LONG_LEASE),
        "policies": policy_services.policies_for(actor).exclude(failure=""),
        "wishes": services.waiting_requests(actor),
        "demo": DemoFleet.objects.all(),
    }
    if actor.is_master:
        asked["incidents"] = certificate_register.incidents()
        asked["quiet"] = incarnations.quiet()
    newest = AuditEvent.objects.order_by("-pk").values("pk")[:1]
    columns: dict[str, Any] = {name: Exists(rows.order_by()) for name, rows in asked.items()}
    columns["newest"] = Subquery(newest)
    row: Any = ContentType.objects.order_by().values(**columns)[:1].get()  # any table that is never empty
    present = frozenset(name for name in asked if row[name])
    return Glance(present, row["newest"] or 0, "demo" in present)


def attention_items(request: HttpRequest) -> list[Item]:
    """What there is for who is signed in; looked up once a request."""
    if KEPT not in request.META:
        request.META[KEPT] = find_attention_items(actor_of(request), clock.now(), glance(request))
    found: list[Item] = request.META[KEPT]
    return found


def find_attention_items(actor: Actor, now: datetime, seen: Glance | None = None) -> list[Item]:
    """All that there is for the person to see to, in the order of the overview. ``seen`` is ``look`` of the same."""
    visible = clusters.clusters_for(actor)
    there = (seen or look(actor, now)).present
    found = (
        _superseded(),
        _quiet() if "quiet" in there else None,
        _incidents() if "incidents" in there else None,
        _approvals(actor, now),
        _silent(visible, now) if "silent" in there else None,
        _held(actor, now) if "held" in there else None,
        _credentials(visible, now) if "credentials" in there else None,
        _removals(visible, now) if "removals" in there else None,
        _leases(visible) if "leases" in there else None,
        _policies(actor) if "policies" in there else None,
        _wishes(actor) if "wishes" in there else None,
        _second_approvals(actor) if acts.is_on() else None,
    )
    return [item for item in found if item]


def _superseded() -> Item | None:
    """D28: a newer incarnation of this hub has begun, so that this one only reads."""
    if not (text := outages.state.superseded):
        return None
    return Item(
        "superseded", 1, "Only reads", "octagon-pause", "danger", f"{capfirst(text)}.", "How", "/help/#copy", text
    )


def _quiet() -> Item | None:
    """D28: the hub was restored, and nobody has activated it."""
    new = incarnations.present()
    if new is None or new.activated_at is not None:
        return None
    text = f"Placements stay as they are. Look at what was decided since, then run: {installation.PROGRAM} activate"
    return Item("quiet", 1, "Restored, not active", "octagon-pause", "warn", text, "How", "/help/#copy", new.uid)


def _incidents() -> Item | None:
    """D26: incidents: certificates of the hub's CA that the hub did not issue. None without any."""
    rows = certificate_register.incidents()
    count, newest = rows.count(), rows.first()
    if newest is None:
        return None
    text = (
        f"Refused. Last: {newest.common_name}, from {newest.address or 'an unknown address'}. "
        "Somebody else has the CA's key."
    )
    url = f"{reverse('registration:ca')}#unknown"
    state = f"{count} {max(row.first_seen for row in rows[:MOST_READ])}"
    return Item("incidents", count, "Certificates not issued here", "ban", "danger", text, "See which", url, state)


def _approvals(actor: Actor, now: datetime) -> Item | None:
    names = in_sight(actor)
    if not names:
        return None
    waiting = queries.waiting(actor)
    asked = min((created for name in names if (created := waiting[name].created)), default=None)
    oldest = f"Oldest has waited {span(now - asked)}." if asked else ""
    url = reverse("registration:approvals")
    state = _digest(names)
    return Item(
        "approvals", len(names), "Approvals waiting", "user-check", "accent", oldest, "Review approvals", url, state
    )


def _silent(visible: QuerySet[Any], now: datetime) -> Item | None:
    """Those of one set that fell silent together are likely to have one cause."""
    rows = (
        status_sql.with_word(visible.filter(available="Unknown"), now)
        .filter(rank=status_sql.RANKS[Word.SILENT])
        .order_by()
    )
    found = rows.values("clusterset").annotate(n=Count("pk"), at=Min("since"), newest=Max("since"))
    sets = sorted(found, key=lambda row: -row["n"])
    if not sets:
        return None
    total, worst, first = sum(row["n"] for row in sets), sets[0], min(row["at"] for row in sets)
    asked = {"status": Word.SILENT.value}
    text, act = f"The first fell silent {span(now - first)} ago.", "See them"
    if worst["clusterset"] and worst["n"] > 1:
        text = f"{worst['n']} are in set {worst['clusterset']}, the first since {clock_time(worst['at'], now)}."
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


def _held(actor: Actor, now: datetime) -> Item | None:
    """D27: placements that keep silent clusters until a person decides, or time does."""
    rows = placements.held_for(actor, now)
    open_ended = Count("pk", filter=Q(held__until=None))
    ends = {"first": Min("held__until"), "last": Max("held__until"), "open": open_ended}
    found = rows.aggregate(total=Sum("held__count"), placements=Count("pk"), **ends)
    total, first = found["total"], found["first"]
    if not total:
        return None
    together = first == found["last"] and not found["open"]
    all_ = "It waits" if total == 1 else "They wait"
    until = (
        f"{all_ if together else 'The first wait'} until {clock_time(first, now)}."
        if first
        else f"{all_} for a person."
    )
    state = f"{total} {first}"
    text = (
        f"Most clusters of {_of_brakes(actor, now)} fell silent at once: {total:,} eviction{pluralize(total)} of"
        f" {found['placements']:,} placement{pluralize(found['placements'])} wait{pluralize(total, 's,')}. {until}"
    )
    url = reverse("placements:held")
    return Item("held", total, "Evictions held", "octagon-pause", "warn", text, "Decide", url, state)


def _of_brakes(actor: Actor, now: datetime) -> str:
    """``the whole hub`` where a brake of it stands, else the set by the name that the actor may see, or how many."""
    rows = placements.standing_brakes(now)
    if any(not row.scope for row in rows):
        return "the whole hub"
    if len(rows) == 1:
        return placements.scopes_of_brakes(rows, placements.sets_of_brakes(actor, rows))[0]
    return f"each of {len(rows)} sets" if rows else "the hub or of a set"


def _credentials(visible: QuerySet[Any], now: datetime) -> Item | None:
    buckets = certificate_expiry.bucket_conditions(now)
    counts = visible.filter(_ending(now), hub_accepts_client=True).aggregate(
        **{bucket.value: Count("pk", filter=buckets[bucket]) for bucket in ENDING},
        last=Max("facts__certificate_not_after"),
    )
    revoked, ended, soon = (counts[bucket.value] for bucket in ENDING)
    over = revoked + ended
    if not over + soon:
        return None
    found = (
        (revoked, "revoked and cannot speak"),
        (ended, "ended and cannot speak"),
        (soon, f"end{'s' if soon == 1 else ''} within 7 days"),
    )
    parts = [f"{number} {what}." for number, what in found if number]
    url = f"{reverse('clusters:list')}?{urlencode({'credentials': ENDING_CREDENTIALS, 'accepted': 'yes'})}"
    text = " ".join(parts)
    tone = "danger" if over else "caution"
    state = f"{over} {soon} {counts['last']}"
    return Item("credentials", over + soon, "Credentials ending", "file-key", tone, text, "See which", url, state)


def _ending(now: datetime) -> Q:
    """Of ``ENDING``, by two indexes; without certificates that are renewed in their last week anyway."""
    return Q(name__in=ClusterFacts.objects.filter(certificate_expiry.needs_somebody(now)).values("cluster"))


def _removals(visible: QuerySet[Any], now: datetime) -> Item | None:
    stuck = visible.filter(deleted_at__lt=now - STUCK).order_by("deleted_at")
    rows = list(stuck.values_list("name", "uid", "deleted_at"))
    if not rows:
        return None
    (name, _, since), (_, newest, _) = rows[0], rows[-1]
    text = f"Longest: {name}, {span(now - since)}."
    url = f"{reverse('clusters:list')}?{urlencode({'status': Word.REMOVING.value, 'for': '10m'})}"
    return Item(
        "removals", len(rows), "Removals stuck", "trash-2", "warn", text, "Show blockers", url, f"{len(rows)} {newest}"
    )


def _leases(visible: QuerySet[Any]) -> Item | None:
    """Accepted clusters whose ``leaseDurationSeconds`` reaches the bound: their silence would be found late."""
    found = visible.filter(LONG_LEASE)
    names = list(found.order_by("name").values_list("name", flat=True)[:MOST_READ])
    if not names:
        return None
    total = len(names) if len(names) < MOST_READ else found.count()
    late = span(silence_grace(LONGEST_LEASE_SECONDS))
    text = f"{names[0]}: silence is found after {late} only, because its leaseDurationSeconds is a day or more."
    url = reverse("clusters:detail", args=[names[0]])
    return Item(
        "leases",
        total,
        "Long leases",
        Word.SILENT.icon,
        "caution",
        text,
        "Open cluster",
        url,
        _digest([*names, total]),
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
    rows = services.waiting_requests(actor)
    waiting = list(rows[:MOST_READ])
    if not waiting:
        return None
    total = len(waiting) if len(waiting) < MOST_READ else rows.count()
    first, url = waiting[0], reverse("access:requests")
    what = " ".join(filter(None, (first.verb, first.resource.partition(".")[0], first.name)))
    text = f"{first.user} would like to {what}."
    return Item(
        "access",
        total,
        "Access requested",
        "users",
        "accent",
        text,
        "Answer",
        url,
        _digest([*(row.pk for row in waiting), total]),
    )


def _second_approvals(actor: Actor) -> Item | None:
    """Somebody has proposed what takes another person, and this one may approve it or is to have it done."""
    found = decisions.needs(actor)
    if not found:
        return None
    first, label = found[0], f"Second approval{'' if len(found) == 1 else 's'}"
    title = acts.kind_of(first.act).title.format(subject=first.subject)
    missing = (
        "Enough people approved it, and it is not done." if decisions.is_complete(first) else "It takes another person."
    )
    text = f"{first.proposed_by} proposed: {title}. {missing}"
    one = reverse("second-approval:detail", args=[first.pk])
    url = one if len(found) == 1 else reverse("second-approval:list")
    state = _digest(each.digest for each in found)
    return Item("second-approval", len(found), label, "user-check", "accent", text, "Look at it", url, state)


def _digest(things: Iterable[object]) -> str:
    """Changes when one of them does, or is another."""
    return sha256("\n".join(sorted(map(str, things))).encode()).hexdigest()[:16]
