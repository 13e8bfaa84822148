"""Sending a cluster away with all that its agents hold, and whether somebody may end a certificate.

Called by pages, and by the services of clusters through ``clusters.acceptance.removal_progress``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Max

from clusters.acceptance import removal_progress
from ocmconsole.kubeapi.access.authorization import AccessDecision
from registration.admission.request_admission import may_use_signer
from registration.approvals import services
from registration.keys import key_lines
from registration.pki import agent_names

if TYPE_CHECKING:
    from datetime import datetime

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.verbs import Batch
    from registration.models import IssuedCertificate

WHY = "The cluster was disconnected."


def send_away(actor: Actor, name: str, *, revoke: bool) -> list[str]:
    """Disconnect, then revoke each certificate that would still be honoured. Returns the fingerprints of these.

    Both are one transaction. Raises Forbidden, NotFound.
    """
    if revoke:
        return services.disconnect_and_revoke(actor, name, reason=WHY)
    services.disconnect_cluster(actor, name)
    return []


def may_revoke(actor: Actor, row: IssuedCertificate) -> AccessDecision:
    """As ``services.revoke_certificate`` asks."""
    if row.cluster:
        return services.may_accept(actor, row.cluster)
    return may_use_signer(actor, "sign", agent_names.SIGNER)


class SignedCertificates:
    """As ``clusters.acceptance.removal_progress.ClusterCertificates`` says."""

    def valid(self, cluster: str, now: datetime) -> tuple[int, datetime | None]:
        found = key_lines.certificates_of(cluster, now)
        return found.count(), found.aggregate(last=Max("not_after"))["last"]

    def may_revoke(self, actor: Actor, cluster: str) -> bool:
        return services.may_accept(actor, cluster).allowed

    def revoke(self, batch: Batch, cluster: str, reason: str) -> None:
        services.end_line(batch, cluster, reason, [])

    def without_override(self, doc: Doc) -> None:
        services.without_override(doc)


removal_progress.keeps_certificates(SignedCertificates())
