"""One row of the table of admission: who, what is stored, what is sent, and what the hub answers.

Rows are data. ``scene`` prepares what they need, ``ways`` carries them in, ``table`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER, REGISTER
from ocmconsole.kubeapi.kinds import Kind
from tests.actors import rule

Doc = dict[str, Any]

# ---------------------------------------------------------------- who


class Sort(Enum):
    """How somebody comes in: only a person has a certificate and a password."""

    PERSON = "person"
    AGENT = "agent"
    BOOTSTRAP = "bootstrap"
    HUB = "hub"


@dataclass(frozen=True)
class Who:
    """``rules`` are RBAC; ``permissions`` are Django's, each with the object that it is about, "" for all of them."""

    name: str
    rules: tuple[Doc, ...] = ()
    permissions: tuple[tuple[str, str], ...] = ()
    by_group: bool = False
    masters: bool = False
    sort: Sort = Sort.PERSON


KINDS = "managedclusters managedclustersets managedclustersetbindings"
WRITE = rule("create get list update patch delete", KINDS, groups=GROUP)
JOIN_ANY = rule("create", "managedclustersets/join", groups=GROUP)
ACCEPT_ANY = rule("update", "managedclusters/accept", groups=REGISTER)
BIND_ANY = rule("create", "managedclustersets/bind", groups=GROUP)

SUPERUSER = Who("sam", masters=True)
WRITER = Who("raj", (WRITE, JOIN_ANY))  # may write everything and move clusters, but lets none in and binds nothing
CLERK = Who("raj", (WRITE,))  # may write everything, and nothing else
APPROVER = Who("ana", (WRITE, JOIN_ANY, ACCEPT_ANY))
READER = Who("li", (rule("get list", KINDS, groups=GROUP),))
NOBODY = Who("mallory")
AGENT = Who("system:open-cluster-management:c1:agent1", sort=Sort.AGENT)
BOOTSTRAP = Who("", sort=Sort.BOOTSTRAP)  # its name is the cluster that its token is for, "" for any
HUB = Who("system:ocmconsole:registration", sort=Sort.HUB)


def clerk(*rules: Doc, permissions: tuple[tuple[str, str], ...] = (), by_group: bool = False) -> Who:
    """May write everything, and has these rights on top."""
    return Who("raj", (WRITE, *rules), permissions, by_group)


# ---------------------------------------------------------------- what comes out


class Stamp(Enum):
    """Stands in an expected document for a time that the hub has set just now."""

    NOW = "now"


@dataclass(frozen=True)
class Allowed:
    """``doc`` is a part of what is stored then; None says that there is nothing."""

    doc: Doc = field(default_factory=dict)
    warning: str = ""
    act: str = ""


@dataclass(frozen=True)
class Refused:
    """Forms and services have words of their own for a right that is missing; else the message is the same anywhere.

    ``{user}`` stands for a name that nobody knows before, ``{verb}`` for that of the way. ``about`` is whom the
    details of the Status name, where it is a virtual resource.
    """

    code: int
    message: str
    by_admin: str = ""
    by_service: str = ""
    about: Doc = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return {400: "BadRequest", 403: "Forbidden", 404: "NotFound", 422: "Invalid"}[self.code]


# ---------------------------------------------------------------- texts of sections 2.1 to 2.4

DENIED = 'admission webhook "{}.admission.cluster.open-cluster-management.io" denied the request: '
MUTATING = DENIED.format("managedclustermutators")
VALIDATING = DENIED.format("managedclustervalidators")
BINDING = DENIED.format("managedclustersetbindingvalidators")
MISSING = "you need the permission clusters.accept_managedcluster (in RBAC: update managedclusters/accept) for {}"


def time_refused(quoted_keys: str) -> Refused:
    return Refused(400, f"{MUTATING}It is not allowed to set TimeAdded of Taint {quoted_keys}.")


def shape_refused(*lines: str) -> Refused:
    return Refused(400, VALIDATING + "\n".join(lines))


def accept_refused(user: str, name: str = "c1", *, why: str = "") -> Refused:
    why = why or f'user "{user}" cannot update the HubAcceptsClient field'
    message = f'{VALIDATING}managedclusters/accept.cluster.open-cluster-management.io "{name}" is forbidden: {why}'
    asked = (
        f'managedclusters.register.open-cluster-management.io "{name}" is forbidden: User "{user}" cannot update resource '
        '"managedclusters/accept" in API group "register.open-cluster-management.io" at the cluster scope'
    )
    missing = MISSING.format(name)
    about = {"name": name, "kind": "managedclusters/accept"}
    return Refused(403, message, by_admin=f"{message}; {missing}", by_service=f"{asked}: {missing}", about=about)


def ending_refused(name: str = "c1") -> Refused:
    return _virtual(VALIDATING, "managedclusters/accept", name, f'cluster namespace "{name}" is terminating')


def join_refused(user: str, name: str) -> Refused:
    why = f'user "{user}" cannot add/remove a ManagedCluster to/from ManagedClusterSet "{name}"'
    return _virtual(VALIDATING, "managedclustersets/join", name, why)


def bind_refused(user: str, name: str) -> Refused:
    why = f'user "{user}" is not allowed to bind cluster set "{name}"'
    return _virtual(BINDING, "managedclustersets/bind", name, why)


def _virtual(webhook: str, resource: str, name: str, why: str) -> Refused:
    message = f'{webhook}{resource}.cluster.open-cluster-management.io "{name}" is forbidden: {why}'
    return Refused(403, message, about={"name": name, "kind": resource})


NAME_OF_SET = Refused(
    400, f"{BINDING}The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet"
)


def invalid(kind: Kind, name: str, *causes: str, webhook: str = "") -> Refused:
    listed = causes[0] if len(causes) == 1 else f"[{', '.join(causes)}]"
    return Refused(422, f'{webhook}{kind.kind}.cluster.open-cluster-management.io "{name}" is invalid: {listed}')


# ---------------------------------------------------------------- rows


class Act(Enum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class Row:
    """``new`` is the whole document at create, and what changes (as in a merge patch) at update.

    ``around`` makes what else there is, ``settled`` runs the reconcilers on all of it, ``settings`` holds while the act is done, ``twice`` is a field
    that the text has two times, ``ways`` names the only ones that can
    express the row or that see it so.
    """

    title: str
    who: Who
    new: Doc
    outcome: Allowed | Refused
    ids: tuple[str, ...]
    act: Act = Act.CREATE
    old: Doc | None = None
    kind: Kind = MANAGED_CLUSTER
    name: str = "c1"
    namespace: str = ""
    around: tuple[Callable[[], Any], ...] = ()
    settled: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False
    twice: str = ""
    ways: tuple[str, ...] = ()
    not_ways: tuple[str, ...] = ()


def creates(title: str, new: Doc, outcome: Allowed | Refused, *ids: str, who: Who = WRITER, **more: Any) -> Row:
    return Row(title, who, new, outcome, ids, **more)


def changes(
    title: str, old: Doc, new: Doc, outcome: Allowed | Refused, *ids: str, who: Who = WRITER, **more: Any
) -> Row:
    return Row(title, who, new, outcome, ids, act=Act.UPDATE, old=old, **more)


def deletes(title: str, old: Doc, outcome: Allowed | Refused, *ids: str, who: Who = WRITER, **more: Any) -> Row:
    return Row(title, who, {}, outcome, ids, act=Act.DELETE, old=old, **more)


# ---------------------------------------------------------------- documents


def cluster(*, accepted: bool = False, clusterset: str = "default", **spec: Any) -> Doc:
    """A stored cluster."""
    return {
        "metadata": {"labels": {CLUSTERSET_LABEL: clusterset}},
        "spec": {"hubAcceptsClient": accepted, "leaseDurationSeconds": 60, **spec},
    }


def labels(**by_key: str | None) -> Doc:
    """``set`` is today's key, ``old`` that of the oldest document."""
    keys = {"set": CLUSTERSET_LABEL, "old": "open-cluster-management.io/clusterset"}
    return {"metadata": {"labels": {keys.get(key, key): value for key, value in by_key.items()}}}


ACCEPTS: Doc = {"spec": {"hubAcceptsClient": True}}
DISCONNECTS: Doc = {"spec": {"hubAcceptsClient": False}}
