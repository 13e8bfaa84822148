"""The tab of events and audit: what happened to a cluster and what belongs to it, as one stream with filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.cluster import related_events
from clusters.cluster.page_frame import Opened, tab
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.components import trail
from ocmconsole.components.links import query_of
from ocmconsole.components.trail import TrailFilters

if TYPE_CHECKING:
    from django.http import HttpRequest

SOURCES = (("", "All"), ("event", "Events"), ("audit", "Audit"))
KINDS = (MANAGED_CLUSTER.kind, "CertificateSigningRequest", MANAGED_CLUSTER_ADDON.kind, MANIFEST_WORK.kind)
VERBS = ("create", "update", "patch", "delete")
LONGEST = 320  # characters of a filter; a user name has no more


@tab("events", "Events & audit", "clusters/cluster/events.html")
def events_and_audit(request: HttpRequest, cluster: Opened) -> dict[str, Any]:
    given = {
        name: request.GET.get(name, "").replace("\0", "")[:LONGEST] for name in ("source", "kind", "actor", "verb")
    }
    wanted = TrailFilters(**given, outcome="denied" if request.GET.get("denied") else "")
    found = trail.trail_page(
        related_events.events_of(cluster.actor, cluster.name),
        related_events.audit_of(cluster.actor, cluster.name),
        wanted,
        after=request.GET.get("after", ""),
    )
    chosen = {name: value for name, value in given.items() if value}
    if wanted.outcome:
        chosen["denied"] = "1"
    return {
        "page": found,
        "wanted": wanted,
        "sources": [
            {"label": label, "url": query_of({**chosen, "source": value}), "current": value == wanted.source}
            for value, label in SOURCES
        ],
        "kinds": KINDS,
        "verbs": VERBS,
        "is_filtered": bool(chosen),
        "next_after": found.next,
        "commands": [f"kubectl events -A --for managedcluster/{cluster.name}"],
    }
