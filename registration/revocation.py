"""Which client certificates the hub honours: those in the register of issued certificates that nobody has revoked.

Invariant: the register is read for each request, by primary key, so a revocation counts in every process from the end
of its transaction on. Called by ``credentials``.
"""

from __future__ import annotations

from ocmconsole.kubeapi import errors
from registration.models import IssuedCertificate


def require_honoured(fingerprint: str) -> None:
    """Raises Unauthorized for a certificate that was revoked."""
    if IssuedCertificate.objects.filter(pk=fingerprint, revoked_at__isnull=False).exists():
        raise errors.Unauthorized
