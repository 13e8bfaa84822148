"""Admission of cluster sets: the default set (A2), moving clusters between sets (A6), binding sets (A8, A9).

Those on ManagedCluster run after the rules of the app of clusters: first failure is reported (A7c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings

from clusters import webhook_refusals
from clusters.acceptance import obstacles
from clusters.admission import accept_invalid, is_accepting
from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER, label_of, spec_of
from clusters.models import ManagedCluster
from clusters.webhook_refusals import BINDING_WEBHOOK, CLUSTER_WEBHOOK
from clustersets import membership
from clustersets.kinds import DEFAULT_SET, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.models import ManagedClusterSetBinding, SetPermission
from ocmconsole.core.rbac import known_rights, rule_index
from ocmconsole.kubeapi import admission, errors, request_cache
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import AccessDecision, Attributes
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.schema.values import quoted

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.access.authorization import Spelling
    from ocmconsole.kubeapi.errors import Doc

# Of a cluster: what kubectl label needs, and the only field that it may change.
MOVING = frozenset({"get", "update", "patch"})
SET_LABEL = frozenset({f"metadata.labels.{CLUSTERSET_LABEL}"})
# The key of the set label in the oldest of OCM's documents (D6: copied to the current key).
OLD_CLUSTERSET_LABEL = "open-cluster-management.io/clusterset"


def _spelled(subresource: str) -> Spelling:
    """D2: RBAC grants joining, binding and moving by the plural and by the singular resource."""

    def spelling(name: str) -> list[Attributes]:
        resources = ("managedclustersets", "managedclusterset")
        return [Attributes("create", GROUP, resource, subresource, name=name) for resource in resources]

    return spelling


authorization.spell(SetPermission.JOIN, _spelled("join"))
authorization.spell(SetPermission.BIND, _spelled("bind"))
authorization.spell(SetPermission.MOVE, _spelled("move"))
for _word, _permission, _phrase in (
    ("join", SetPermission.JOIN, "add clusters to {}"),
    ("bind", SetPermission.BIND, "bind {}"),
    ("move", SetPermission.MOVE, "change the set label of clusters in {}"),
):
    known_rights.register(
        known_rights.domain_right(
            _word, _permission, group=GROUP, plural="managedclustersets", phrase=_phrase, noun="set"
        )
    )


@authorization.authorizer
def member_may_be_moved(actor: Actor, asked: Attributes) -> AccessDecision | None:
    """A6, D2: the right to move clusters of an exclusive set allows changes of their set label, and of nothing else.

    Which sets a cluster may leave and enter is decided by ``moving_needs_join``.
    """
    if (asked.group, asked.resource, asked.subresource) != (GROUP, MANAGED_CLUSTER.plural, ""):
        return None
    if not asked.name or asked.verb not in MOVING or not _may_hold_move(actor):
        return None
    cluster: Any = request_cache.row_at(MANAGED_CLUSTER, Key("", asked.name))
    found = _set(cluster.clusterset) if cluster is not None and cluster.clusterset else None
    if found is None or found.deleted_at or not membership.membership_of(found.doc).is_exclusive:
        return None
    if not authorization.permitted(actor, SetPermission.MOVE, obj=found).allowed:
        return None
    reason = f"{SetPermission.MOVE} on set {found.name} of the cluster granted to {actor.user}"
    return AccessDecision(allowed=True, reason=reason, fields=None if asked.verb == "get" else SET_LABEL)


def _may_hold_move(actor: Actor) -> bool:
    """False where a look at the rules in memory shows that the actor cannot; the agents of clusters end here."""
    if authorization.person_of(actor) is not None:
        return True
    moves = authorization.spellings(SetPermission.MOVE, "")
    return any(rule.speaks_of(each) for rule in rule_index.index.rules_for(actor) for each in moves)


def _set(name: str) -> Any:
    """None where it does not exist: then global permissions and RBAC decide (D2)."""
    return request_cache.row_at(MANAGED_CLUSTER_SET, Key("", name))


# ---------------------------------------------------------------- membership of a cluster


@admission.defaulter(MANAGED_CLUSTER)
def old_label_is_copied(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """D6: a changed value of the oldest set label is copied to the current key, unless that was changed too."""
    labels = new["metadata"].get("labels")
    value = labels.get(OLD_CLUSTERSET_LABEL) if isinstance(labels, dict) else None
    if not value or not isinstance(value, str) or value == _label(old, OLD_CLUSTERSET_LABEL):
        return
    if (labels.get(CLUSTERSET_LABEL) or "") == _label(old, CLUSTERSET_LABEL):
        labels[CLUSTERSET_LABEL] = value
        admission.warn(
            f"label {OLD_CLUSTERSET_LABEL} is deprecated: its value was copied to {CLUSTERSET_LABEL}, use that label"
        )


@admission.defaulter(MANAGED_CLUSTER)
def default_set_is_given(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """A2: a cluster without a set label gets that of the set ``default`` (gate DefaultClusterSet)."""
    if not settings.OCMCONSOLE_FEATURE_GATES["DefaultClusterSet"]:
        return
    labels = new["metadata"].get("labels")
    if labels is None:
        labels = new["metadata"]["labels"] = {}
    if isinstance(labels, dict) and not labels.get(CLUSTERSET_LABEL):
        labels[CLUSTERSET_LABEL] = DEFAULT_SET


@admission.validator(MANAGED_CLUSTER)
def moving_needs_join(actor: Actor, old: Doc | None, new: Doc) -> None:
    """A6: changing the set label needs ``join`` on the old set and on the new one. Raises Forbidden.

    K6: the hub's own writes pass.
    """
    before, after = _label(old, CLUSTERSET_LABEL), label_of(new, CLUSTERSET_LABEL)
    if before == after or actor.is_controller:
        return
    for name in filter(None, (before, after)):
        if not authorization.permitted(actor, SetPermission.JOIN, obj=_set(name), name=name).allowed:
            why = (
                f"user {quoted(actor.user)} cannot add/remove a ManagedCluster to/from ManagedClusterSet {quoted(name)}"
            )
            raise webhook_refusals.webhook_forbidden(CLUSTER_WEBHOOK, "managedclustersets/join", name, why)


NAMESPACE_IS_BOUND = obstacles.register("namespace_is_bound", ManagedClusterSetBinding.objects.all(), "namespace")


@admission.validator(MANAGED_CLUSTER)
def bound_namespace_stays_no_cluster_namespace(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """D18: no cluster is accepted whose namespace would be one that holds a ManagedClusterSetBinding. Raises Invalid.

    Users who work with placements there must not share the namespace with an agent.
    """
    name = new["metadata"]["name"]
    if is_accepting(old, new) and obstacles.is_met(NAMESPACE_IS_BOUND, name):
        why = f'namespace "{name}" holds a ManagedClusterSetBinding and cannot become a cluster namespace'
        raise accept_invalid(name, why)


def _label(doc: Doc | None, label: str) -> str:
    return label_of(doc, label) if doc is not None else ""


# ---------------------------------------------------------------- bindings


@admission.validator(MANAGED_CLUSTER_SET_BINDING)
def binding_has_name_of_set(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """A8: a binding has the name of its set. Raises BadRequest."""
    if new["metadata"]["name"] != spec_of(new).get("clusterSet"):
        text = "The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
        raise webhook_refusals.bad_request(BINDING_WEBHOOK, text)


@admission.validator(MANAGED_CLUSTER_SET_BINDING)
def binding_needs_permission(actor: Actor, old: Doc | None, new: Doc) -> None:
    """A9: creating a binding needs ``bind`` on the set. Raises Forbidden, with the right API group (K2)."""
    if old is not None or actor.is_controller:
        return
    name = new["metadata"]["name"]
    if not authorization.permitted(actor, SetPermission.BIND, obj=_set(name), name=name).allowed:
        why = f"user {quoted(actor.user)} is not allowed to bind cluster set {quoted(name)}"
        raise webhook_refusals.webhook_forbidden(BINDING_WEBHOOK, "managedclustersets/bind", name, why)


@admission.validator(MANAGED_CLUSTER_SET_BINDING)
def cluster_namespace_is_not_bound(actor: Actor, old: Doc | None, new: Doc) -> None:  # noqa: ARG001 - the signature of rules
    """D4: no set is bound into the namespace of an accepted cluster. Raises Invalid, or warns where that is allowed.

    A cluster that was never accepted has no namespace and blocks none.
    """
    if old is not None:
        return
    namespace = new["metadata"]["namespace"]
    cluster = ManagedCluster.objects.filter(name=namespace).first()
    if cluster is None or not (cluster.hub_accepts_client or cluster.accepted):
        return
    why = f'namespace "{namespace}" is the cluster namespace of a registered cluster; bind the set into another one'
    if settings.OCMCONSOLE_ALLOW_CLUSTER_NAMESPACE_BINDING:
        admission.warn(why)
        return
    cause = errors.forbidden_field("metadata.namespace", why)
    raise webhook_refusals.webhook_invalid(
        BINDING_WEBHOOK, MANAGED_CLUSTER_SET_BINDING.kind, new["metadata"]["name"], cause
    )
