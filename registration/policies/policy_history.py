"""What a policy would have done: every cluster that asked to join lately and fits it, and what people decided.

Reads only, of clusters that the actor may see. Names and tokens of the policy narrow what the database gives, so that
the bound counts requests that they fit, and it says whether earlier ones were left out. Of a decided request it says
that it fits and who decided what; the verdict of that day is in the audit for those that a page decided, and is not
read here. Only of a waiting one it says whether it would be accepted now.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any

from clusters import queries as clusters
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clustersets import queries as sets
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.models import AuditEvent
from registration.evidence import assessment
from registration.evidence.assessment import Verdict
from registration.keys import key_history
from registration.models import Decline
from registration.policies import policy_matching, policy_reconcilers
from registration.policies.policy_matching import Arrival

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from registration.models import ApprovalPolicy

SHOWN_SINCE = timedelta(days=30)  # of arrivals that a policy would have met
MOST = 500  # arrivals of the policy's names and tokens, the newest
ACCEPTED = "managedcluster:accept"


class PolicyOutcome(StrEnum):
    ACCEPTED = "accepted"
    DECLINED = "declined"
    WAITING = "waiting"
    NONE = "no decision"


@dataclass(frozen=True, slots=True)
class Past:
    """One request to join that fits. ``verdict`` is today's, of one that waits."""

    name: str
    asked: datetime
    address: str
    outcome: PolicyOutcome
    by: str = ""
    reason: str = ""
    verdict: str = ""

    @property
    def is_warning(self) -> bool:
        """A person said no where the policy might have said yes."""
        return self.outcome is PolicyOutcome.DECLINED

    @property
    def is_let_in_now(self) -> bool:
        return self.outcome is PolicyOutcome.WAITING and self.verdict == Verdict.SAFE


@dataclass(frozen=True, slots=True)
class DryRun:
    """``past`` is newest first; ``is_cut`` if more asked than were looked at."""

    past: list[Past]
    is_cut: bool


def dry_run(actor: Actor, policy: ApprovalPolicy) -> DryRun:
    """A policy that is not stored yet can be asked too."""
    asked = _registrations(actor, policy)
    events = [event for event in asked[:MOST] if not policy_matching.misfit(policy, _arrival(event))]
    names = {event.name for event in events}
    accepted = _newest(AuditEvent.objects.filter(act=ACCEPTED, name__in=names, outcome="allowed").order_by("time"))
    declined = {each.cluster: each for each in Decline.objects.filter(cluster__in=names).order_by("declined_at")}
    rows = {row.uid: row for row in ManagedCluster.objects.filter(name__in=names, deleted_at=None)}
    waiting = {uid: row for uid, row in rows.items() if _waits(row, declined)}
    fits_still = {
        uid for uid, row in waiting.items() if not policy_matching.misfit(policy, policy_reconcilers.arrival_of(row))
    }
    found = assessment.of_all([rows[uid].name for uid in fits_still])
    made = []
    for event in events:
        if event.uid in waiting:
            if event.uid in fits_still:
                made.append(_past(event, PolicyOutcome.WAITING, verdict=str(found[event.name].verdict)))
            continue
        made.append(_decided(event, accepted.get(event.uid), declined.get(event.name)))
    return DryRun(made, is_cut=len(asked) > MOST)


def _registrations(actor: Actor, policy: ApprovalPolicy) -> list[AuditEvent]:
    """The newest whose name and token fit, one more than are looked at.

    No database is asked about the pattern: matching one with many stars would stop a hub on SQLite for days.
    """
    created = AuditEvent.objects.filter(
        resource=MANAGED_CLUSTER.resource,
        verb="create",
        outcome=AuditEvent.Outcome.ALLOWED,
        time__gte=clock.now() - SHOWN_SINCE,
    ).order_by("-time", "-pk")
    if policy.tokens:
        created = created.filter(credential__in=[f"{bootstrap_terms.PREFIX}{token}" for token in policy.tokens])
    if not clusters.sees_all(actor):
        created = created.filter(name__in=clusters.clusters_for(actor).values("name"))
    if policy.pattern:
        named = created.values_list("pk", "name").iterator()
        fitting = (pk for pk, name in named if fnmatchcase(name, policy.pattern))
        created = created.filter(pk__in=list(islice(fitting, MOST + 1)))
    return list(created[: MOST + 1])


def _arrival(event: AuditEvent) -> Arrival:
    """As it came: with the labels that its creation carried, which are the agent's own."""
    asker = key_history.asker_of(event)
    metadata = next((part.get("new") for part in event.diff if part["path"] == "metadata"), None)
    labels = (metadata.get("labels") or {}) if isinstance(metadata, dict) else {}
    chosen = frozenset(sets.sets_of(labels))
    return Arrival(event.name, frozenset({asker.credential}), frozenset({asker.address}), chosen)


def _newest(events: Any) -> dict[str, AuditEvent]:
    return {event.uid: event for event in events}


def _waits(row: ManagedCluster, declined: dict[str, Decline]) -> bool:
    decline = declined.get(row.name)
    return not row.hub_accepts_client and (decline is None or decline.lifted_at is not None)


def _decided(event: AuditEvent, accepted: AuditEvent | None, decline: Decline | None) -> Past:
    if decline is not None and decline.declined_at >= event.time and decline.lifted_at is None:
        return _past(event, PolicyOutcome.DECLINED, by=decline.declined_by, reason=decline.reason)
    if accepted is not None:
        return _past(event, PolicyOutcome.ACCEPTED, by=_who(accepted))
    return _past(event, PolicyOutcome.NONE)


def _who(accepted: AuditEvent) -> str:
    """A policy accepts as a person, who did not look."""
    policy = accepted.credential.removeprefix(policy_reconcilers.POLICY)
    return accepted.user if policy == accepted.credential else f"the policy {policy}, as {accepted.user}"


def _past(event: AuditEvent, outcome: PolicyOutcome, **details: str) -> Past:
    return Past(name=event.name, asked=event.time, address=event.address, outcome=outcome, **details)
