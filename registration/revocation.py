"""Certificates that the hub no longer honours although their time is not over.

Invariant: a revocation counts at once in the process that made it, and within a second in every other. What has ended
by itself need not be remembered here, so the list stays short. Read by ``credentials``, written by ``services``.
"""

from __future__ import annotations

from time import monotonic

from django.utils import timezone

from registration.models import IssuedCertificate

FRESH_SECONDS = 1.0


class Revoked:
    """Fingerprints, read from the database when what is in memory is older than ``FRESH_SECONDS``."""

    def __init__(self) -> None:
        self._fingerprints: frozenset[str] = frozenset()
        self._read = float("-inf")

    def __contains__(self, fingerprint: str) -> bool:
        if monotonic() - self._read > FRESH_SECONDS:
            self._fingerprints = _revoked_now()
            self._read = monotonic()
        return fingerprint in self._fingerprints

    def forget(self) -> None:
        self._read = float("-inf")


def _revoked_now() -> frozenset[str]:
    alive = IssuedCertificate.objects.filter(revoked_at__isnull=False, not_after__gt=timezone.now())
    return frozenset(alive.values_list("fingerprint", flat=True))


revoked = Revoked()
