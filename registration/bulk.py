"""Decisions about several requests: each authorized, checked and recorded by itself, as if made alone."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from clusters import bulk as clusters_bulk
from clusters import rights
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi import bulkjobs
from registration import departures, services
from registration.forms import DisconnectForm
from registration.models import IssuedCertificate
from registration.staleness import Seen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.bulkjobs import Arguments
    from ocmconsole.kubeapi.models import BulkJob

WHY = "Revoked with others on the page of selected clusters."
BACK = ("registration:approvals", "Approvals")


def _accept(actor: Actor, name: str, told: Arguments) -> str:
    """Never one that is Blocked: the service refuses it without an override."""
    approved = services.accept_cluster(actor, name, seen=Seen(told["cluster"], told["requests"]))
    return f"its request {approved[0]} is approved" if approved else "it has not asked for a certificate yet"


def _decline(actor: Actor, name: str, told: Arguments) -> str:
    seen = Seen(told["cluster"], told["requests"])
    denied = services.decline_cluster(actor, name, reason=told["reason"], seen=seen)
    return f"its request {denied[0]} is denied" if denied else "its name is refused"


ACCEPT, DECLINE = (
    bulkjobs.register(
        bulkjobs.Act(
            name=f"registration.{name}",
            title=name.capitalize(),
            done=done,
            resource=MANAGED_CLUSTER.resource,
            page="registration:request",
            back=BACK,
            perform=perform,
            permit=services.require_accept,
        )
    )
    for name, done, perform in (("accept", "accepted", _accept), ("decline", "declined", _decline))
)


def _may_revoke(actor: Actor, fingerprint: str) -> None:
    """Raises Forbidden, as the act itself does; a certificate that is unknown is for the act to refuse."""
    row = IssuedCertificate.objects.filter(pk=fingerprint).first()
    if row is not None and row.cluster:
        services.require_accept(actor, row.cluster)


def _revoke(actor: Actor, fingerprint: str, told: Arguments) -> str:
    row = services.revoke_certificate(actor, fingerprint, reason=told["reason"])
    return f"that of {row.common_name}"


REVOKE = bulkjobs.register(
    bulkjobs.Act(
        name="registration.revoke",
        title="Revoke",
        done="revoked",
        resource=MANAGED_CLUSTER.resource,
        page="registration:revoke",
        back=("registration:certificates", "Certificates"),
        perform=_revoke,
        permit=_may_revoke,
        noun="certificate",
    )
)


def revoke(actor: Actor, fingerprints: Iterable[str], *, reason: str) -> BulkJob:
    return bulkjobs.start(actor, REVOKE, {fingerprint: {} for fingerprint in fingerprints}, reason=reason)


def accept(actor: Actor, chosen: Iterable[tuple[str, Seen]]) -> BulkJob:
    return bulkjobs.start(actor, ACCEPT, _items(chosen))


def decline(actor: Actor, chosen: Iterable[tuple[str, Seen]], *, reason: str) -> BulkJob:
    return bulkjobs.start(actor, DECLINE, _items(chosen), reason=reason)


def _disconnect(actor: Actor, name: str, told: Arguments) -> str:
    revoked = departures.send_away(actor, name, revoke=told["revoke"])
    return f"{len(revoked)} certificate{'s' * (len(revoked) != 1)} revoked" if told["revoke"] else ""


def _revoke_all(actor: Actor, name: str, told: Arguments) -> str:  # noqa: ARG001 - the signature of acts
    revoked = services.revoke_all(actor, name, reason=WHY)
    return f"{len(revoked)} certificate{'s' * (len(revoked) != 1)} revoked" if revoked else "none was valid any more"


clusters_bulk.register(
    clusters_bulk.Act(
        "disconnect", "Disconnect", "disconnected", "unplug",
        perform=_disconnect, allowed=services.acceptable, lacking="takes clusters.accept_managedcluster",
        right=("update", rights.ACCEPT_RESOURCE), form=DisconnectForm,
        obstacle=lambda row: "" if row.hub_accepts_client else "it is not let in",
        arguments=lambda form: {"revoke": form.cleaned_data["revoke"]},
        effects=(
            "The agents lose their rights within a second; the clusters stay in the list as Disconnected.",
            "Letting them in again on their pages restores everything, as long as their certificates are valid.",
        ),
    )
)  # fmt: skip
clusters_bulk.register(
    clusters_bulk.Act(
        "revoke", "Revoke certificates", "revoked", "file-key",
        perform=_revoke_all, allowed=services.acceptable, lacking="takes clusters.accept_managedcluster",
        right=("update", rights.ACCEPT_RESOURCE), is_final=True,
        effects=(
            "Every valid certificate of each cluster ends within a second; its agent can neither speak nor renew.",
            "The clusters stay accepted. To come back, an agent needs a new bootstrap kubeconfig and a decision.",
        ),
    )
)  # fmt: skip


def _items(chosen: Iterable[tuple[str, Seen]]) -> dict[str, dict[str, Any]]:
    return {name: asdict(seen) for name, seen in chosen}
