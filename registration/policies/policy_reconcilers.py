"""What people decided beforehand, done when a cluster comes (K9).

Invariant: each is done as the user who gave the order, through the same services and validators as any act, with the
rights that this user has now. What the user may not do is not done, and the reason is kept for them. Nothing is done
twice.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER, is_accepted, is_deleting
from clusters.models import ManagedCluster
from clustersets import queries as sets
from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import admission, clock, errors, verbs
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import stand_in
from ocmconsole.kubeapi.control.controllers import reconciler
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.storage import audit, plain_sql, reader
from registration import queries
from registration.approvals import services, stale_decision
from registration.evidence import assessment
from registration.evidence.assessment import Verdict
from registration.keys import key_history
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.kinds import state_of
from registration.models import ApprovalPolicy, ApprovalPolicyUse, CertificateSigningRequest
from registration.pki import agent_names
from registration.policies import policy_matching, policy_services
from registration.reconcilers import may_be_given

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from django.db.models import Model

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from registration.policies.policy_matching import Arrival

log = logging.getLogger(__name__)

POLICY = "policy:"
State = ApprovalPolicy.State
WISHED = """SELECT DISTINCT brought.cluster FROM corekinds_bootstraptokenuse brought
            JOIN corekinds_bootstraptoken token ON token.id = brought.token_id
            WHERE (token.clusterset <> '' OR token.labels <> '{{}}') AND brought.cluster IN ({marks})"""
ANSWERED = frozenset({CertificateSigningRequest.State.APPROVED, CertificateSigningRequest.State.ISSUED})


# ---------------------------------------------------------------- wishes that came with a token


def _came(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    return (key,) if old is None else ()


def _brought_with_wish(keys: Collection[Key]) -> Iterable[Key]:
    """Clusters of names that some token has brought which names a set or labels."""
    names = [key.name for key in keys]
    brought = plain_sql.rows(WISHED.format(marks=plain_sql.marks(names)), *names)
    return [Key("", name) for (name,) in brought]


@reconciler(MANAGED_CLUSTER, keys=_came, among=_brought_with_wish)
def reconcile_token_wish(key: Key) -> None:
    """K4, A6: a cluster gets the set and labels that its bootstrap token names, once.

    1. Skipped: a cluster being deleted, one that no token brought, one that had its wish already, a token without one.
    2. Set and labels are written with the rights of the user who made the token.
    3. What was refused is kept with the token's use and shown there; it is not tried again.
    """
    row: Any = reader.read_row(MANAGED_CLUSTER, key)
    if row is None or row.deleted_at is not None:
        return
    use = _use_that_brought(row)
    if use is None or use.wished_uid == row.uid or not (use.token.clusterset or use.token.labels):
        return
    use.wished_uid, use.wish_failure = row.uid, _label_as_minter(use.token, key)
    use.save(update_fields=["wished_uid", "wish_failure"])


def _use_that_brought(row: ManagedCluster) -> BootstrapTokenUse | None:
    """Only of the token with which this very cluster was registered: asking for a name again changes no cluster."""
    creation = key_history.creation_of(MANAGED_CLUSTER, row.name, row.uid)
    if creation is None or not creation.credential.startswith(bootstrap_terms.PREFIX):
        return None
    token = creation.credential.removeprefix(bootstrap_terms.PREFIX)
    return BootstrapTokenUse.objects.filter(token=token, cluster=row.name).select_related("token").first()


def _label_as_minter(token: BootstrapToken, key: Key) -> str:
    """What stood against it, or ""."""
    person = stand_in(token.created_by, f"wish:{token.pk}")
    if person is None:
        return f"{token.created_by}, who minted the token, is no active user of this hub"
    try:
        verbs.edit(person, MANAGED_CLUSTER, key, _labelled(wished_labels(token)))
    except (errors.Forbidden, errors.Invalid) as error:
        return error.message
    return ""


def wished_labels(token: BootstrapToken) -> dict[str, str]:
    return {**token.labels, **({CLUSTERSET_LABEL: token.clusterset} if token.clusterset else {})}


def _labelled(labels: dict[str, str]) -> verbs.Edit:
    def label(doc: Doc) -> None:
        doc["metadata"]["labels"] = {**(doc["metadata"].get("labels") or {}), **labels}

    return label


# ---------------------------------------------------------------- policies


def _concerned(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """A request that comes, changes or goes concerns the cluster in its label."""
    if new is not None and state_of(new) in ANSWERED:
        return ()  # its key is known then, and another one that waits is no safer for that (D9)
    labels = ((new or old or {}).get("metadata") or {}).get("labels") or {}
    cluster = labels.get(agent_names.CLUSTER_LABEL)
    return (Key("", cluster),) if cluster else ()


def _waiting(old: Doc | None, new: Doc | None, key: Key) -> Iterable[Key]:  # noqa: ARG001 - the signature of Keys
    """A cluster that is not let in."""
    return () if new is None or is_deleting(new) or is_accepted(new) else (key,)


@reconciler(MANAGED_CLUSTER, keys=_waiting, also={CSR: _concerned}, is_wanted=policy_services.exist)
def reconcile_policy_acceptance(key: Key) -> None:
    """K9, D9, D10: approval policies accept clusters that fit them and whose verdict is Safe.

    1. Accepted and deleted clusters, and names that no policy may accept, are skipped.
    2. The evidence is computed; unless it is Safe nothing is done.
    3. The first fitting policy whose owner may still accept does so with that user's rights; a failure is noted at it.
    """
    row: Any = reader.read_row(MANAGED_CLUSTER, key)
    if row is None or row.deleted_at is not None or row.hub_accepts_client:
        return
    ready = policy_services.ready(clock.now())
    if not ready:
        return
    arrival = arrival_of(row)
    fitting = [policy for policy in ready if not policy_matching.misfit(policy, arrival)]
    if not fitting or not may_be_given(row.name):
        return
    found = assessment.evidence_of(row.name)
    if found.verdict is Verdict.SAFE:
        _first_that_may(fitting, found)


def arrival_of(row: ManagedCluster) -> Arrival:
    """All requesters: the one that created the cluster, and those of its waiting CSRs."""
    askers = [key_history.asker_of(key_history.creation_of(MANAGED_CLUSTER, row.name, row.uid))]
    askers += [key_history.asker_of_request(request.doc) for request in queries.waiting_requests(row.name)]
    use = _use_that_brought(row)
    is_done = use is not None and use.wished_uid == row.uid and not use.wish_failure
    wished = wished_labels(use.token) if use is not None and is_done else {}
    own = {key: value for key, value in row.labels.items() if wished.get(key) != value}
    return policy_matching.Arrival(
        name=row.name,
        credentials=frozenset(asker.credential for asker in askers),
        addresses=frozenset(asker.address for asker in askers),
        sets=frozenset(sets.sets_of(own)),
    )


def _first_that_may(fitting: list[ApprovalPolicy], found: assessment.Evidence) -> None:
    for policy in fitting:
        problem = _accept(policy, found)
        policy_services.note_failure(policy, problem)
        if not problem:
            return


def _accept(policy: ApprovalPolicy, found: assessment.Evidence) -> str:
    """What stood against it, or ""."""
    person = stand_in(policy.acts_as, f"{POLICY}{policy.name}")
    if person is None:
        return f"{policy.acts_as} is no active user of this hub"
    if not policy_services.may_keep(person, policy_services.rule_of(policy)):
        return f"{policy.acts_as} may not keep policies any more"
    try:
        services.accept_cluster(person, found.name, seen=stale_decision.seen_of(found), clusterset=policy.clusterset)
    except (errors.Forbidden, errors.Invalid) as error:
        return error.message
    return ""


@admission.records(MANAGED_CLUSTER)
def policy_use_is_counted(actor: Actor, old: Doc | None, new: Doc | None) -> list[Model]:
    """K9: each acceptance by a policy is counted, and noted in the audit.

    Raises Conflict when the policy has ended: checked under the counter's lock, so that none exceeds its number.
    """
    if (
        new is None
        or old is None
        or actor.entry_point is not EntryPoint.STANDING
        or not actor.credential.startswith(POLICY)
    ):
        return []
    if is_accepted(old) or not is_accepted(new):
        return []
    now, cluster = clock.now(), new["metadata"]["name"]
    policy = ApprovalPolicy.objects.filter(name=actor.credential.removeprefix(POLICY)).first()
    if policy is None or policy.state(now) not in {State.WORKING, State.FAILING}:
        raise errors.Conflict(f"the policy {actor.credential.removeprefix(POLICY)} has ended; {cluster} waits")
    note = audit.entry_of(
        actor, "approvalpolicy:use", time=now, verb="update", resource=policy_services.PLURAL, name=policy.name,
        diff=[{"path": "accepted", "new": cluster}],
    )  # fmt: skip
    return [ApprovalPolicyUse(policy=policy, cluster=cluster, time=now), note]
