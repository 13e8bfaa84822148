"""How long the certificate of a cluster still lasts: one rule in Python, and the same in SQL. Pure.

Every page that counts or colours certificates of clusters asks here; ``registration`` says which certificate of a
cluster that is (``ClusterFacts``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from django.db.models import Q

if TYPE_CHECKING:
    from clusters.models import ClusterFacts

# Agents renew when between a fifth and a quarter of the life is left (G25): of a year, 73 days.
WEEK, SOON = timedelta(days=7), timedelta(days=30)


class Lane(StrEnum):
    """In the order in which they are shown. A cluster is in exactly one."""

    label: str
    tone: str

    def __new__(cls, value: str, label: str, tone: str) -> Self:
        lane = str.__new__(cls, value)
        lane._value_ = value
        lane.label, lane.tone = label, tone
        return lane

    REVOKED = "revoked", "Revoked", "danger"
    EXPIRED = "expired", "Expired", "danger"
    WEEK = "week", "Under 7 days", "danger"
    SOON = "soon", "7 to 30 days", "caution"
    LATER = "later", "30 days or more", "quiet"
    NONE = "none", "None issued", "quiet"


def lane_of(facts: ClusterFacts, now: datetime) -> Lane:
    ends = facts.certificate_not_after
    if facts.certificate_revoked_at is not None:
        return Lane.REVOKED
    if ends is None:
        return Lane.NONE
    turns = ((now, Lane.EXPIRED), (now + WEEK, Lane.WEEK), (now + SOON, Lane.SOON))
    return next((lane for turn, lane in turns if ends <= turn), Lane.LATER)


def lanes(now: datetime) -> dict[Lane, Q]:
    """As ``lane_of``, of rows of ManagedCluster."""
    ends, revoked = "facts__certificate_not_after", Q(facts__certificate_revoked_at__isnull=False)
    return {
        Lane.REVOKED: revoked,
        Lane.EXPIRED: ~revoked & Q(**{f"{ends}__lte": now}),
        Lane.WEEK: ~revoked & Q(**{f"{ends}__gt": now, f"{ends}__lte": now + WEEK}),
        Lane.SOON: ~revoked & Q(**{f"{ends}__gt": now + WEEK, f"{ends}__lte": now + SOON}),
        Lane.LATER: ~revoked & Q(**{f"{ends}__gt": now + SOON}),
        Lane.NONE: ~revoked & Q(**{f"{ends}__isnull": True}),
    }
