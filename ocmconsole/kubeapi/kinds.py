"""Kinds: what the API serves. One registry, filled by each app's ``kinds.py`` when Django starts.

A kind has one stored form and any number of served versions, which may even live in another API group (core and
events.k8s.io Events are two views of one store, W28). The machinery knows kinds only through this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ocmconsole.kubeapi.errors import Doc

if TYPE_CHECKING:
    from django.db.models import Model

    from ocmconsole.kubeapi.formats.protobuf import Message
    from ocmconsole.kubeapi.models import Resource
    from ocmconsole.kubeapi.schema.compiled_schema import Schema

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Key(NamedTuple):
    """Where a resource is; ``namespace`` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


USUAL_RETENTION = 600  # seconds that a change of most kinds stays in the log at least


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A printer column. ``value`` is a JSONPath as in a CRD, or a function of the served document.

    ``type`` is string, integer, number, boolean or date (a date becomes an age, except with ``age=False``).
    """

    name: str
    type: str
    value: str | Callable[[Doc], Any]
    format: str = ""
    description: str = ""
    priority: int = 0
    age: bool = True


@dataclass(frozen=True, slots=True)
class Subresource:
    """``status``, ``approval``, ``token``: an endpoint under a named object.

    ``group``, ``version`` and ``kind`` name the body's type when it is not the parent's own.
    """

    name: str
    verbs: tuple[str, ...] = ("get", "patch", "update")
    group: str | None = None
    version: str | None = None
    kind: str | None = None


class ChildRows(NamedTuple):
    """A list inside a document, kept as rows too: ``columns(doc)`` says which; ``parent`` is their foreign key."""

    model: type[Model]
    parent: str
    columns: Callable[[Doc], list[dict[str, Any]]]


def same(doc: Doc) -> Doc:
    return doc


def same_over(doc: Doc, old: Doc | None) -> Doc:  # noqa: ARG001 - the signature of to_storage
    return doc


@dataclass(frozen=True, slots=True)
class Version:
    """One served form: group, version, schema, columns, selectable fields, protobuf table, conversion.

    ``to_storage(doc, old)`` gets the stored document too, so that a version that cannot express a field keeps it (D1).
    ``fields`` maps a field-selector label to its value in the served document.
    """

    group: str
    version: str
    schema: Schema
    columns: tuple[PrinterColumn, ...] = ()
    fields: Mapping[str, Callable[[Doc], str]] = field(default_factory=dict)
    protobuf: Message | None = None
    from_storage: Callable[[Doc], Doc] = same
    to_storage: Callable[[Doc, Doc | None], Doc] = same_over
    warning: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A type of object. ``versions[0]`` is the stored form; the rest are views of it.

    ``is_right``: its objects decide who is who, or who may do what (``Revision.rights``).
    ``has_permissions``: people may hold Django permissions on one object, which end with it (``Revision.rights``).
    ``custom``: behaves as a CustomResourceDefinition (generation, strict resourceVersion, no strategic patches).
    ``unconditional_update``: a PUT without resourceVersion is allowed (W14: built-in kinds but Lease).
    ``create_on_update``: a PUT of a missing object creates it.
    ``name_check``: ``subdomain``, ``label`` or ``segment`` (of a path: RBAC kinds).
    ``project(row, doc)`` copies what rules and pages query from the document into columns, ``parts`` into child rows.
    ``left_out_empty``: top-level maps and lists that are not stored when they hold nothing (Go's omitempty).
    ``merge_keys``: strategic-merge lists, path without indices -> merge key, "" for a set of plain values.
    ``merge(subresource, old, new)`` says what of ``new`` a write may change; None is the rule of custom resources.
    ``held(doc)``: something besides finalizers keeps a deleted object alive; ``mark_deleted(doc)`` edits it at DELETE.
    ``confidential``: its documents are encrypted in the database, in rows and in the change log.
    ``audited``: writes leave an audit entry (leases do not). ``secret_fields``: never shown in an audit diff.
    ``manifests``: the path to a list of objects of any kind, of which the audit shows no Secret's or ConfigMap's data.
    ``retention_seconds``: how long a change stays in the log at least. ``timed``: columns that tell the moment of a
    write rather than the document, each with the column that the write must have moved.
    """

    kind: str
    plural: str
    namespaced: bool
    versions: tuple[Version, ...]
    model: type[Resource]
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    custom: bool = False
    unconditional_update: bool = False
    create_on_update: bool = False
    name_check: str = "subdomain"
    project: Callable[[Any, Doc], None] | None = None
    parts: tuple[ChildRows, ...] = ()
    left_out_empty: tuple[str, ...] = ()
    merge_keys: Mapping[str, str] = field(default_factory=dict)
    merge: Callable[[str, Doc | None, Doc], Doc] | None = None
    held: Callable[[Doc], bool] | None = None
    mark_deleted: Callable[[Doc], None] | None = None
    audited: bool = True
    is_right: bool = False
    has_permissions: bool = False
    confidential: bool = False
    secret_fields: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    retention_seconds: int = USUAL_RETENTION
    timed: Mapping[str, str] = field(default_factory=dict)

    @property
    def storage(self) -> Version:
        return self.versions[0]

    @property
    def group(self) -> str:
        """Group of the stored form."""
        return self.versions[0].group

    @property
    def resource(self) -> str:
        """How changes, audit entries and messages name the kind: ``managedclusters.cluster…`` or ``namespaces``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return self.subresource("status") is not None

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)

    def __str__(self) -> str:
        return self.kind


class Served(NamedTuple):
    """A kind as one URL prefix shows it."""

    kind: Kind
    version: Version


_SERVED: dict[tuple[str, str, str], Served] = {}
_KINDS: dict[str, Kind] = {}
# Of confidential kinds: names of their resources, and their models.
confidential_resources: set[str] = set()
confidential_models: set[type] = set()


def register(kind: Kind) -> Kind:
    """Add a kind to what the hub serves; called once, at import of an app's ``kinds.py``."""
    if kind.resource in _KINDS:
        msg = f"{kind.resource} is registered twice"
        raise ValueError(msg)
    _KINDS[kind.resource] = kind
    if kind.confidential:
        confidential_resources.add(kind.resource)
        confidential_models.add(kind.model)
    for version in kind.versions:
        _SERVED[version.group, version.version, kind.plural] = Served(kind, version)
    return kind


def find_served(group: str, version: str, plural: str) -> Served | None:
    return _SERVED.get((group, version, plural))


def by_resource(resource: str) -> Kind:
    """The kind that ``Kind.resource`` names. Raises KeyError when it is not served."""
    return _KINDS[resource]


def by_owner(api_version: str, kind: str) -> Kind | None:
    """The kind that an owner reference names."""
    group = api_version.rpartition("/")[0]
    for candidate, version in _SERVED.values():
        if candidate.kind == kind and version.group == group:
            return candidate
    return None


def all_kinds() -> Iterator[Kind]:
    return iter(_KINDS.values())


def all_served() -> Iterator[Served]:
    return iter(_SERVED.values())


def groups() -> dict[str, list[str]]:
    """API groups with their versions, most preferred version first (v1 > v1beta2 > v1beta1 > v1alpha1)."""
    found: dict[str, set[str]] = {}
    for group, version, _ in _SERVED:
        found.setdefault(group, set()).add(version)
    return {group: sorted(versions, key=_preference) for group, versions in sorted(found.items())}


def _preference(version: str) -> tuple[int, int, int]:
    body = version.removeprefix("v")
    for rank, stage in enumerate(("beta", "alpha"), start=1):
        if stage in body:
            major, _, minor = body.partition(stage)
            return rank, -int(major), -int(minor or 0)
    return 0, -int(body), 0
