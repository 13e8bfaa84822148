"""How long the certificate of a cluster still lasts: one rule in Python, and the same in SQL. Pure.

Every page that counts or colours certificates of clusters asks here; ``registration`` says which certificate of a
cluster that is (``ClusterFacts``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q

from ocmconsole.components.labelled_enum import LabelledEnum

if TYPE_CHECKING:
    from clusters.models import ClusterFacts

# Agents renew when between a fifth and a quarter of the life is left (G25): of a year, 73 days.
WEEK, SOON = timedelta(days=7), timedelta(days=30)


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
