"""Reconcilers of certificate requests: approve what needs no person, sign what is approved, forget what is old.

What does not hold is left for a person (H35, H36). The hub denies only what a person has denied before (D10).
"""

from __future__ import annotations

import base64
import logging
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models import Q

from clusters.acceptance import agent_roles
from clusters.admission import GUARDED_NAMES
from clusters.kinds import ACCEPTS_CLIENT, MANAGED_CLUSTER, is_deleting
from clusters.models import ClusterFacts, ManagedCluster
from ocmconsole.core.kinds import CLUSTER_ROLE
from ocmconsole.core.tokens.tokens import REPAIRING
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control.controllers import reconciler
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.storage import plain_sql
from registration import queries, signing
from registration.admission import decisions
from registration.admission.decisions import AUTO_ACCEPTED
from registration.admission.request_admission import cluster_of
from registration.keys import key_history, repair_tokens
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import conditions_of, state_of
from registration.models import CertificateSigningRequest
from registration.pki import agent_names, ca

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ocmconsole.kubeapi.control.controllers import Keys
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import AuditEvent
    from registration.keys.key_history import Asker

log = logging.getLogger(__name__)

CONTROLLER = Actor.controller("registration")
State = CertificateSigningRequest.State
VERDICTS = frozenset({"Approved", "Denied"})  # at most one of them
DECIDED_KEPT = timedelta(hours=1)  # as in Kubernetes (W25)
PENDING_KEPT = timedelta(hours=24)  # as in Kubernetes (W25)
AUTO_APPROVED = "Auto approving Managed cluster agent certificate after SubjectAccessReview."  # as upstream's
AUTO_GATE = "ManagedClusterAutoApproval"


def _pending_of(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """The waiting requests of the cluster that a role belongs to: its right to renew may be back."""
    if new is None or not agent_roles.allows_renewal(new):
        return []
    cluster = (new["metadata"].get("labels") or {}).get(agent_names.CLUSTER_LABEL)
    if not cluster or not plain_sql.is_there(CertificateSigningRequest, cluster=cluster, state=State.PENDING.value):
        return []
    return [row.key for row in queries.waiting_requests(cluster)]


def _in_state(*states: State) -> Keys:
    """A request that is, after the write, in one of these states."""

    def keys(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
        return (key,) if new is not None and state_of(new) in states else ()

    return keys


# ---------------------------------------------------------------- what a person has declined


@reconciler(CSR, keys=_in_state(State.PENDING), is_wanted=key_history.is_any_declined)
def reconcile_request_refusal(key: Key) -> None:
    """D10: a pending CSR with a declined key, or of a declined credential for the same name, is denied.

    1. A CSR that is gone or decided is left as it is.
    2. For each cluster that it names, a decline of its key or credential is searched.
    3. The first one found denies it: condition Denied carries the reason of the decline.
    """
    row = queries.request_at(key)
    if row is None or row.state != State.PENDING:
        return
    asker = key_history.asker_of_request(row.doc)
    for cluster in decisions.clusters_named(row.doc):
        if decline := key_history.decline_of(cluster, row.key_fingerprint, asker):
            _decide(key, "Denied", "DeclinedBefore", decline.reason or f"Declined by {decline.declined_by}.")
            return


def _decide(key: Key, kind: str, reason: str, message: str) -> None:
    verbs.edit(CONTROLLER, CSR, key, lambda doc: add_decision(doc, kind, reason, message), subresource="approval")


# ---------------------------------------------------------------- approval


def _by_agent_or_listed(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """A pending request by a user of an agent's name, with a repair token, or by one whose requests need no person."""
    if new is None or state_of(new) != State.PENDING:
        return ()
    user, groups = new["spec"].get("username", ""), new["spec"].get("groups") or ()
    is_agents = agent_names.agent_name(user) is not None or REPAIRING in groups
    return (key,) if is_agents or _is_listed(user) else ()


@reconciler(CSR, keys=_by_agent_or_listed, also={CLUSTER_ROLE: _pending_of})
def reconcile_request_approval(key: Key) -> None:
    """H34 to H38: approve CSRs of agents that need no person.

    1. Skipped: decided CSRs, those of add-ons, those that do not speak for a cluster (H35), and declined ones (D10).
    2. Approved: a renewal by the identity itself that may renew (H36), the CSR of a listed user (H37), or one that came
       with a repair token (D29), unless renewal is withheld (D5).
    3. All others wait for a person.
    """
    row = queries.request_at(key)
    if row is None or row.state != State.PENDING or row.addon:
        return
    cluster, asker = cluster_of(row.doc), key_history.asker_of_request(row.doc)
    if not cluster or key_history.decline_of(cluster, row.key_fingerprint, asker):
        return
    if _renews(row.doc, asker, cluster) or _is_given(row, cluster):
        _decide(key, "Approved", "AutoApprovedByHubCSRApprovingController", AUTO_APPROVED)
    elif (token := repair_tokens.continued_by(row.doc, cluster, asker)) and not queries.is_withheld(cluster):
        text = f"The repair token {token.pk}, minted by {token.created_by}, continues the cluster's line of keys."
        _decide(key, "Approved", "ApprovedByRepairToken", text)


def add_decision(doc: Doc, kind: str, reason: str, message: str) -> None:
    """Append an Approved, Denied or Failed condition, unless another worker has decided it already."""
    decided = {condition["type"] for condition in conditions_of(doc)}
    if kind in decided or (kind in VERDICTS and not decided.isdisjoint(VERDICTS)):
        return
    status = doc.setdefault("status", {})
    status["conditions"] = [
        *conditions_of(doc),
        {"type": kind, "status": "True", "reason": reason, "message": message},
    ]


def _renews(doc: Doc, asker: Asker, cluster: str) -> bool:
    """H36: whether the requester is its own CN by certificate, and holds ``renew`` now."""
    if not key_history.is_renewal(doc, asker, cluster):
        return False
    spec = doc["spec"]
    requester = Actor(
        user=spec["username"],
        groups=tuple(spec.get("groups") or ()),
        uid=spec.get("uid", ""),
        extra={name: tuple(values) for name, values in (spec.get("extra") or {}).items()},
    )
    asked = Attributes("renew", "register.open-cluster-management.io", "managedclusters", "clientcertificates")
    return authorization.authorize(requester, asked).allowed


def _is_given(row: CertificateSigningRequest, cluster: str) -> bool:
    """H37: whether a listed user asks, for a name that may be given and (D9) has no other key."""
    return _is_listed(row.username) and may_be_given(cluster) and not _is_strange(cluster, row.key_fingerprint)


def _is_listed(user: str) -> bool:
    return settings.OCMCONSOLE_FEATURE_GATES[AUTO_GATE] and user in settings.OCMCONSOLE_AUTO_APPROVED_USERS


def _is_strange(cluster: str, fingerprint: str) -> bool:
    """A certificate from before the hub remembered keys makes a name known as well."""
    if key_history.keys_of(cluster).exists():
        return key_history.is_unknown_key(cluster, fingerprint)
    return bool(queries.facts_of(cluster).certificate_fingerprint)


def may_be_given(cluster: str) -> bool:
    """D10, D18: whether a name may be accepted without a person: no person sent it away, and it is not guarded."""
    sent_away = {ClusterFacts.Decision.DECLINED, ClusterFacts.Decision.DISCONNECTED}
    return (
        queries.facts_of(cluster).decision not in sent_away
        and not key_history.declines_of(cluster).exists()
        and not GUARDED_NAMES.fullmatch(cluster)
        and cluster not in agent_roles.TAKEN_NAMES
        and not queries.is_foreign_namespace(cluster)
    )


# ---------------------------------------------------------------- acceptance without a person


def _label_of(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    labels = ((new or {}).get("metadata") or {}).get("labels") or {}
    cluster = labels.get(agent_names.CLUSTER_LABEL)
    return (Key("", cluster),) if cluster else ()


def _has_gate() -> bool:
    return bool(settings.OCMCONSOLE_FEATURE_GATES[AUTO_GATE])


def _untried(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """A cluster about which this has not decided yet."""
    if new is None or is_deleting(new) or AUTO_ACCEPTED in (new["metadata"].get("annotations") or {}):
        return ()
    return (key,)


@reconciler(MANAGED_CLUSTER, keys=_untried, also={CSR: _label_of}, is_wanted=_has_gate)
def reconcile_auto_acceptance(key: Key) -> None:
    """H9, K9: with the gate ManagedClusterAutoApproval, accept a cluster once, if a listed user asked for it.

    1. Skipped: without the gate, a cluster being deleted, one with the annotation ``automatically-accepted-on``, a
       reserved name, or one that no listed user asked for.
    2. The cluster is accepted, with that annotation.
    3. A refusal by a validator is logged; a person who tries to accept reads it.
    """
    row = ManagedCluster.objects.at(key).first()
    if row is None or row.deleted_at is not None or not settings.OCMCONSOLE_FEATURE_GATES[AUTO_GATE]:
        return
    annotations = row.doc["metadata"].get("annotations") or {}
    if AUTO_ACCEPTED in annotations or not may_be_given(row.name) or not _is_asked_by_listed(row):
        return
    try:
        verbs.edit(CONTROLLER, MANAGED_CLUSTER, key, _accept)
    except (errors.Forbidden, errors.Invalid) as error:  # a rule stands against it; a person who tries reads which
        log.info("the feature gate does not accept %s: %s", row.name, error.message)


def _accept(doc: Doc) -> None:
    doc["metadata"].setdefault("annotations", {})[AUTO_ACCEPTED] = times.timestamp(clock.now())
    doc["spec"][ACCEPTS_CLIENT] = True


def _is_asked_by_listed(row: ManagedCluster) -> bool:
    """Whether a listed user created the cluster, while the name is new, or a CSR that the gate approves."""
    creation = key_history.creation_of(MANAGED_CLUSTER, row.name, row.uid)
    if creation is not None and _is_listed(creation.user) and not _is_strange(row.name, ""):
        return True
    return any(
        _is_listed(request.username)
        and cluster_of(request.doc) == row.name
        and not _is_strange(row.name, request.key_fingerprint)
        for request in queries.requests_of(row.name).exclude(state__in=(State.DENIED, State.FAILED))
        if request.state == State.PENDING or _is_younger(request, creation)  # not of an earlier cluster of the name
    )


def _is_younger(request: CertificateSigningRequest, creation: AuditEvent | None) -> bool:
    """By the audit: a time of creation is a whole second, in which a cluster can go and come back."""
    asked = key_history.asker_of_request(request.doc).at
    return creation is not None and asked is not None and asked > creation.time


# ---------------------------------------------------------------- signing


@reconciler(CSR, keys=_in_state(State.APPROVED))
def reconcile_request_signing(key: Key) -> timedelta | None:
    """W24: an approved CSR for the hub's signer gets exactly one certificate.

    1. Nothing is done where an external signer is configured.
    2. A CSR that cannot be signed gets the condition Failed with the reason.
    3. Else it is signed while nobody else may write, so that two workers never sign one CSR twice. Where the CA's key
       is not in the home, it is signed before, as others may write meanwhile, and stored if no worker was first.
    4. While the CA cannot sign, the CSR waits, and the log says why.
    """
    row = queries.request_at(key)
    if row is None or row.state != State.APPROVED or row.signer != agent_names.SIGNER:
        return None
    if settings.OCMCONSOLE_CSR_SIGNER != "internal":
        return None
    doc = row.doc
    if problem := signing.flaw_of(doc):
        _fail(key, problem)
        return None
    try:
        chain = signing.chain_for(doc) if ca.client_authority(settings.OCMCONSOLE_HOME).key_place else b""
        store = partial(_sign, uid=doc["metadata"]["uid"], chain=chain)
        verbs.edit(CONTROLLER, CSR, key, store, subresource="status", options=verbs.Options(alone=True))
    except ca.AuthorityError as error:
        signing.waiting.note(str(error))
        return signing.WHILE_UNABLE
    except ValueError as error:
        _fail(key, str(error))
    else:
        signing.waiting.note("")
    return None


def _sign(doc: Doc, *, uid: str, chain: bytes) -> None:
    """Run while nobody else may write: a request that has its certificate, or never gets one, is not signed again."""
    if doc["status"].get("certificate") or "Failed" in {condition["type"] for condition in conditions_of(doc)}:
        return
    if chain and doc["metadata"]["uid"] != uid:  # another request came in its place, which has its own work
        return
    doc["status"]["certificate"] = base64.b64encode(chain or signing.chain_for(doc)).decode()


def _fail(key: Key, problem: str) -> None:
    def fail(doc: Doc) -> None:
        add_decision(doc, "Failed", "SignerValidationFailure", problem)

    verbs.edit(CONTROLLER, CSR, key, fail, subresource="status")


# ---------------------------------------------------------------- collection


def _among_several(keys: Collection[Key]) -> Iterable[Key]:
    """Requests of clusters that have others: one alone gives way to none, and the later of two is looked at."""
    several = queries.among_several([key.name for key in keys])
    return [key for key in keys if key.name in several]


@reconciler(CSR, keys=_in_state(State.PENDING, State.APPROVED), among=_among_several)
def reconcile_superseded_requests(key: Key) -> None:
    """K11: of the pending CSRs of one requester for one name the newest counts, the others are deleted and noted.

    1. CSRs of add-ons and of other signers are skipped.
    2. Which pending requests give way to which newer one is computed (``superseding``); a newest one that is approved,
       through any entry point, counts too.
    3. Each of them is deleted, with an entry in the audit that names the newer one.
    """
    row = queries.request_at(key)
    if row is None or not row.cluster or row.addon or row.signer != agent_names.SIGNER:
        return
    if not (giving_way := queries.giving_way(row.cluster)):
        return
    pending = {other.name: other for other in queries.undecided_requests(row.cluster)}
    for name, by in giving_way.items():
        if (old := pending.get(name)) is not None:
            _supersede(old, by=by)


def _supersede(old: CertificateSigningRequest, *, by: str) -> None:
    """Only as it was read: what somebody has decided meanwhile stays."""
    try:
        verbs.delete(
            CONTROLLER, CSR, old.key, options=verbs.Options(uid=old.uid, resource_version=str(old.resource_version))
        )
    except (errors.NotFound, errors.Conflict):
        return
    with verbs.batch(CONTROLLER) as batch:
        text = f"{old.name} with the key {old.key_fingerprint} gave way to {by} of the same asker"
        diff = [{"path": queries.GAVE_WAY, "old": old.name, "new": by}]
        batch.note(MANAGED_CLUSTER, Key("", old.cluster), queries.SUPERSEDED, text, diff)


def collect_requests(now: datetime) -> int:
    """W25: delete CSRs an hour after their decision (K36: not sooner), pending ones after a day. Returns how many.

    What has a certificate and no decision was signed by somebody else; it goes when the certificate ends.
    """
    old = CertificateSigningRequest.objects.filter(
        Q(state=State.PENDING, created__lte=now - PENDING_KEPT)
        | (~Q(state=State.PENDING) & Q(decided_at__lte=now - DECIDED_KEPT))
        | Q(decided_at=None, expires_at__lte=now)
    )
    removed = 0
    for name in list(old.values_list("name", flat=True)):
        try:
            verbs.delete(CONTROLLER, CSR, Key("", name))
        except (errors.NotFound, errors.Conflict):
            continue
        removed += 1
    return removed
