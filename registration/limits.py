"""What a bootstrap token still lets in: rules and records on what its bearer creates (K4).

A use is a cluster name that was registered or asked for with the token, however many requests that took. The rules
refuse early and say so to the agent; the records ask once more under the counter's lock, where nobody overtakes.
``corekinds.bootstrap`` counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.corekinds import bootstrap
from ocmconsole.kubeapi import admission, authz
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.verbs import attributes
from registration.decisions import concerned
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.corekinds.models import BootstrapTokenUse
    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind


@admission.checks(MANAGED_CLUSTER)
def token_registers_no_more_than_its_clusters(actor: Actor, old: Doc | None, new: Doc) -> None:
    """K4: an exhausted token registers no further cluster."""
    if old is None:
        _require_left(actor, MANAGED_CLUSTER, new, [new["metadata"]["name"]])


@admission.checks(CSR)
def token_asks_for_no_more_than_its_clusters(actor: Actor, old: Doc | None, new: Doc) -> None:
    """K4: an exhausted token asks for certificates of the clusters that it brought, and for no other."""
    if old is None:
        _require_left(actor, CSR, new, concerned(new))


@admission.records(MANAGED_CLUSTER)
def registered_cluster_is_counted(actor: Actor, old: Doc | None, new: Doc | None) -> list[BootstrapTokenUse]:
    """K4: a name that came with a token is a use of it."""
    if old is not None or new is None:
        return []
    return _counted(actor, MANAGED_CLUSTER, new, [new["metadata"]["name"]])


@admission.records(CSR)
def asked_cluster_is_counted(actor: Actor, old: Doc | None, new: Doc | None) -> list[BootstrapTokenUse]:
    """K4: asking for a name's certificate is a use as well, once with registering it."""
    return [] if old is not None or new is None else _counted(actor, CSR, new, concerned(new))


def _counted(actor: Actor, kind: Kind, doc: Doc, names: Sequence[str]) -> list[BootstrapTokenUse]:
    _require_left(actor, kind, doc, names)
    return bootstrap.new_uses(bootstrap.token_of(actor), names)


def _require_left(actor: Actor, kind: Kind, doc: Doc, names: Sequence[str]) -> None:
    if why := bootstrap.refusal(bootstrap.token_of(actor), names):
        raise authz.forbidden(actor, attributes(kind, "create", Key("", doc["metadata"]["name"])), why)
