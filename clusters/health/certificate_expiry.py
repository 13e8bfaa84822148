"""How long the certificate of a cluster still lasts, and whether its renewal is overdue: in Python and in SQL. Pure.

Every page that counts or colours certificates of clusters asks here; ``registration`` says which certificate of a
cluster that is (``ClusterFacts``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import F, Q

from ocmconsole.components.labelled_enum import LabelledEnum

if TYPE_CHECKING:
    from clusters.models import ClusterFacts

WEEK, SOON = timedelta(days=7), timedelta(days=30)  # before the end: where the buckets part
# G25: an agent renews when between a fifth and a quarter of the life is left: of a year, 73 days.
LATEST = 0.2
SHORT_LIVED = WEEK / LATEST  # what lives for less is renewed in its last week anyway


class ExpiryBucket(LabelledEnum):
    """In the order in which they are shown. A cluster is in exactly one."""

    REVOKED = "revoked", "Revoked", "danger"
    EXPIRED = "expired", "Expired", "danger"
    WEEK = "week", "Under 7 days", "danger"
    SOON = "soon", "7 to 30 days", "caution"
    LATER = "later", "30 days or more", "quiet"
    NONE = "none", "None issued", "quiet"


def bucket_of(facts: ClusterFacts, now: datetime) -> ExpiryBucket:
    ends = facts.certificate_not_after
    if facts.certificate_revoked_at is not None:
        return ExpiryBucket.REVOKED
    if ends is None:
        return ExpiryBucket.NONE
    turns = ((now, ExpiryBucket.EXPIRED), (now + WEEK, ExpiryBucket.WEEK), (now + SOON, ExpiryBucket.SOON))
    return next((bucket for turn, bucket in turns if ends <= turn), ExpiryBucket.LATER)


def is_short_lived(begins: datetime | None, ends: datetime) -> bool:
    return begins is not None and ends - begins < SHORT_LIVED


def latest_renewal(begins: datetime | None, ends: datetime) -> datetime:
    """G25: by when its agent should have renewed it. One that nobody knows the beginning of counts as long-lived."""
    return ends - ((ends - begins) * LATEST if begins is not None else WEEK)


def is_overdue(begins: datetime | None, ends: datetime, now: datetime) -> bool:
    return latest_renewal(begins, ends) <= now


def tone_of(facts: ClusterFacts, now: datetime) -> str:
    """Of the bucket, but quiet while the agent need not have renewed it."""
    ends, bucket = facts.certificate_not_after, bucket_of(facts, now)
    if ends is None or bucket in {ExpiryBucket.REVOKED, ExpiryBucket.EXPIRED}:
        return bucket.tone
    return life_tone(facts.certificate_not_before, ends, now)


def life_tone(begins: datetime | None, ends: datetime, now: datetime) -> str:
    """Of a certificate that is good."""
    if not is_overdue(begins, ends, now):
        return ExpiryBucket.LATER.tone
    return ExpiryBucket.WEEK.tone if ends <= now + WEEK else ExpiryBucket.SOON.tone


def needs_somebody(now: datetime) -> Q:
    """Of rows of ClusterFacts: revoked, ended, or in its last week though it should have been renewed before."""
    revoked, ended = Q(certificate_revoked_at__isnull=False), Q(certificate_not_after__lte=now)
    # Began four weeks ago: follows from what comes after it, which a database computes slowly for a whole fleet.
    began = Q(certificate_not_before__lte=now + WEEK - SHORT_LIVED)
    lasts = Q(certificate_not_before__lte=F("certificate_not_after") - SHORT_LIVED)
    is_long_lived = Q(certificate_not_before=None) | (began & lasts)
    return revoked | ended | (Q(certificate_not_after__lte=now + WEEK) & is_long_lived)


def bucket_conditions(now: datetime) -> dict[ExpiryBucket, Q]:
    """As ``bucket_of``, of rows of ManagedCluster."""
    ends, revoked = "facts__certificate_not_after", Q(facts__certificate_revoked_at__isnull=False)
    return {
        ExpiryBucket.REVOKED: revoked,
        ExpiryBucket.EXPIRED: ~revoked & Q(**{f"{ends}__lte": now}),
        ExpiryBucket.WEEK: ~revoked & Q(**{f"{ends}__gt": now, f"{ends}__lte": now + WEEK}),
        ExpiryBucket.SOON: ~revoked & Q(**{f"{ends}__gt": now + WEEK, f"{ends}__lte": now + SOON}),
        ExpiryBucket.LATER: ~revoked & Q(**{f"{ends}__gt": now + SOON}),
        ExpiryBucket.NONE: ~revoked & Q(**{f"{ends}__isnull": True}),
    }
