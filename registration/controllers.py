"""Reconcilers of certificate requests: approve what needs no person, sign what is approved, forget what is old.

Nothing is ever denied here: what does not hold is left for a person (H35, H36).
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Q

from ocmconsole.corekinds.kinds import CLUSTER_ROLE
from ocmconsole.kubeapi import authz, errors, verbs
from ocmconsole.kubeapi.actor import Actor
from ocmconsole.kubeapi.authz import Attributes
from ocmconsole.kubeapi.controllers import reconciler
from ocmconsole.kubeapi.kinds import Key
from registration import ca, identity, queries
from registration.admission import cluster_of
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import conditions, request_pem
from registration.models import CertificateSigningRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocmconsole.kubeapi.errors import Doc

CONTROLLER = Actor.controller("registration")
State = CertificateSigningRequest.State
# G25: an agent looks at its certificate every five minutes, and renews at the last fifth of its life.
SHORTEST_AGENT_LIFETIME = timedelta(minutes=30)
DECIDED_KEPT = timedelta(hours=1)
PENDING_KEPT = timedelta(hours=24)
AUTO_GATE = "ManagedClusterAutoApproval"


def _pending_of(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """The waiting requests of the cluster that a role belongs to: its right to renew may be back."""
    labels = ((new or {}).get("metadata") or {}).get("labels") or {}
    cluster = labels.get(identity.CLUSTER_LABEL)
    return [row.key for row in queries.waiting_requests(cluster)] if cluster else []


# ---------------------------------------------------------------- approval


@reconciler(CSR, also={CLUSTER_ROLE: _pending_of})
def reconcile_request_approval(key: Key) -> None:
    """H34 to H38: renewals by the identity itself, and bootstraps by listed users."""
    row = queries.request_at(key)
    if row is None or row.state != State.PENDING or row.addon:
        return
    doc = row.doc
    if not cluster_of(doc) or not (_is_renewal(doc) or _is_listed(doc)):
        return
    verbs.edit(CONTROLLER, CSR, key, _approve, subresource="approval")


def _approve(doc: Doc) -> None:
    add_decision(
        doc,
        "Approved",
        "AutoApprovedByHubCSRApprovingController",
        "Auto approving Managed cluster agent certificate after SubjectAccessReview.",
    )


def add_decision(doc: Doc, kind: str, reason: str, message: str) -> None:
    """Append an Approved, Denied or Failed condition."""
    status = doc.setdefault("status", {})
    status["conditions"] = [
        *conditions(doc),
        {"type": kind, "status": "True", "reason": reason, "message": message},
    ]


def _is_renewal(doc: Doc) -> bool:
    """H36: the requester is exactly the name asked for, and may renew now."""
    spec = doc["spec"]
    if spec.get("username") != ca.parse_request(request_pem(doc)).common_name:
        return False
    requester = Actor(
        user=spec["username"],
        groups=tuple(spec.get("groups") or ()),
        uid=spec.get("uid", ""),
        extra={name: tuple(values) for name, values in (spec.get("extra") or {}).items()},
    )
    asked = Attributes("renew", "register.open-cluster-management.io", "managedclusters", "clientcertificates")
    return authz.authorize(requester, asked).allowed


def _is_listed(doc: Doc) -> bool:
    """H37; D9: a name that has an identity already is no policy's to give, its agent renews instead."""
    if not settings.OCMCONSOLE_FEATURE_GATES[AUTO_GATE]:
        return False
    if queries.facts_of(cluster_of(doc)).certificate_fingerprint:
        return False
    return doc["spec"].get("username") in settings.OCMCONSOLE_AUTO_APPROVED_USERS


# ---------------------------------------------------------------- signing


@reconciler(CSR)
def reconcile_request_signing(key: Key) -> None:
    """W24: what is approved gets its certificate, unless somebody else signs."""
    row = queries.request_at(key)
    if row is None or row.state != State.APPROVED or row.signer != identity.SIGNER:
        return
    if settings.OCMCONSOLE_CSR_SIGNER != "internal":
        return
    doc = row.doc
    if problem := _unsignable(doc):
        _fail(key, problem)
        return
    authority = ca.load(settings.OCMCONSOLE_HOME)
    try:
        chain = authority.sign_client(
            request_pem(doc), usages=doc["spec"]["usages"], lifetime=_lifetime(doc), now=datetime.now(UTC)
        )
    except ValueError as error:
        _fail(key, str(error))
        return
    encoded = base64.b64encode(chain).decode()
    verbs.edit(CONTROLLER, CSR, key, lambda new: new["status"].update(certificate=encoded), subresource="status")


def _fail(key: Key, problem: str) -> None:
    def fail(doc: Doc) -> None:
        add_decision(doc, "Failed", "SignerValidationFailure", problem)

    verbs.edit(CONTROLLER, CSR, key, fail, subresource="status")


def _unsignable(doc: Doc) -> str:
    """Why the hub's signer refuses, or ""."""
    usages = set(doc["spec"].get("usages") or [])
    if "client auth" not in usages or not usages <= identity.AGENT_USAGES:
        return f"invalid usage for client certificate: {', '.join(sorted(usages))}"
    request = ca.parse_request(request_pem(doc))
    if not request.signature_valid:
        return "the request is not signed by the key it carries"
    if get_user_model().objects.filter(username=request.common_name).exists():
        return f"the common name {request.common_name} is a person's user name on this hub"
    return ""


def _lifetime(doc: Doc) -> timedelta:
    longest: timedelta = settings.OCMCONSOLE_CERT_LIFETIME
    asked = doc["spec"].get("expirationSeconds")
    lifetime = min(timedelta(seconds=asked), longest) if asked else longest
    return max(lifetime, SHORTEST_AGENT_LIFETIME) if cluster_of(doc) else lifetime


# ---------------------------------------------------------------- collection


def collect_requests(now: datetime) -> int:
    """W25: decided requests go after an hour, waiting ones after a day, issued ones when their certificate ends."""
    old = CertificateSigningRequest.objects.filter(
        Q(state=State.PENDING, created__lte=now - PENDING_KEPT)
        | (~Q(state=State.PENDING) & Q(decided_at__lte=now - DECIDED_KEPT))
        | Q(expires_at__lte=now)
    )
    removed = 0
    for name in list(old.values_list("name", flat=True)):
        try:
            verbs.delete(CONTROLLER, CSR, Key("", name))
        except (errors.NotFound, errors.Conflict):
            continue
        removed += 1
    return removed
