"""Certificates of a cluster's agents as its page shows them: lives, approvers, changes of key, what waits. Reads only.

Organization and name of a certificate that counts for a cluster are exactly that cluster's (H35), so they need no
second reading of the certificate. Called by the pages of identity, and gives the cluster's stream its requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Count, Exists, OuterRef, Q, Value, When

from clusters.cluster import related_events
from clusters.health import certificate_expiry
from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import bootstrap_terms
from registration import queries
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import AcceptedKey, CertificateSigningRequest, Decline, IssuedCertificate
from registration.pki import agent_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

    from ocmconsole.kubeapi.access.actor import Actor

SHOWN = 15  # certificates, the newest; earlier ones are counted
WINDOW = 0.25  # G25: of the life is left when agents begin to renew; ``certificate_expiry.LATEST`` when they must have
WIDTH = 1000  # of the drawing of a life, in its own units, which the page scales
State = CertificateSigningRequest.State


@dataclass(frozen=True, slots=True)
class CertificateLife:
    """One certificate. ``start`` and ``width`` place it on the common axis, in thousandths."""

    issued: IssuedCertificate
    state: str
    tone: str
    approver: str
    how: str
    has_new_key: bool
    start: int
    width: int

    @property
    def organization(self) -> str:
        return agent_names.group_of(self.issued.cluster)

    @property
    def window_opens(self) -> datetime:
        return self.issued.not_after - (self.issued.not_after - self.issued.not_before) * WINDOW

    @property
    def latest_renewal(self) -> datetime:
        return certificate_expiry.latest_renewal(self.issued.not_before, self.issued.not_after)


@dataclass(frozen=True, slots=True)
class Lives:
    """Newest first. ``now`` is its place on the axis; ``earlier`` is how many are not shown."""

    lives: list[CertificateLife]
    current: CertificateLife | None
    begins: datetime | None
    ends: datetime | None
    now: int
    earlier: int

    @property
    def valid(self) -> list[CertificateLife]:
        return [life for life in self.lives if life.state in {"Current", "Valid"}]


def certificate_lives(cluster: str, now: datetime) -> Lives:
    """Three queries, however many certificates there are."""
    rows = list(IssuedCertificate.objects.filter(cluster=cluster).order_by("-not_before", "-not_after")[: SHOWN + 1])
    earlier = IssuedCertificate.objects.filter(cluster=cluster).count() - SHOWN if len(rows) > SHOWN else 0
    keys = {each.fingerprint: each for each in AcceptedKey.objects.filter(cluster=cluster)}
    shown, before = rows[:SHOWN], rows[1:]
    if not shown:
        return Lives([], None, None, None, 0, 0)
    begins, ends = min(row.not_before for row in shown), max(*(row.not_after for row in shown), now)
    axis = ends - begins
    newest = next((row.pk for row in shown if _lives(row, now)), "")
    former = [row.key_fingerprint for row in before]
    lives = []
    for index, row in enumerate(shown):
        key = keys.get(row.key_fingerprint)
        status, tone = state_of_certificate(row, now, newest)
        lives.append(
            CertificateLife(
                issued=row,
                state=status,
                tone=tone,
                approver=key.accepted_by if key else "",
                how=key.how if key else "",
                has_new_key=index < len(former) and former[index] != row.key_fingerprint,
                start=_place(row.not_before - begins, axis),
                width=max(4, _place((row.revoked_at or row.not_after) - row.not_before, axis)),
            )
        )
    current = next((life for life in lives if life.issued.pk == newest), None)
    return Lives(lives, current, begins, ends, _place(now - begins, axis), earlier)


def _lives(row: IssuedCertificate, now: datetime) -> bool:
    return row.revoked_at is None and row.not_before <= now < row.not_after


def state_of_certificate(row: IssuedCertificate, now: datetime, newest: str) -> tuple[str, str]:
    """Word and tone. ``newest`` is the fingerprint of the certificate that counts for the cluster."""
    if row.revoked_at is not None:
        return "Revoked", "danger"
    if row.not_after <= now:
        return "Ended", "quiet"
    return ("Current", "ok") if row.pk == newest else ("Valid", "info")


def _place(part: timedelta, whole: timedelta) -> int:
    return round(max(0.0, min(1.0, part / whole)) * WIDTH) if whole else 0


# ---------------------------------------------------------------- all certificates of agents, counted


def of_clusters() -> QuerySet[Any]:
    """Those of agents: ``in_use`` marks the one that counts for its cluster, ``is_present`` that the cluster exists."""
    counting = ClusterFacts.objects.filter(cluster=OuterRef("cluster"), certificate_fingerprint=OuterRef("pk"))
    present = ManagedCluster.objects.filter(name=OuterRef("cluster"))
    rows = IssuedCertificate.objects.exclude(cluster="")
    return rows.annotate(in_use=Exists(counting), is_present=Exists(present))


ALIKE = ("in_use", "is_present", "standing", "period")


class CertificateBucket(StrEnum):
    """Each certificate is in exactly one expiry bucket; ``WEEK`` and ``MONTH`` narrow those in use."""

    IN_USE = ""
    ENDED = "ended"
    WEEK = "week"
    MONTH = "month"
    REPLACED = "replaced"
    REMOVED = "removed"
    REVOKED = "revoked"
    OVER = "past"


def bucket_conditions(now: datetime) -> dict[CertificateBucket, Q]:
    """Of rows of ``of_clusters``. Every page that counts certificates counts these."""
    standing, honoured = Q(revoked_at=None), Q(revoked_at=None, not_after__gt=now)
    counting = Q(in_use=True, is_present=True)
    used = honoured & counting
    return {
        CertificateBucket.IN_USE: used,
        CertificateBucket.ENDED: standing & counting & Q(not_after__lte=now),
        CertificateBucket.WEEK: used & Q(not_after__lte=now + certificate_expiry.WEEK),
        CertificateBucket.MONTH: used & Q(not_after__lte=now + certificate_expiry.SOON),
        CertificateBucket.REPLACED: honoured & Q(in_use=False, is_present=True),
        CertificateBucket.REMOVED: honoured & Q(is_present=False),
        CertificateBucket.REVOKED: ~standing,
        CertificateBucket.OVER: standing & Q(not_after__lte=now) & ~counting,
    }


def count_by_bucket(rows: QuerySet[Any], now: datetime) -> dict[CertificateBucket, int]:
    """How many of these rows are in each expiry bucket, in one query that looks at cluster and facts of each once."""
    ends = [now, now + certificate_expiry.WEEK, now + certificate_expiry.SOON]
    period = Case(
        *(When(not_after__lte=end, then=Value(number)) for number, end in enumerate(ends)), default=Value(len(ends))
    )
    standing = Case(When(revoked_at=None, then=Value(1)), default=Value(0))
    sorts = rows.annotate(period=period, standing=standing).order_by()
    found = dict.fromkeys(CertificateBucket, 0)
    for in_use, is_present, is_standing, ends_in, count in sorts.values_list(*ALIKE).annotate(n=Count("pk")):
        counting = in_use and is_present
        for bucket in _buckets_of(counting=counting, is_present=is_present, is_standing=is_standing, ends=ends_in):
            found[bucket] += count
    return found


def _buckets_of(*, counting: bool, is_present: bool, is_standing: bool, ends: int) -> Iterator[CertificateBucket]:
    """As ``bucket_conditions``; ``ends`` counts the periods until the end: 0 is over."""
    if not is_standing:
        yield CertificateBucket.REVOKED
    elif not ends:
        yield CertificateBucket.ENDED if counting else CertificateBucket.OVER
    elif counting:
        yield CertificateBucket.IN_USE
        if ends <= 1:
            yield CertificateBucket.WEEK
        if ends <= 2:  # noqa: PLR2004 - the second period
            yield CertificateBucket.MONTH
    else:
        yield CertificateBucket.REPLACED if is_present else CertificateBucket.REMOVED


def count_overdue(now: datetime) -> int:
    """G25: how many of those that end within a week should have been renewed by now."""
    ending = of_clusters().filter(bucket_conditions(now)[CertificateBucket.WEEK]).values_list("not_before", "not_after")
    return sum(certificate_expiry.is_overdue(begins, ends, now) for begins, ends in ending)


def count_honoured(found: dict[CertificateBucket, int]) -> int:
    """How many of them open something now."""
    return found[CertificateBucket.IN_USE] + found[CertificateBucket.REPLACED] + found[CertificateBucket.REMOVED]


# ---------------------------------------------------------------- of one cluster


def valid_of(cluster: str, now: datetime) -> list[IssuedCertificate]:
    """What would still be honoured if it were shown."""
    rows = IssuedCertificate.objects.filter(cluster=cluster, revoked_at=None, not_after__gt=now)
    return list(rows.order_by("-not_before"))


def pending_of(cluster: str) -> list[CertificateSigningRequest]:
    return queries.waiting_requests(cluster)


def rejected_of(cluster: str) -> list[Decline]:
    """The newest, lifted ones too; requests that were denied are themselves forgotten after an hour."""
    return list(Decline.objects.filter(cluster=cluster).order_by("-declined_at")[:SHOWN])


def failed_of(cluster: str) -> list[CertificateSigningRequest]:
    return list(queries.requests_of(cluster).filter(state=State.FAILED)[:SHOWN])


@related_events.trace
def repair_tokens_of_the_cluster(actor: Actor, name: str) -> Q:  # noqa: ARG001 - who sees a cluster sees who repairs it
    """Their entries are under the ids of tokens."""
    own = BootstrapToken.objects.filter(cluster=name, key_line__isnull=False).values("pk")
    return Q(resource=bootstrap_terms.PLURAL, namespace="", name__in=own)


@related_events.trace
def requests_of_the_cluster(actor: Actor, name: str) -> Q:  # noqa: ARG001 - who sees a cluster sees who asked for it
    """Requests are soon deleted, their names stay with the keys, certificates and declines that came of them."""
    names = (
        CertificateSigningRequest.objects.filter(cluster=name).values("name"),
        *(model.objects.filter(cluster=name).values("request") for model in (AcceptedKey, IssuedCertificate, Decline)),
    )
    named = Q()
    for each in names:
        named |= Q(name__in=each)
    return Q(resource__in=(CSR.resource, f"{CSR.plural}/approval.{CSR.group}"), namespace="") & named
