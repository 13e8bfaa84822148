"""What a bootstrap token still lets in: rules and records on what its bearer creates (K4).

A use is a cluster name that was registered or asked for with the token, however many requests that took. The rules
refuse early and say so to the agent; the records ask once more under the counter's lock, where nobody overtakes.
``core.tokens.bootstrap_terms`` counts.

What a credential brings that many may hold is bounded too (D23): clusters, and certificate requests that exist at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from django.conf import settings

from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import admission, clock, request_cache
from ocmconsole.kubeapi.access import authorization, request_limits
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import plain_sql
from ocmconsole.kubeapi.verbs import attributes
from registration.admission.decisions import clusters_named
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind

TOKEN_OBJECTS = bootstrap_terms.TOKEN_OBJECTS
RECONCILING = 0.050  # seconds of CPU time that reconcilers spend on a registration or a request
RETRY_SECONDS = 60  # that a refused client should wait
DAY = timedelta(days=1)


@admission.validator(MANAGED_CLUSTER)
def token_registers_no_more_than_its_clusters(actor: Actor, old: Doc | None, new: Doc) -> None:
    """K4: a bootstrap token creates no more clusters than it has uses. Raises Forbidden."""
    if old is None:
        _require_left(actor, MANAGED_CLUSTER, new, [new["metadata"]["name"]])


@admission.validator(MANAGED_CLUSTER)
def shared_credential_registers_so_many_clusters(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """D23: a shared credential without uses (Secret, ServiceAccount) creates so many clusters a day.

    Raises HeldBackError.
    """
    if old is not None or not actor.credential.startswith(request_limits.SHARED):
        return
    request_limits.charge(RECONCILING)
    most = settings.OCMCONSOLE_LIMIT_TOKEN_OBJECTS
    if not most or bootstrap_terms.token_of(actor) is not None:
        return
    found = AuditEvent.objects.filter(
        user=actor.user, verb="create", resource=MANAGED_CLUSTER.resource, outcome=AuditEvent.Outcome.ALLOWED,
        time__gte=clock.now() - DAY,
    )  # fmt: skip
    if found.count() >= most:
        _too_many(f"{actor.user} registered {most} clusters within a day")


@admission.validator(CSR)
def token_asks_for_no_more_than_its_clusters(actor: Actor, old: Doc | None, new: Doc) -> None:
    """K4: a bootstrap token without uses left creates CSRs for the clusters that it created alone. Raises Forbidden."""
    if old is None:
        _require_left(actor, CSR, new, clusters_named(new))


@admission.validator(CSR)
def identity_has_so_many_requests(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - a rule's signature
    """D23: the hub keeps so many CSRs of one user at a time, decided ones included. Raises HeldBackError."""
    if old is not None or actor.is_master:
        return
    if actor.credential.startswith(request_limits.SHARED):
        request_limits.charge(RECONCILING)
    most = settings.OCMCONSOLE_LIMIT_TOKEN_OBJECTS
    if most and plain_sql.count(CertificateSigningRequest, username=actor.user) >= most:
        _too_many(f"{actor.user} has {most} certificate requests on the hub")


def _too_many(text: str) -> NoReturn:
    message = f"{text}, which is the limit: try again later"
    raise request_limits.HeldBackError(TOKEN_OBJECTS, text, RETRY_SECONDS, message)


@admission.records(MANAGED_CLUSTER)
def registered_cluster_is_counted(actor: Actor, old: Doc | None, new: Doc | None) -> list[BootstrapTokenUse]:
    """K4: creating a cluster is a use of the bootstrap token."""
    if old is not None or new is None:
        return []
    return _counted(actor, MANAGED_CLUSTER, new, [new["metadata"]["name"]])


@admission.records(CSR)
def asked_cluster_is_counted(actor: Actor, old: Doc | None, new: Doc | None) -> list[BootstrapTokenUse]:
    """K4: creating a CSR for a name is a use of the token too, counted once with creating its cluster."""
    return [] if old is not None or new is None else _counted(actor, CSR, new, clusters_named(new))


def _counted(actor: Actor, kind: Kind, doc: Doc, names: Sequence[str]) -> list[BootstrapTokenUse]:
    with request_cache.remembering():  # one read of the token and of its uses, under the lock
        return bootstrap_terms.new_uses(_require_left(actor, kind, doc, names), names)


def _require_left(actor: Actor, kind: Kind, doc: Doc, names: Sequence[str]) -> BootstrapToken | None:
    token = bootstrap_terms.token_of(actor)
    if why := bootstrap_terms.token_refusal(token, names):
        raise authorization.forbidden_error(actor, attributes(kind, "create", Key("", doc["metadata"]["name"])), why)
    return token
