"""Times as Kubernetes writes them (W29)."""

from __future__ import annotations

from datetime import UTC, datetime


def parse_time(text: str) -> datetime:
    """RFC 3339 text to an aware datetime. Raises ValueError, OverflowError for a time that has no place in UTC."""
    return datetime.fromisoformat(text.upper()).astimezone(UTC)


def time_of(text: object) -> datetime | None:
    """The aware datetime of a stored RFC 3339 text; None for anything else, and for years that Python cannot hold."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def timestamp(moment: datetime) -> str:
    """metav1.Time: whole seconds in UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime) -> str:
    """metav1.MicroTime of a moment in UTC: exactly six decimals, and a year of four digits."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
