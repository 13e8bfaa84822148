"""The status vocabulary: what state a cluster is in, since when, why, and what to do next.

One pure function over facts and a time; no database, no clock. Pages, columns and metrics all use its words.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ocmconsole.components.labelled_enum import LabelledEnum
from ocmconsole.environment.durations import span

LATE_LEASES = 2  # lease durations without a heartbeat, of the five after which it is silent
GRACE_LEASES = 5  # lease durations without a renewal, after which Available is Unknown (H16) and the cluster silent


def silence_grace(lease_seconds: int) -> timedelta:
    """H16: a cluster is silent five lease durations after the last renewal."""
    return timedelta(seconds=GRACE_LEASES * lease_seconds)


class Word(LabelledEnum):
    """In the order of the rules: the first that applies is the state. The value is stable; label and tone are shown."""

    REMOVING = "removing", "Removing", "warn", "trash-2"
    DECLINED = "declined", "Declined", "quiet", "user-x"
    NEEDS_REVIEW = "needs-review", "Needs review", "accent", "inbox"
    DISCONNECTED = "disconnected", "Disconnected", "warn", "unplug"
    REVOKED = "credential-revoked", "Credential revoked", "danger", "ban"
    WAITING = "waiting-for-certificate", "Waiting for certificate", "accent", "file-clock"
    JOINING = "joining", "Joining", "info", "log-in"
    EXPIRED = "credential-expired", "Credential expired", "danger", "file-key"
    SILENT = "silent", "Silent", "danger", "wifi-off"
    LATE = "late", "Late", "caution", "clock"
    CLOCK_SKEW = "clock-skew", "Clock skew", "caution", "clock-alert"
    UNHEALTHY = "api-unhealthy", "API unhealthy", "danger", "octagon-x"
    MAINTENANCE = "maintenance", "Maintenance", "quiet", "wrench"
    HEALTHY = "healthy", "Healthy", "ok", "circle-check"
    UNKNOWN = "unknown", "Unknown", "quiet", "circle-dashed"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the word is derived from. Conditions are their statuses on the wire, empty when absent."""

    created: datetime
    deleted_at: datetime | None = None
    deleting_message: str = ""
    hub_accepts: bool = False
    accepted: str = ""
    accepted_since: datetime | None = None
    joined: str = ""
    available: str = ""
    available_since: datetime | None = None
    available_message: str = ""
    clock_synced: str = ""
    clock_since: datetime | None = None
    clock_skew: timedelta | None = None
    lease_seconds: int = 60
    last_heard: datetime | None = None
    # Until the hub calls it silent if nothing comes (``verdicts.time_left``); None: a grace after it was last heard.
    grace_left: timedelta | None = None
    decision: str = ""
    decided_by: str = ""
    decided_at: datetime | None = None
    decision_reason: str = ""
    certificate_not_before: datetime | None = None
    certificate_not_after: datetime | None = None
    certificate_revoked_at: datetime | None = None
    certificate_revoked_by: str = ""
    certificate_revocation_reason: str = ""
    in_maintenance: bool = False
    maintenance_since: datetime | None = None
    maintenance_by: str = ""
    maintenance_reason: str = ""
    maintenance_until: datetime | None = None
    maintenance_means: str = ""  # what the effect of its taint does, as a sentence

    @property
    def grace(self) -> timedelta:
        return silence_grace(self.lease_seconds)

    @property
    def decided_in_this_life(self) -> bool:
        """A decision about an earlier cluster of this name says nothing about this one."""
        return self.decided_at is not None and self.decided_at >= self.created


class NextStepPage(StrEnum):
    """Pages of a cluster on which the next step is done."""

    REQUEST = "request"
    RECONNECT = "reconnect"
    IDENTITY = "identity"
    HEALTH = "health"
    MAINTENANCE = "maintenance"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do next: on a page, with a command, or both. A command is for the cluster itself unless ``on_hub``."""

    text: str
    page: NextStepPage | None = None
    command: str = ""
    on_hub: bool = False


AGENT_NAMESPACE = "open-cluster-management-agent"
AGENT_LOG = f"kubectl -n {AGENT_NAMESPACE} logs deployment/klusterlet-registration-agent --tail=50"
# The agent then asks anew with its bootstrap kubeconfig.
BOOTSTRAP_AGAIN = (
    f"kubectl -n {AGENT_NAMESPACE} delete secret hub-kubeconfig-secret --ignore-not-found",
    f"kubectl -n {AGENT_NAMESPACE} rollout restart deployment klusterlet-registration-agent",
)


@dataclass(frozen=True, slots=True)
class Status:
    """``why`` is what the hub makes of it and never repeats a condition's message, which stands elsewhere."""

    word: Word
    since: datetime | None
    sentence: str
    why: str
    next: NextStep | None = None
    silent_at: datetime | None = None  # of one that is late, while that lies ahead

    @property
    def tone(self) -> str:
        return self.word.tone


def status_of(facts: Facts, now: datetime) -> Status:
    """First match wins."""
    if facts.deleted_at is not None:
        return _removing(facts, facts.deleted_at, now)
    if not facts.hub_accepts:
        return _outside(facts, now)
    if facts.certificate_revoked_at is not None:
        return _revoked(facts, facts.certificate_revoked_at, now)
    if facts.joined != "True":
        return _entering(facts, now)
    return _inside(facts, now)


def _removing(facts: Facts, since: datetime, now: datetime) -> Status:
    return Status(
        Word.REMOVING,
        since,
        f"Removing for {span(now - since)}. {facts.deleting_message}".strip(),
        "Somebody deleted the cluster; finalizers hold it until the hub has cleaned up after it.",
        NextStep("See what holds it, and what giving up would leave behind.", NextStepPage.REMOVE),
    )


# ---------------------------------------------------------------- not let in


def _outside(facts: Facts, now: datetime) -> Status:
    if facts.decision == "declined" and not _accepted_after_decision(facts):
        return _declined(facts, now)
    if facts.accepted or (facts.decided_in_this_life and facts.decision in {"accepted", "disconnected"}):
        return _disconnected(facts, now)
    return Status(
        Word.NEEDS_REVIEW,
        facts.created,
        f"Asked to join {_ago(facts.created, now)}.",
        "Nobody has accepted or declined it.",
        NextStep("Compare the evidence of its request, then accept or decline it.", NextStepPage.REQUEST),
    )


def _accepted_after_decision(facts: Facts) -> bool:
    """The condition exists only once the hub has let the cluster in."""
    decided, accepted = facts.decided_at, facts.accepted_since
    return decided is not None and accepted is not None and accepted > decided


def _declined(facts: Facts, now: datetime) -> Status:
    reason = f": {facts.decision_reason}" if facts.decision_reason else "."
    return Status(
        Word.DECLINED,
        facts.decided_at,
        f"Declined by {facts.decided_by}, {_ago(facts.decided_at, now)}{reason}",
        "A person declined the request; its agent gets nothing.",
        NextStep("Let it ask again if that was wrong.", NextStepPage.REQUEST),
    )


def _disconnected(facts: Facts, now: datetime) -> Status:
    known = facts.decision == "disconnected" and facts.decided_in_this_life
    since = facts.decided_at if known else facts.accepted_since
    by = f" by {facts.decided_by}" if known else ""
    reason = f" Reason: {facts.decision_reason}" if known and facts.decision_reason else ""
    return Status(
        Word.DISCONNECTED,
        since,
        f"Disconnected{by} {_ago(since, now)}. Agent rights withdrawn.{reason}",
        "It was accepted once and hubAcceptsClient is false now.",
        NextStep("Reconnect it, with the certificate that it has.", NextStepPage.RECONNECT),
    )


# ---------------------------------------------------------------- let in, not there yet


def _revoked(facts: Facts, since: datetime, now: datetime) -> Status:
    by = f" by {facts.certificate_revoked_by}" if facts.certificate_revoked_by else ""
    reason = f": {facts.certificate_revocation_reason.rstrip('.')}" if facts.certificate_revocation_reason else ""
    return Status(
        Word.REVOKED,
        since,
        f"Its certificate was revoked{by} {_ago(since, now)}{reason}. The agent cannot speak.",
        "The hub refuses the last certificate of its agent, and no other one is valid.",
        NextStep(
            "Make a repair manifest for its agent. If all its keys were revoked, let it ask with a bootstrap token and"
            " accept that key by an override.",
            NextStepPage.IDENTITY,
            BOOTSTRAP_AGAIN[0],
        ),
    )


def _entering(facts: Facts, now: datetime) -> Status:
    ends = facts.certificate_not_after
    if ends is None or ends <= now:
        return Status(
            Word.WAITING,
            facts.accepted_since,
            "Accepted; its certificate request has not arrived or is not approved.",
            "No certificate that is valid now has been issued for it.",
            NextStep(
                "Approve its certificate request; if there is none, read the agent's log.",
                NextStepPage.REQUEST,
                AGENT_LOG,
            ),
        )
    since = max(filter(None, (facts.certificate_not_before, facts.accepted_since)), default=None)
    return Status(
        Word.JOINING,
        since,
        "The certificate is issued; the agent has not reported yet.",
        "The condition ManagedClusterJoined is not True.",
        NextStep(
            "If it stays so, the agent cannot reach the hub with its new certificate: read its log.", None, AGENT_LOG
        ),
    )


# ---------------------------------------------------------------- let in and joined


def _inside(facts: Facts, now: datetime) -> Status:
    ends = facts.certificate_not_after
    if ends is not None and ends <= now:
        return Status(
            Word.EXPIRED,
            ends,
            f"Its certificate ended {_ago(ends, now)}; the agent cannot speak.",
            "The last certificate is past its end and was not renewed.",
            NextStep(
                "Make a repair manifest for its agent, or accept the new key with which it asks.",
                NextStepPage.IDENTITY,
                BOOTSTRAP_AGAIN[0],
            ),
        )
    if facts.available == "Unknown":
        return _silent(facts, now)
    heard = facts.last_heard
    if heard is not None and now - heard > timedelta(seconds=LATE_LEASES * facts.lease_seconds):
        return _late(facts, heard, now)
    return _speaking(facts, now)


def _silent(facts: Facts, now: datetime) -> Status:
    heard = f"Last heard {_ago(facts.last_heard, now)}" if facts.last_heard else "Never heard"
    return Status(
        Word.SILENT,
        facts.available_since,
        f"{heard} (limit {span(facts.grace)}).",
        f"No heartbeat came for {span(facts.grace)}: its agent is down, cut off from the hub, or the cluster is gone.",
        NextStep("See on the cluster whether its agent runs, and what it says.", NextStepPage.HEALTH, AGENT_LOG),
    )


def _late(facts: Facts, heard: datetime, now: datetime) -> Status:
    left = facts.grace_left if facts.grace_left is not None else heard + facts.grace - now
    ahead = f"Unknown in {span(left)}" if left > timedelta() else "Unknown soon"
    return Status(
        Word.LATE,
        heard + timedelta(seconds=LATE_LEASES * facts.lease_seconds),
        f"Last heard {_ago(heard, now)}; {ahead}.",
        f"It should renew its lease every {span(timedelta(seconds=facts.lease_seconds))}.",
        NextStep("Wait for the next renewal: one or two may be lost on the way.", NextStepPage.HEALTH),
        silent_at=now + left if left > timedelta() else None,
    )


def _speaking(facts: Facts, now: datetime) -> Status:
    if facts.clock_synced == "False":
        return Status(
            Word.CLOCK_SKEW,
            facts.clock_since,
            f"{_skew(facts.clock_skew)} Time zones do not matter.",
            "The agent's renewals carry times too far from the hub's clock, so it withholds its status.",
            NextStep(
                "Set the clocks right (NTP) on the cluster's nodes or on the hub.",
                NextStepPage.HEALTH,
                "timedatectl status",
            ),
        )
    if facts.available == "False":
        message = facts.available_message or "The agent reports that its API server is not well."
        return Status(
            Word.UNHEALTHY,
            facts.available_since,
            message,
            "The agent runs and reaches the hub; the API server of its own cluster does not answer it well.",
            NextStep("Ask that API server what is not well.", None, "kubectl get --raw '/readyz?verbose'"),
        )
    if facts.in_maintenance:
        return _maintained(facts, now)
    if facts.available == "True":
        heard = f"Heard {_ago(facts.last_heard, now)}." if facts.last_heard else "The agent reports that it is well."
        return Status(Word.HEALTHY, facts.available_since, heard, "The agent reports that its API server is well.")
    return Status(
        Word.UNKNOWN,
        facts.accepted_since,
        "The agent has not reported its health yet.",
        "The condition ManagedClusterConditionAvailable is absent.",
        NextStep("Wait a minute, then read the agent's log.", None, AGENT_LOG),
    )


def _maintained(facts: Facts, now: datetime) -> Status:
    until = facts.maintenance_until
    by = f" by {facts.maintenance_by}" if facts.maintenance_by else ""
    reason = f": {facts.maintenance_reason.rstrip('.')}." if facts.maintenance_reason else "."
    return Status(
        Word.MAINTENANCE,
        facts.maintenance_since,
        f"In maintenance{by}{f' until {clock_time(until, now)}' if until else ''}{reason}",
        f"The maintenance taint is set. {facts.maintenance_means}".strip(),
        NextStep(
            f"It ends by itself in {span(until - now)}." if until else "End it when the work is done.",
            NextStepPage.MAINTENANCE,
        ),
    )


# ---------------------------------------------------------------- times in words


def clock_time(moment: datetime, now: datetime) -> str:
    """``18:00``, or with its date when that is not today's; UTC."""
    return moment.strftime("%H:%M") if moment.date() == now.date() else moment.strftime("%d %b %H:%M").lstrip("0")


def _ago(moment: datetime | None, now: datetime) -> str:
    return f"{span(now - moment)} ago" if moment is not None else "at an unknown time"


def _skew(skew: timedelta | None) -> str:
    if skew is None:
        return "The agent's clock differs from the hub's."
    side = "behind" if skew > timedelta() else "ahead of"
    return f"Agent clock {span(abs(skew))} {side} hub."
