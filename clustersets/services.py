"""Acts on cluster sets, the same from every page: make, remove, move clusters between them, bind and unbind.

Each is one write by ``verbs`` as the signed-in person; the rules of ``admission`` decide, as they do for kubectl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER, label_of
from clustersets.kinds import DEFAULT_SET, GLOBAL_SET, MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from clustersets.wire import BY_LABELS, EXCLUSIVE
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc

MOVED_MEANWHILE = "it was moved meanwhile and is in set {present} now; nothing was done"


def create_set(actor: Actor, name: str, *, requirements: Sequence[Doc] | None = None) -> None:
    """An exclusive set, or with requirements one of whatever they select. Raises Forbidden, AlreadyExists, Invalid."""
    verbs.create(actor, MANAGED_CLUSTER_SET, set_document(name, requirements))


def set_document(name: str, requirements: Sequence[Doc] | None = None) -> Doc:
    """Of a new set, as it is stored and as kubectl would be given it."""
    selector: Doc = {"selectorType": EXCLUSIVE}
    if requirements is not None:
        selector = {"selectorType": BY_LABELS, "labelSelector": {"matchExpressions": list(requirements)}}
    doc = _document(MANAGED_CLUSTER_SET.kind, MANAGED_CLUSTER_SET.storage.api_version, name)
    return doc | {"spec": {"clusterSelector": selector}}


def standing_reason(name: str) -> str:
    """Why a set cannot be deleted: the hub keeps ``default`` and ``global`` (H23, H24). Empty where it can."""
    if name not in {DEFAULT_SET, GLOBAL_SET} or not settings.OCMCONSOLE_FEATURE_GATES["DefaultClusterSet"]:
        return ""
    return f"The hub itself keeps the set {name}: it would be made again at once."


def delete_set(actor: Actor, name: str) -> None:
    """Its members stay clusters and keep their labels. Raises Conflict (the hub keeps it), Forbidden, NotFound."""
    if reason := standing_reason(name):
        raise errors.conflict(GROUP, MANAGED_CLUSTER_SET.plural, name, reason)
    verbs.delete(actor, MANAGED_CLUSTER_SET, Key("", name))


def move_cluster(actor: Actor, cluster: str, to: str, *, seen: str) -> None:
    """Put a cluster into another exclusive set by its label (T6); ``seen`` is the set that the user saw it in.

    Raises Forbidden without ``join`` on both sets (A6) or ``patch`` on the cluster, Conflict when somebody moved it.
    """

    def relabel(doc: Doc) -> None:
        present = label_of(doc, CLUSTERSET_LABEL)
        if present != seen:
            text = MOVED_MEANWHILE.format(present=present or "none")
            raise errors.conflict(GROUP, MANAGED_CLUSTER.plural, cluster, text)
        doc["metadata"].setdefault("labels", {})[CLUSTERSET_LABEL] = to

    verbs.edit(actor, MANAGED_CLUSTER, Key("", cluster), relabel)


def bind_set(actor: Actor, name: str, namespace: str) -> None:
    """Bind a set into a namespace, so that its placements may choose from it.

    Raises Forbidden without ``bind`` on the set (A9), Invalid for a cluster namespace (D4), AlreadyExists, NotFound.
    """
    kind = MANAGED_CLUSTER_SET_BINDING
    doc = _document(kind.kind, kind.storage.api_version, name) | {"spec": {"clusterSet": name}}
    verbs.create(actor, kind, doc, namespace=namespace)


def unbind_set(actor: Actor, name: str, namespace: str) -> None:
    """Raises Forbidden, NotFound."""
    verbs.delete(actor, MANAGED_CLUSTER_SET_BINDING, Key(namespace, name))


def _document(kind: str, api_version: str, name: str) -> Doc:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
