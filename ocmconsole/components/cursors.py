"""A place in a list that is ordered by a moment and a key, as an address carries it: where the next page begins."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from django.db.models import Q
from django.utils import timezone
from django.utils.dateparse import parse_datetime


class Cursor(NamedTuple):
    """The last row of a page."""

    at: datetime
    key: str

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        """As ``str`` wrote it; what is no cursor is None, which stands for the beginning."""
        moment, _, key = text.partition("~")
        try:
            at = parse_datetime(moment)
        except ValueError:  # well formed, but no such day
            return None
        return cls(at, key) if at is not None and timezone.is_aware(at) and "\0" not in key else None

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.key}"

    def beyond(self, moment: str, key: str) -> Q:
        """Rows that come later in ``order_by(moment, key)``."""
        same = {moment.removeprefix("-"): self.at}
        return Q(**{_later(moment): self.at}) | Q(**same, **{_later(key): self.key})


def _later(column: str) -> str:
    return f"{column[1:]}__lt" if column.startswith("-") else f"{column}__gt"
