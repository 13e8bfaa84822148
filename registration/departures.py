"""Sending a cluster away with all that its agents hold, and whether somebody may end a certificate.

Called by pages, and by the services of clusters through ``clusters.departure``; each part is an act of ``services``
with its own audit entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Max

from clusters import departure
from ocmconsole.kubeapi.authz import Decision
from registration import identity, lines, services
from registration.admission import may_use_signer

if TYPE_CHECKING:
    from datetime import datetime

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
    return services.revoke_all(actor, name, reason=WHY) if revoke else []


def may_revoke(actor: Actor, row: IssuedCertificate) -> Decision:
    """As ``services.revoke_certificate`` asks."""
    if row.cluster:
        return services.may_accept(actor, row.cluster)
    return may_use_signer(actor, "sign", identity.SIGNER)


class Certificates:
    """As ``clusters.departure.Certificates`` says."""

    def valid(self, cluster: str, now: datetime) -> tuple[int, datetime | None]:
        found = lines.certificates_of(cluster, now)
        return found.count(), found.aggregate(last=Max("not_after"))["last"]

    def may_revoke(self, actor: Actor, cluster: str) -> bool:
        return services.may_accept(actor, cluster).allowed

    def require(self, actor: Actor, cluster: str) -> None:
        services.require_accept(actor, cluster)

    def revoke(self, actor: Actor, cluster: str, reason: str) -> list[str]:
        return services.end_line(actor, cluster, reason=reason)


departure.keeps_certificates(Certificates())
