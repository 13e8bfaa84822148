"""Domain acts of registration, the same from every entry point: accept, decline, disconnect.

An act is one transaction. It is done as the signed-in person, by the verbs that kubectl reaches too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.grants import ACCEPTS, CLUSTERS
from clusters.kinds import ACCEPT_KEY, ACCEPTS_CLIENT, CLUSTERSET_LABEL, MANAGED_CLUSTER, is_accepted
from clusters.models import ClusterFacts, ClusterPermission
from ocmconsole.core.rbac import rule_index
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import clock, errors, request_cache, verbs
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import reader
from registration import queries
from registration.admission.decisions import decline_row
from registration.admission.request_admission import cluster_of, may_use_signer, record_decision
from registration.approvals import stale_decision
from registration.evidence import assessment, evidence_queries
from registration.evidence.assessment import Verdict
from registration.keys import key_history, key_lines
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.models import Decline, IssuedCertificate
from registration.pki import agent_names
from registration.reconcilers import CONTROLLER, add_decision

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.models import Resource
    from registration.models import CertificateSigningRequest

SeenVersions = stale_decision.SeenVersions  # what an entry point passes along with a decision
TRIES = 5  # of a decision: as many writes within its milliseconds are no coincidence
NOBODY = key_history.Asker("", "", "")
SIGNING = authorization.Attributes("sign", CSR.group, "signers", name=agent_names.SIGNER)
MISSING = f"you need the permission {ClusterPermission.ACCEPT} (in RBAC: update managedclusters/accept) for {{name}}"


@dataclass(frozen=True, slots=True)
class Override:
    """A person's word that exactly this key is the right one for a name, and why (D9)."""

    key: str
    reason: str


def accept_cluster(
    actor: Actor, name: str, *, seen: SeenVersions | None = None, override: Override | None = None, clusterset: str = ""
) -> list[str]:
    """Approve the newest fitting request of a cluster and let it in. Returns the names of the approved requests.

    Raises Forbidden (no right, also to join ``clusterset``, A6; a key that is unknown, D9, or declined, D10), NotFound,
    Conflict (the page is stale, or it is open who is right: K7), Invalid (a guarded name, D18). An override chooses a
    key, and ends what is open. What another writes between reading and commit, as the hub itself does while it lets a
    cluster go, is read and the decision made again.
    """
    for _ in range(TRIES - 1):
        with suppress(verbs.Stale), request_cache.remembering():
            return _accept_cluster(actor, name, seen, override, clusterset)
    with request_cache.remembering():
        return _accept_cluster(actor, name, seen, override, clusterset)


def _accept_cluster(
    actor: Actor, name: str, seen: SeenVersions | None, override: Override | None, clusterset: str
) -> list[str]:
    gathered = evidence_queries.evidence_for_decision(name)
    row = gathered.clusters.get(name)
    if row is None:
        raise errors.not_found(MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural, name)
    require_accept(actor, name, row=row)
    asking = queries.waiting_among(name, gathered.requests.get(name, []))
    _require_unchanged(seen, name, row, asking)
    waiting = [_with_key(asking, name, override.key)] if override else _undisputed(asking)
    if not waiting:
        _require_no_decline(name)
    given = key_history.KeyOverride(name, override.key, override.reason, clusterset) if override else None
    found = assessment.of_gathered(name, gathered)
    with verbs.batch(actor, given=given) as batch:
        version = str(row.resource_version) if seen else ""
        for read in waiting:
            batch.has_read(CSR, read)
        if seen:
            batch.has_read(MANAGED_CLUSTER, row)
        fields = frozenset() if clusterset else ACCEPTS
        batch.edit(MANAGED_CLUSTER, row.key, _accept_with(given, clusterset), expect=version, fields=fields)
        for request in waiting:
            batch.edit(CSR, request.key, _approve, subresource="approval", expect=str(request.resource_version))
        if override:
            batch.note(MANAGED_CLUSTER, row.key, "managedcluster:accept-key", f"{override.key}: {override.reason}")
        elif found.verdict is Verdict.BLOCKED:
            raise errors.Conflict(f"{name} is blocked: {found.why}. Decline it, or say which key is the right one.")
        _note_evidence(batch, found, "accepted")
    return [request.name for request in waiting]


def _note_evidence(batch: verbs.Batch, found: assessment.Evidence, decision: str) -> None:
    """A copy of what the decision was made on; the audit keeps it when requests and tokens are long gone."""
    facts = [f"{'holds' if fact.ok else fact.weight}: {fact.title}" for fact in found.checked]
    recorded: dict[str, object] = {"verdict": str(found.verdict), "facts": facts}
    if keys := [f"{asked.name} {asked.fingerprint}" for asked in found.waiting]:
        recorded["keys"] = keys
    diff = [{"path": f"evidence.{path}", "new": value} for path, value in recorded.items()]
    batch.note(MANAGED_CLUSTER, Key("", found.name), queries.EVIDENCE, decision, diff)


def decline_cluster(
    actor: Actor,
    name: str,
    *,
    reason: str,
    seen: SeenVersions | None = None,
    scope: Decline.Scope = Decline.Scope.ASKER,
) -> list[str]:
    """Deny every waiting request of a cluster and remember why. Returns the names of the denied requests (D10).

    A cluster that is accepted stays so: it loses the new request only. ``scope`` says whether only these askers are
    refused from now on, or every requester of the name. Raises Forbidden when one of the requests is not for the actor
    to deny (D15); nothing is declined then.
    """
    require_accept(actor, name)
    row = reader.read_row(MANAGED_CLUSTER, Key("", name))
    _require_unchanged(seen, name, row, queries.waiting_requests(name))
    waiting = queries.undecided_requests(name)
    if why := undeniable(actor, name, waiting):
        asked = authorization.Attributes("approve", CSR.group, "signers", name=agent_names.SIGNER)
        authorization.refuse(actor, asked, f"{why} Nothing was declined")
    is_in = row is not None and is_accepted(row.doc)
    if row is None and not waiting:
        raise errors.not_found(MANAGED_CLUSTER.group, MANAGED_CLUSTER.plural, name)
    if is_in and not waiting:
        raise errors.Conflict(f"{name} is accepted and nothing of it waits; disconnect it instead.")
    with verbs.batch(actor) as batch:
        _needs_accept(batch, name)
        for request in waiting:
            batch.edit(
                CSR, request.key, _deny_with(reason), subresource="approval", expect=str(request.resource_version)
            )
        batch.note(MANAGED_CLUSTER, Key("", name), "managedcluster:decline", reason)
        _note_evidence(batch, assessment.evidence_of(name), "declined")
        if scope == Decline.Scope.NAME:
            batch.records.append(lambda: decline_row(actor, name, NOBODY, reason, scope=scope))
            batch.records.append(lambda: tokens.ended_repairs(actor, name, "Everybody who asks for it was declined."))
        if not is_in:
            batch.records.append(lambda: record_decision(actor, name, ClusterFacts.Decision.DECLINED, reason))
        if row is not None and not waiting:  # it has not asked for a certificate yet: who made it is declined
            asker = key_history.asker_of(key_history.creation_of(MANAGED_CLUSTER, name, row.uid))
            batch.records.append(lambda: decline_row(actor, name, asker, reason))
    return [request.name for request in waiting]


def lift_decline(actor: Actor, name: str) -> None:
    """What was declined about a name may ask again (D10). Denied requests stay denied; the agent makes a new one.

    Raises Forbidden, Conflict when nothing is declined.
    """
    require_accept(actor, name)
    standing = list(key_history.declines_of(name))
    is_declined = queries.facts_of(name).decision == ClusterFacts.Decision.DECLINED
    if not standing and not is_declined:
        raise errors.Conflict(f"Nothing about {name} is declined.")
    with verbs.batch(actor) as batch:
        _needs_accept(batch, name)
        batch.note(MANAGED_CLUSTER, Key("", name), "managedcluster:lift-decline", "")
        for decline in standing:
            batch.records.append(partial(_lifted, decline, actor))
        if is_declined:
            batch.records.append(partial(record_decision, actor, name, "", ""))


def _lifted(decline: Decline, actor: Actor) -> Decline:
    decline.lifted_by, decline.lifted_at = actor.user[:320], clock.now()
    return decline


def disconnect_cluster(actor: Actor, name: str) -> None:
    """Withdraw the agent's rights; its certificate stays valid but may do nothing (H7)."""
    if settings.OCMCONSOLE_GUARD_DISCONNECT:  # D3: else the right to update the cluster is enough
        require_accept(actor, name)
    verbs.edit(actor, MANAGED_CLUSTER, Key("", name), _disconnect)


def disconnect_and_revoke(actor: Actor, name: str, *, reason: str) -> list[str]:
    """``disconnect_cluster`` and ``revoke_all`` in one transaction; returns as the latter.

    Raises Forbidden, NotFound.
    """
    ended: list[str] = []

    def leave(doc: Doc) -> None:
        _disconnect(doc)
        without_override(doc)

    def send_away(batch: verbs.Batch) -> None:
        batch.edit(MANAGED_CLUSTER, Key("", name), leave)
        end_line(batch, name, reason, ended)

    verbs.together(actor, send_away)
    return ended


def revoke_certificate(actor: Actor, fingerprint: str, *, reason: str) -> IssuedCertificate:
    """From now on the certificate (SHA-256, hexadecimal) opens nothing. Revoking it again changes nothing.

    The right to accept a cluster includes revoking what its agents hold; any other takes the right to sign (W23).
    Raises NotFound, Forbidden.
    """
    issued = IssuedCertificate.objects.filter(pk=fingerprint.replace(":", "").lower()).first()
    if issued is None:
        raise errors.NotFound(f"no certificate {fingerprint} was issued here")
    if issued.cluster:
        require_accept(actor, issued.cluster)
    else:
        _require_signing(actor)
    if issued.revoked_at is None:
        issued.revoked_at, issued.revoked_by, issued.revocation_reason = clock.now(), actor.user[:320], reason
        verbs.together(actor, partial(_revoke, issued, reason))
    return issued


def _revoke(issued: IssuedCertificate, reason: str, batch: verbs.Batch) -> None:
    if issued.cluster:
        _needs_accept(batch, issued.cluster)
        _take_back_word(batch, issued.cluster, issued.key_fingerprint)
    else:
        batch.needs(SIGNING, _require_signing)
    kind, name = (MANAGED_CLUSTER, issued.cluster) if issued.cluster else (CSR, issued.request)
    batch.note(kind, Key("", name), "certificate:revoke", f"{issued.common_name} {issued.pk}: {reason}")
    batch.records.append(lambda: issued)


def _require_signing(actor: Actor) -> None:
    if not may_use_signer(actor, "sign", agent_names.SIGNER).allowed:
        authorization.refuse(actor, SIGNING, f"you need the right to sign for {agent_names.SIGNER}")


def revoke_all(actor: Actor, name: str, *, reason: str) -> list[str]:
    """Revoke every certificate that gives rights of a cluster, and end its line of keys, in one transaction (D19).

    Returns the fingerprints of those that were valid. The ManagedCluster may be gone. A key of the cluster is accepted
    again only with an override. Raises Forbidden.
    """
    ended: list[str] = []

    def revoke(batch: verbs.Batch) -> None:
        _take_back_word(batch, name)
        end_line(batch, name, reason, ended)

    verbs.together(actor, revoke)
    return ended


def end_line(batch: verbs.Batch, name: str, reason: str, ended: list[str]) -> None:
    """As ``revoke_all``, in the caller's transaction, which takes back the word for a key (``without_override``).

    ``ended`` gets the fingerprints when the batch is committed. Raises Forbidden.
    """
    _needs_accept(batch, name)

    def end() -> Iterator[Model]:
        ended.clear()
        for row in key_lines.ended(batch.actor, name, reason):
            if isinstance(row, IssuedCertificate):
                ended.append(row.pk)
            yield row

    batch.records.append(end)


def without_override(doc: Doc) -> None:
    """D9: an override holds for one key and one acceptance."""
    (doc["metadata"].get("annotations") or {}).pop(ACCEPT_KEY, None)


def _take_back_word(batch: verbs.Batch, cluster: str, key: str = "") -> None:
    """``without_override`` for this key, or any if none is given: the hub's own write, which needs no right."""
    row = reader.read_row(MANAGED_CLUSTER, Key("", cluster))
    annotations = (row.doc["metadata"].get("annotations") or {}) if row is not None else {}
    if annotations.get(ACCEPT_KEY) and key in {"", annotations[ACCEPT_KEY]}:
        batch.edit(MANAGED_CLUSTER, Key("", cluster), without_override, by=CONTROLLER)


def may_accept(actor: Actor, name: str) -> authorization.AccessDecision:
    return authorization.permitted(
        actor, ClusterPermission.ACCEPT, obj=reader.read_row(MANAGED_CLUSTER, Key("", name)), name=name
    )


def acceptable(actor: Actor, names: Iterable[str]) -> set[str]:
    """Those of the names that ``may_accept`` allows, asked for all at once."""
    wanted = set(names)
    if authorization.permitted(actor, ClusterPermission.ACCEPT).allowed:
        return wanted
    named = rule_index.names_allowed(actor, partial(authorization.spellings, ClusterPermission.ACCEPT))
    return (named & wanted) | CLUSTERS.held_among(actor, ClusterPermission.ACCEPT.codename, wanted)


def require_accept(actor: Actor, name: str, *, row: Resource | None = None) -> None:
    """A refusal names the permission that is missing, and is recorded."""
    may = (
        authorization.permitted(actor, ClusterPermission.ACCEPT, obj=row, name=name)
        if row is not None
        else may_accept(actor, name)
    )
    if not may.allowed:
        authorization.refuse(actor, _accepting(name), MISSING.format(name=name))


def _accepting(name: str) -> authorization.Attributes:
    group = "register.open-cluster-management.io"
    return authorization.Attributes("update", group, "managedclusters", "accept", name=name, version="v1")


def _needs_accept(batch: verbs.Batch, name: str) -> None:
    batch.needs(_accepting(name), partial(require_accept, name=name))


def _require_unchanged(
    seen: SeenVersions | None, name: str, row: Resource | None, waiting: list[CertificateSigningRequest]
) -> None:
    """Raises Conflict, with what changed, when the objects are not those that the user decided about."""
    if seen is not None and not stale_decision.is_present(seen, row, waiting):
        raise errors.Conflict(stale_decision.refusal_text(name, seen))


def _undisputed(asking: list[CertificateSigningRequest]) -> list[CertificateSigningRequest]:
    """The newest of the fitting requests of one asker. Who else asks is for a person to tell apart (K7)."""
    if not asking:
        return []
    cluster = asking[0].cluster
    if unfit := [request.name for request in asking if cluster_of(request.doc) != cluster]:
        raise errors.Conflict(
            f"A request for {cluster} does not fit: {', '.join(unfit)}. "
            "Decline it first, or say which key is the right one."
        )
    if len(asking) > 1 and len({key_history.asker_of_request(request.doc).same for request in asking}) > 1:
        raise errors.Conflict(
            f"Several requesters ask for {cluster} with different credentials or from different addresses; "
            "decline one of them first, or say which key is the right one."
        )
    return asking[:1]


def _with_key(asking: list[CertificateSigningRequest], name: str, key: str) -> CertificateSigningRequest:
    found = [each for each in asking if each.key_fingerprint == key and cluster_of(each.doc) == name]
    if not found:
        raise errors.Conflict(f"No fitting request for {name} waits with the key {key}.")
    return found[0]


def _require_no_decline(name: str) -> None:
    """D10: a declined name is not accepted, because its agent would be denied at once. Raises Conflict."""
    if decline := next(iter(key_history.present_declines(name)), None):
        raise errors.Conflict(
            f"{name} was declined by {decline.declined_by}: {decline.reason or 'no reason'}. Lift that first."
        )


def undeniable(actor: Actor, name: str, waiting: Iterable[stale_decision.Requested]) -> str:
    """Why the actor cannot deny all of these requests, or "". ``waiting`` are rows or evidence.

    D15: a request that fits comes with the right to accept; any other needs ``update`` of its approval and ``approve``
    on its signer (W23).
    """
    unfit = [request.name for request in waiting if cluster_of(request.doc) != name]
    if all(_may_decide_unfit(actor, request) for request in unfit):
        return ""
    which = f"The request {unfit[0]} does" if len(unfit) == 1 else f"The requests {', '.join(unfit)} do"
    return (
        f"{which} not speak for {name} alone, so denying it takes the right to update {CSR.plural}/approval and to "
        f"approve for the signer {agent_names.SIGNER}, which you do not have."
    )


def _may_decide_unfit(actor: Actor, request: str) -> bool:
    asked = authorization.Attributes("update", CSR.group, CSR.plural, "approval", name=request)
    return (
        authorization.authorize(actor, asked).allowed and may_use_signer(actor, "approve", agent_names.SIGNER).allowed
    )


def _accept_with(override: key_history.KeyOverride | None, clusterset: str) -> verbs.Edit:
    """An override leaves the annotation with which kubectl says the same (D9)."""

    def accept(doc: Doc) -> None:
        doc["spec"][ACCEPTS_CLIENT] = True
        if clusterset:
            doc["metadata"].setdefault("labels", {})[CLUSTERSET_LABEL] = clusterset
        if override:
            doc["metadata"].setdefault("annotations", {})[ACCEPT_KEY] = override.fingerprint

    return accept


def _disconnect(doc: Doc) -> None:
    doc["spec"][ACCEPTS_CLIENT] = False


def _approve(doc: Doc) -> None:
    add_decision(doc, "Approved", "ConsoleApprove", "This CSR was approved with its cluster.")


def _deny_with(reason: str) -> verbs.Edit:
    def deny(doc: Doc) -> None:
        add_decision(doc, "Denied", "Declined", reason)

    return deny
