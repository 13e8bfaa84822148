"""Activity: Events and audit as one stream, limited to the clusters that the user may see (D16).

Users with ``kubeapi.view_auditevent`` read all of it. Others read what was done to clusters, sets and certificate
requests that they see, and what they did themselves.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.shortcuts import render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clusters.cluster.related_events import OWN
from clusters.kinds import MANAGED_CLUSTER
from clustersets import queries as clustersets
from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.components import downloads, trail
from ocmconsole.components.links import query_of
from ocmconsole.core.models import Event
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.models import AuditEvent, AuditPermission
from ocmconsole.kubeapi.storage import audit_acts, audit_chain
from registration.kinds import CERTIFICATE_SIGNING_REQUEST
from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet
    from django.http import HttpRequest, StreamingHttpResponse
    from django.http.response import HttpResponseBase

    from ocmconsole.kubeapi.access.actor import Actor

EVERYTHING = "all"
SOURCES = ((trail.PEOPLE, "People"), (EVERYTHING, "Everything"), ("audit", "Audit"), ("event", "Events"))
# Acts that people look for first; each is one click.
ASKED_FIRST = (
    ("managedcluster:accept", "Accepted"),
    ("managedcluster:decline", "Declined"),
    ("managedcluster:disconnect", "Disconnected"),
    ("managedcluster:delete", "Removed"),
    ("certificate:revoke", "Certificate revoked"),
    ("permission:grant", "Permission granted"),
    ("session:create", "Signed in"),
)
MONTHS = 3  # the present one and those before it, each one click
KINDS = ("ManagedCluster", "ManagedClusterSet", "ManagedClusterSetBinding", "CertificateSigningRequest",
         "ManagedClusterAddOn", "ManifestWork", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")  # fmt: skip
VERBS = ("create", "update", "patch", "delete")
FILTERS = ("source", "act", "kind", "actor", "verb", "resource", "name", "namespace", "since", "until")
LONGEST = 320  # characters of a filter; a user name has no more
EXPORTED_AT_ONCE = 1_000  # rows of one query


def reads_all(actor: Actor) -> bool:
    return authorization.permitted(actor, AuditPermission.VIEW).allowed


def audit_for(actor: Actor) -> QuerySet[AuditEvent]:
    """Entries that the actor may read."""
    if reads_all(actor):
        return AuditEvent.objects.all()
    names = clusters.clusters_for(actor).order_by().values("name")
    sets = clustersets.sets_for(actor).order_by().values("name")
    requests = CertificateSigningRequest.objects.filter(cluster__in=names).values("name")
    return AuditEvent.objects.filter(
        Q(user=actor.user)
        | Q(resource__in=OWN, namespace="", name__in=names)
        | Q(resource=MANAGED_CLUSTER_SET.resource, name__in=sets)
        | Q(resource=CERTIFICATE_SIGNING_REQUEST.resource, name__in=requests)
    )


def events_for(actor: Actor) -> QuerySet[Event]:
    if reads_all(actor):
        return Event.objects.all()
    names = clusters.clusters_for(actor).order_by().values("name")
    return Event.objects.filter(regarding_kind=MANAGED_CLUSTER.kind, regarding_name__in=names)


@login_required
@require_GET
def activity(request: HttpRequest) -> HttpResponseBase:
    """The stream, newest first, filtered by the address. Without a filter it shows what people did."""
    actor = actor_of(request)
    given = {name: request.GET.get(name, "").replace("\0", "").strip()[:LONGEST] for name in FILTERS}
    denied = bool(request.GET.get("denied"))
    chosen = {name: value for name, value in given.items() if value} | ({"denied": "1"} if denied else {})
    is_export = bool(request.GET.get("export"))  # of the audit: of all of it where no filter narrows it
    source = given["source"] or (EVERYTHING if chosen or is_export else trail.PEOPLE)
    wanted = trail.TrailFilters(
        source="" if source == EVERYTHING else source,
        act=given["act"],
        kind=given["kind"],
        actor=given["actor"],
        verb=given["verb"],
        outcome=AuditEvent.Outcome.DENIED if denied else "",
    )
    events, audit = _narrowed(events_for(actor), audit_for(actor), given)
    found = trail.trail_page(events, audit, wanted, after=request.GET.get("after", ""))
    all_of_it = reads_all(actor)
    context = {
        "page": found,
        "stream": trail.folded(found.entries),
        "wanted": wanted,
        "given": given,
        "denied": denied,
        "sources": [
            {"label": label, "url": query_of({**chosen, "source": value}), "current": value == source}
            for value, label in SOURCES
        ],
        "asked_first": [_choice(chosen, label, act=name) for name, label in ASKED_FIRST],
        "months": [
            _choice(chosen, f"{first:%B}", since=str(first), until=str(after)) for first, after in _months(clock.now())
        ],
        "acts": _acts(given["act"]),
        "kinds": KINDS,
        "verbs": VERBS,
        "chips": [
            {"label": f"{name.capitalize()}: {given[name]}", "url": query_of({**chosen, name: ""})}
            for name in ("resource", "name", "namespace", "since", "until")
            if given[name]
        ],
        "is_filtered": bool(chosen.keys() - {"source"}),
        "next_after": found.next,
        "export_url": query_of({**chosen, "export": "jsonl"}),
        "reads_all": all_of_it,
        "seal": audit_chain.newest_seal() if all_of_it else None,
    }
    if is_export:
        return _export(actor, trail.audit_rows(audit, wanted))
    return render(request, "console/activity.html", context)


def _acts(wanted: str) -> list[tuple[str, str]]:
    """Acts to filter by with their sentences, by sentence; one that is asked for is always among them."""
    found = {name: act.done for name, act in audit_acts.declared().items()} | dict(ASKED_FIRST)
    if wanted:
        found.setdefault(wanted, wanted)
    return sorted(found.items(), key=lambda each: each[1])


def _choice(chosen: dict[str, str], label: str, **asked: str) -> dict[str, Any]:
    """A link that sets these filters, or takes them off where they are set already."""
    current = all(chosen.get(name) == value for name, value in asked.items())
    return {
        "label": label,
        "current": current,
        "url": query_of({**chosen, **(dict.fromkeys(asked, "") if current else asked)}) or "?",
    }


def _months(now: datetime) -> list[tuple[date, date]]:
    """First day and the day after the last one, UTC, the present month first."""
    first, found = now.astimezone(UTC).date().replace(day=1), []
    after = (first + timedelta(days=31)).replace(day=1)
    for _ in range(MONTHS):
        found.append((first, after))
        first, after = (first - timedelta(days=1)).replace(day=1), first
    return found


def _narrowed(
    events: QuerySet[Event], audit: QuerySet[AuditEvent], given: dict[str, str]
) -> tuple[QuerySet[Event], QuerySet[AuditEvent]]:
    """By object and by day; a resource is the audit's word for it, of which Events know the kind alone."""
    if given["resource"]:
        audit = audit.filter(
            Q(resource=given["resource"]) | Q(resource__startswith=f"{given['resource']}.")
            | Q(resource__startswith=f"{given['resource']}/")
        )  # fmt: skip
        events = events.filter(regarding_kind=trail.kind_of(given["resource"]) or "-")
    if given["name"]:
        audit, events = audit.filter(name=given["name"]), events.filter(regarding_name=given["name"])
    if given["namespace"]:
        audit = audit.filter(namespace=given["namespace"])
        events = events.filter(regarding_namespace=given["namespace"])
    if since := _day(given["since"]):
        audit, events = audit.filter(time__gte=since), events.filter(last_seen__gte=since)
    if until := _day(given["until"]):
        audit, events = audit.filter(time__lt=until), events.filter(last_seen__lt=until)
    return events, audit


def _day(text: str) -> datetime | None:
    try:
        found = parse_date(text)
    except ValueError:
        return None
    return datetime(found.year, found.month, found.day, tzinfo=UTC) if found else None


def _export(actor: Actor, rows: QuerySet[AuditEvent]) -> StreamingHttpResponse:
    """What the filter leaves of the audit, as ``manage.py audit export`` writes it."""
    return downloads.download(_lines(rows), reader=actor.user, name="audit.jsonl", content_type="application/jsonl")


def _lines(rows: QuerySet[AuditEvent]) -> Iterator[bytes]:
    """In parts, so that a slow reader holds no cursor of the database open."""
    last = audit_chain.FIRST
    while part := list(rows.filter(pk__gt=last).order_by("pk")[:EXPORTED_AT_ONCE]):
        for entry in part:
            yield audit_chain.line(entry) + b"\n"
        last = part[-1].pk
