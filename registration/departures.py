"""Sending a cluster away with all that its agents hold, and whether somebody may end a certificate.

Called by pages; each part is an act of ``services`` with its own audit entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from ocmconsole.kubeapi.authz import Decision
from registration import identity, issued, services
from registration.admission import may_use_signer

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor
    from registration.models import IssuedCertificate

WHY = "The cluster was disconnected."


def send_away(actor: Actor, name: str, *, revoke: bool) -> list[str]:
    """Disconnect, then revoke each certificate that would still be honoured. Returns the fingerprints of these.

    Rights are withdrawn first, so that nothing is open while the rest is done. Raises Forbidden, NotFound.
    """
    if revoke:
        services.require_accept(actor, name)
    services.disconnect_cluster(actor, name)
    ended = issued.valid_of(name, timezone.now()) if revoke else []
    for row in ended:
        services.revoke_certificate(actor, row.pk, reason=WHY)
    return [row.pk for row in ended]


def may_revoke(actor: Actor, row: IssuedCertificate) -> Decision:
    """As ``services.revoke_certificate`` asks."""
    if row.cluster:
        return services.may_accept(actor, row.cluster)
    return may_use_signer(actor, "sign", identity.SIGNER)
