"""Roles that people play on a hub, as what each needs: previewed first, given then, all of it or nothing.

A preset is made of words (``known_rights``). On all objects and on one it becomes Django permissions, which know no
less and no more than the word; for names that need not exist yet, and for what happens in a namespace, it becomes rules
of RBAC. Pure: what is planned here ``access`` gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ocmconsole.core import kinds
from ocmconsole.core.rbac import known_rights, rule_index
from ocmconsole.core.rbac.rule_index import Subject
from ocmconsole.kubeapi.models import AuditPermission

if TYPE_CHECKING:
    from ocmconsole.core.rbac.known_rights import Right
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind

GROUP = "cluster.open-cluster-management.io"
CLUSTERS, SETS, BINDINGS = "managedclusters", "managedclustersets", "managedclustersetbindings"
PLACEMENTS, DECISIONS = "placements", "placementdecisions"
TOKENS = ("ocmconsole.io", "bootstraptokens")
READ = ("get", "list", "watch")
RBAC_PREFIX = "access"


class PresetScope(StrEnum):
    """What the rights are about."""

    ALL = "all"
    SET = "set"
    CLUSTER = "cluster"
    NAMES = "names"
    NAMESPACE = "namespace"  # one set in one namespace
    NAMESPACE_ALONE = "namespace-alone"


@dataclass(frozen=True, slots=True)
class Duty:
    """What a preset does in one namespace: verbs on resources of OCM, and the same in words."""

    says: str
    plurals: tuple[str, ...]
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """``words`` are rights by word and plural; ``labels`` are permissions that no word is for.

    ``duties`` become rules of RBAC in the namespace of a grant.
    """

    key: str
    title: str
    says: str
    icon: str
    words: tuple[tuple[str, str], ...]
    scopes: tuple[PresetScope, ...]
    labels: tuple[str, ...] = ()
    duties: tuple[Duty, ...] = ()
    note: str = ""


PRESETS = {
    preset.key: preset
    for preset in (
        Preset(
            "approver",
            "Approver",
            "Sees clusters and decides who may join.",
            "user-check",
            (("see", CLUSTERS), ("accept", CLUSTERS)),
            (PresetScope.ALL, PresetScope.CLUSTER, PresetScope.NAMES),
            note="The right to accept a cluster is also the right to disconnect it.",
        ),
        Preset(
            "set-owner",
            "Set owner",
            "Adds clusters to a set and takes them out, binds it, sees its clusters.",
            "boxes",
            (("see", SETS), ("join", SETS), ("move", SETS), ("bind", SETS)),
            (PresetScope.SET, PresetScope.ALL),
            note="A cluster moves between two sets of the same owner. Of a cluster, only its set label may be changed.",
        ),
        Preset(
            "binder",
            "Namespace binder",
            "Binds a set into one namespace, where placements then choose from it.",
            "link-2",
            (("bind", SETS),),
            (PresetScope.NAMESPACE,),
            duties=(Duty("create and delete bindings", (BINDINGS,), ("create", "delete", *READ)),),
        ),
        Preset(
            "placement-author",
            "Placement author",
            "Writes the placements of one namespace and reads what they choose.",
            "crosshair",
            (),
            (PresetScope.NAMESPACE_ALONE,),
            duties=(
                Duty("read and write placements", (PLACEMENTS,), (*READ, "create", "update", "patch", "delete")),
                Duty("read decisions and the bindings of sets", (DECISIONS, BINDINGS), READ),
            ),
            note="Placements choose from the sets that are bound into the namespace, and decisions name the clusters.",
        ),
        Preset(
            "viewer",
            "Viewer",
            "Looks, and changes nothing.",
            "eye",
            (("see", CLUSTERS), ("see", SETS)),
            (PresetScope.ALL, PresetScope.SET, PresetScope.CLUSTER),
        ),
        Preset(
            "auditor",
            "Auditor",
            "Looks at everything, and at what everybody did.",
            "scroll-text",
            (("see", CLUSTERS), ("see", SETS)),
            (PresetScope.ALL,),
            labels=(AuditPermission.VIEW,),
        ),
        Preset(
            "minter",
            "Token minter",
            "Mints bootstrap tokens, with which clusters ask to join.",
            "ticket",
            (("mint", TOKENS[1]),),
            (PresetScope.ALL,),
            note="A token lets a cluster ask; somebody who may accept still decides.",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """What is to be given to whom: a preset, where, and the names that the scope speaks of."""

    preset: Preset
    subject: Subject
    scope: PresetScope
    names: tuple[str, ...] = ()
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Permitted:
    """A Django permission, on one object or on all."""

    label: str
    group: str = ""
    plural: str = ""
    name: str = ""

    @property
    def where(self) -> str:
        return f"on {self.name}" if self.name else "on all objects"


@dataclass(frozen=True, slots=True)
class RoleDocument:
    """A role or a binding, to be created."""

    kind: Kind
    namespace: str
    doc: Doc


@dataclass(frozen=True, slots=True)
class GrantPlan:
    """Permissions or documents, never both, so that all of it is given or nothing."""

    subject: Subject
    permissions: tuple[Permitted, ...] = ()
    documents: tuple[RoleDocument, ...] = ()
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan_grant(wish: GrantRequest) -> GrantPlan:
    words = _words(wish)
    if wish.scope in {PresetScope.NAMES, PresetScope.NAMESPACE, PresetScope.NAMESPACE_ALONE}:
        return _of_rules(wish, words)
    names = wish.names if wish.scope is not PresetScope.ALL else ("",)
    permitted = [Permitted(word.permission, word.group, word.plural, name) for word in words for name in names]
    permitted += [Permitted(label) for label in wish.preset.labels]
    sentences = [word.sentence(wish.names or (known_rights.ALL,)) for word in words]
    sentences += ["read the audit of everybody"] if AuditPermission.VIEW in wish.preset.labels else []
    notes = [wish.preset.note] if wish.preset.note else []
    if wish.scope is PresetScope.ALL:
        notes.append("It also counts for objects that do not exist yet.")
    if wish.scope in {PresetScope.SET, PresetScope.CLUSTER}:
        notes.append("It ends with the object: one that is made again under the same name inherits nothing.")
    return GrantPlan(wish.subject, permissions=tuple(permitted), sentences=tuple(sentences), notes=tuple(notes))


def _words(wish: GrantRequest) -> list[Right]:
    """A viewer of one set needs no right on clusters: users who see a set see its members (D16)."""
    only = {PresetScope.SET: SETS, PresetScope.CLUSTER: CLUSTERS}.get(wish.scope, "")
    wanted = [(word, plural) for word, plural in wish.preset.words if only in {"", plural}]
    return [right for right in known_rights.all_rights() if (right.word, right.plural) in wanted]


# ---------------------------------------------------------------- RBAC


def _of_rules(wish: GrantRequest, words: list[Right]) -> GrantPlan:
    notes = [wish.preset.note] if wish.preset.note else []
    rules = [rule_of(word, wish.names) for word in words]
    sentences = [word.sentence(wish.names or (known_rights.ALL,)) for word in words]
    name = f"{RBAC_PREFIX}-{wish.preset.key}-{_digest(wish)}"
    if wish.scope is PresetScope.NAMES:
        rules.append(_rule(GROUP, (CLUSTERS,), ("update", "patch"), wish.names))
        sentences.append(f"change the labels and taints of {', '.join(wish.names)} as well")
        notes.append("RBAC takes each name as it is, without patterns, and counts for names that do not exist yet.")
        notes.append("RBAC cannot limit an update to acceptance; a Django permission on one cluster can.")
    documents = role_and_binding(name, wish.subject, rules) if rules else ()
    if wish.namespace:
        duties = [_rule(GROUP, each.plurals, each.verbs) for each in wish.preset.duties]
        documents += role_and_binding(name, wish.subject, duties, namespace=wish.namespace)
        sentences += [f"{each.says} in namespace {wish.namespace}" for each in wish.preset.duties]
    return GrantPlan(wish.subject, documents=documents, sentences=tuple(sentences), notes=tuple(notes))


def rule_of(right: Right, names: tuple[str, ...]) -> Doc:
    """The right as RBAC spells it first (D2)."""
    asked = right.asked("")[0]
    return _rule(asked.group, (asked.full_resource,), (asked.verb,), names)


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...], names: tuple[str, ...] = ()) -> Doc:
    rule: dict[str, Any] = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return rule | ({"resourceNames": list(names)} if names else {})


def role_and_binding(name: str, subject: Subject, rules: list[Doc], *, namespace: str = "") -> tuple[RoleDocument, ...]:
    role = kinds.ROLE if namespace else kinds.CLUSTER_ROLE
    binding = kinds.ROLE_BINDING if namespace else kinds.CLUSTER_ROLE_BINDING
    bound = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": rule_index.GROUP, "kind": role.kind, "name": name},
        "subjects": [{"apiGroup": rule_index.GROUP, "kind": subject.kind, "name": subject.name}],
    }
    return (
        RoleDocument(role, namespace, {"metadata": {"name": name}, "rules": rules}),
        RoleDocument(binding, namespace, bound),
    )


def _digest(wish: GrantRequest) -> str:
    """The same wish has the same name, so that giving it twice is noticed."""
    parts = (str(wish.subject), wish.scope, *sorted(wish.names), wish.namespace)
    return sha256("\0".join(parts).encode()).hexdigest()[:8]
