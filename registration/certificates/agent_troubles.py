"""What is wrong with an agent, as far as the hub can know: one function for the page, the command and the list.

The hub sees certificates, heartbeats, and which CAs and address it handed out with a token; it does not see what an
agent holds. Reads only. Called by ``manage.py repair`` and the pages of certificates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import DurationField, ExpressionWrapper, F, Q, QuerySet, Value

from clusters import queries as clusters
from clusters.health.certificate_expiry import LATEST, is_overdue
from clusters.health.status import AGENT_LOG, BOOTSTRAP_AGAIN
from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.components.labelled_enum import LabelledEnum
from ocmconsole.core.models import BootstrapTokenUse
from ocmconsole.environment.durations import span
from registration.certificates import ca_rotation
from registration.pki import ca

if TYPE_CHECKING:
    from clusters.queries import Observed

FIFTH = round(1 / LATEST)  # G25: an agent renews before so many times what is left is its whole life
FORGET, RESTART = BOOTSTRAP_AGAIN


class Trouble(LabelledEnum):
    """In the order in which they are looked for; the first that is there is said."""

    REVOKED = "revoked", "Revoked", "danger", "ban"
    NONE = "none", "No certificate", "caution", "file-clock"
    ENDED = "ended", "Ended", "danger", "file-key"
    LATE = "late", "Not renewed", "caution", "clock"
    UNHEARD = "unheard", "Never heard", "caution", "wifi-off"
    LONG_SILENT = "long-silent", "Silent for longer than a certificate lasts", "danger", "wifi-off"
    SILENT = "silent", "Silent", "caution", "wifi-off"
    NOT_GIVEN = "not-given", "Not given the new CA", "caution", "key-round"
    NOTHING = "nothing", "Nothing is wrong", "ok", "circle-check"


@dataclass(frozen=True, slots=True)
class Handed:
    """What was last handed to agents with a token. ``without`` are those whose bundle lacks the CA that signs now."""

    without: Collection[str] = ()
    is_rotating: bool = False
    since: datetime | None = None  # when that CA was made
    # By cluster, the address that it was given, if the hub has another one now.
    moved: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AgentTrouble:
    """``text`` is a sentence or two. ``must_start_over``: a manifest alone may change nothing."""

    kind: Trouble
    text: str
    must_start_over: bool = False

    def commands(self, file: str) -> list[str]:
        """To run on the managed cluster, one after the other, with the manifest as this file.

        The pod keeps the files of the Secret until it goes. The Secret is deleted first: an agent that takes the
        manifest by itself has spent the token by then, and must not lose the certificate that it got for it.
        """
        apply = f"kubectl apply -f {file}"
        return [FORGET, apply, RESTART] if self.must_start_over else [apply]


def what_is_wrong(name: str, now: datetime) -> AgentTrouble:
    """Of one cluster, which is there."""
    found = clusters.observe_clusters(ManagedCluster.objects.filter(name=name), now)
    return trouble_of(found[0], handed([name]), now) if found else AgentTrouble(Trouble.NONE, f"{name} is gone.")


def trouble_of(found: Observed, given: Handed, now: datetime) -> AgentTrouble:
    """Of an accepted cluster."""
    name, facts = found.row.name, found.row.facts or ClusterFacts()
    kind, text = _certificate(facts, now) or _hearing(found, facts, now) or (Trouble.NOTHING, "")
    is_mute = kind not in {Trouble.LATE, Trouble.NOTHING}
    moved, lacks = given.moved.get(name, "") if is_mute else "", name in given.without
    also = ""
    if moved:
        also = f"The hub gave it the address {moved}, and is {settings.OCMCONSOLE_API_URL} now."
    elif lacks and given.is_rotating:
        also = f"It was not given the serving CA of {_day(given.since)}, and loses the hub when the old one is retired."
    elif lacks and is_mute:
        also = f"The serving CA was changed on {_day(given.since)}, after it was last given one: it may refuse the hub."
    elif lacks:
        also = (
            f"The serving CA was changed on {_day(given.since)}, after it was last given one: it is heard over a "
            "connection from before, and loses the hub at the next one, unless somebody gave it the CA by hand."
        )
    if kind is Trouble.NOTHING:
        heard = f"it was heard {span(now - found.last_heard)} ago" if found.last_heard else "it has not been silent"
        ends = facts.certificate_not_after
        fine = f"Nothing is wrong that the hub knows of: {heard}, and its certificate lasts until {_day(ends)}."
        kind, text = (Trouble.NOT_GIVEN, "") if also else (kind, fine)
    holds = facts.certificate_not_after is not None and facts.certificate_not_after > now
    return AgentTrouble(kind, f"{text} {also}".strip(), must_start_over=holds and not moved and not lacks)


def _certificate(facts: ClusterFacts, now: datetime) -> tuple[Trouble, str] | None:
    begins, ends = facts.certificate_not_before, facts.certificate_not_after
    if facts.certificate_revoked_at is not None:
        why = f": {facts.certificate_revocation_reason.rstrip('.')}" if facts.certificate_revocation_reason else ""
        by = f" by {facts.certificate_revoked_by}" if facts.certificate_revoked_by else ""
        ago = span(now - facts.certificate_revoked_at)
        return Trouble.REVOKED, f"Its certificate was revoked{by} {ago} ago{why}."
    if begins is None or ends is None:
        return Trouble.NONE, "The hub has issued no certificate for it."
    if ends <= now:
        return Trouble.ENDED, f"Its certificate ended {span(now - ends)} ago, on {_day(ends)}, and was not renewed."
    if is_overdue(begins, ends, now):
        return Trouble.LATE, f"Its certificate ends in {span(ends - now)}, and its agent should have renewed it by now."
    return None


def _hearing(found: Observed, facts: ClusterFacts, now: datetime) -> tuple[Trouble, str] | None:
    begins, ends = facts.certificate_not_before, facts.certificate_not_after
    assert begins is not None  # or the certificate is what is wrong
    assert ends is not None
    if found.last_heard is None:
        return (
            Trouble.UNHEARD,
            f"It was never heard, and has a certificate since {_day(begins)}: it may not reach the hub.",
        )
    since = found.row.available_since
    if found.row.available != "Unknown":
        return None
    ago = span(now - found.last_heard)
    if since is not None and since + (ends - begins) <= now:
        return Trouble.LONG_SILENT, f"It was last heard {ago} ago, which is longer than its certificates last."
    return (
        Trouble.SILENT,
        f"It was last heard {ago} ago, and its certificate is good: first read its log ({AGENT_LOG}).",
    )


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "an unknown day"


# ---------------------------------------------------------------- those that fell off


FELL_OFF = (Trouble.REVOKED, Trouble.ENDED, Trouble.LATE, Trouble.LONG_SILENT)


def fallen(rows: QuerySet[Any], now: datetime) -> QuerySet[Any]:
    """Those of the clusters that are accepted, with what ``fallen_conditions`` compare."""
    begins, ends = F("facts__certificate_not_before"), F("facts__certificate_not_after")
    length = DurationField()
    found: QuerySet[Any] = rows.filter(hub_accepts_client=True, deleted_at=None).annotate(
        life=ExpressionWrapper(ends - begins, output_field=length),
        left_five_times=ExpressionWrapper((ends - Value(now)) * FIFTH, output_field=length),
        silent_for=ExpressionWrapper(Value(now) - F("available_since"), output_field=length),
    )
    return found


def fallen_conditions(now: datetime) -> dict[Trouble, Q]:
    """As ``trouble_of``, of rows of ``fallen``; a cluster fits one at most."""
    honoured = Q(facts__certificate_revoked_at=None)
    late = Q(left_five_times__lte=F("life"))
    good = honoured & Q(facts__certificate_not_after__gt=now)
    silent = Q(available="Unknown", silent_for__gte=F("life"))
    return {
        Trouble.REVOKED: ~honoured,
        Trouble.ENDED: honoured & Q(facts__certificate_not_after__lte=now),
        Trouble.LATE: good & late,
        Trouble.LONG_SILENT: good & ~late & silent,
    }


def not_given(rows: QuerySet[Any]) -> list[str]:
    """Names of those of the clusters that a rotation of the serving CA under way waits for, in order."""
    given = handed(())
    if not given.is_rotating or not given.without:
        return []
    return sorted(name for name in rows.values_list("name", flat=True) if name in given.without)


# ---------------------------------------------------------------- what was handed out


def handed(names: Iterable[str]) -> Handed:
    """To these clusters. Where the CAs cannot be read nothing is said of them."""
    wanted = list(names)
    last = {use.cluster: use for use in _uses(wanted).order_by("since")}
    moved = {
        name: use.hub_url for name, use in last.items() if use.hub_url and use.hub_url != settings.OCMCONSOLE_API_URL
    }
    try:
        found = ca_rotation.progress_of(ca.AuthorityRole.SERVING)
    except ca.AuthorityError:
        return Handed(moved=moved)
    if found.other is not None:
        return Handed({each.name for each in found.left}, is_rotating=True, since=found.begun, moved=moved)
    # Retired meanwhile: those who were given a bundle before the present CA was made. Without a record nothing is said.
    old = {name for name, use in last.items() if use.since < found.begun}
    return Handed(old, since=found.begun, moved=moved)


def _uses(names: list[str]) -> QuerySet[Any]:
    return BootstrapTokenUse.objects.filter(cluster__in=names)
