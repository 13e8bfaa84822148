"""Registers the kinds that any API server has: names, endpoints, columns, and what each endpoint may write."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocmconsole.core import models, protobuf_fields, wire
from ocmconsole.kubeapi import errors, kinds, virtual_resources
from ocmconsole.kubeapi.formats import schema_files
from ocmconsole.kubeapi.kinds import ALL_VERBS, Kind, Served, Subresource, Version
from ocmconsole.kubeapi.models import Resource
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.storage import audit_acts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.formats.protobuf import Message
    from ocmconsole.kubeapi.kinds import PrinterColumn

SCHEMA_FILES = Path(__file__).with_name("schemas")
RBAC = "rbac.authorization.k8s.io"
EVENTS = "events.k8s.io"
TERMINATING = "Terminating"
# Events are many and soon forgotten, in the store and in the log.
EVENT_RETENTION_SECONDS = 120

virtual_resources.register_delete_options(protobuf_fields.DELETE_OPTIONS)


def _core(kind: str, columns: tuple[PrinterColumn, ...], protobuf: Message, **more: Any) -> tuple[Version, ...]:
    return (_version("", "core", kind, columns, protobuf, **more),)


def _rbac(kind: str, columns: tuple[PrinterColumn, ...], protobuf: Message) -> tuple[Version, ...]:
    return (_version(RBAC, "rbac", kind, columns, protobuf),)


def _version(
    group: str, package: str, kind: str, columns: tuple[PrinterColumn, ...], protobuf: Message, **more: Any
) -> Version:
    schema = schema_files.load(SCHEMA_FILES / f"{kind.lower()}s.v1.yaml", name=f"io.k8s.api.{package}.v1.{kind}")
    return Version(group=group, version="v1", schema=schema, columns=columns, protobuf=protobuf, **more)


# ---------------------------------------------------------------- namespaces


def _merge_namespace(subresource: str, old: Doc | None, new: Doc) -> Doc:
    """Status and finalizers have endpoints of their own: ``/status`` and ``/finalize``."""
    if old is None:
        return {name: part for name, part in new.items() if name != "status"}
    owned = {"": None, "status": "status", "finalize": "spec"}[subresource]
    kept = deepcopy(old)
    if owned is None:
        return new | {part: kept[part] for part in ("spec", "status") if part in kept}
    return kept | {owned: {} if new.get(owned) is None else new[owned]}


def _mark_namespace_deleted(doc: Doc) -> None:
    doc["status"] = {**doc.get("status", {}), "phase": TERMINATING}


def _project_namespace(row: models.Namespace, doc: Doc) -> None:
    row.phase = _at(doc, "status", "phase")[:20]


NAMESPACE = kinds.register(
    Kind(
        kind="Namespace",
        plural="namespaces",
        short_names=("ns",),
        namespaced=False,
        versions=_core(
            "Namespace",
            wire.NAMESPACE_COLUMNS,
            protobuf_fields.NAMESPACE,
            fields={"status.phase": lambda doc: _at(doc, "status", "phase")},
        ),
        model=models.Namespace,
        subresources=(Subresource("status"), Subresource("finalize", verbs=("update",))),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        unconditional_update=True,
        name_check="label",
        project=_project_namespace,
        merge_keys={"status.conditions": "type"},
        merge=_merge_namespace,
        held=lambda doc: bool((doc.get("spec") or {}).get("finalizers")),
        mark_deleted=_mark_namespace_deleted,
    )
)


# ---------------------------------------------------------------- events

EVENT_SAYS = ("reportingController", "reportingInstance", "action", "reason")
EVENT_TYPES = ("Normal", "Warning")
LONGEST_EVENT_WORD = 128  # characters, as in the reference
LONGEST_EVENT_NOTE = 1024  # characters, as in the reference
_EVENT_VERSION = schema_files.load(SCHEMA_FILES / "events.v1.events.k8s.io.yaml", name="io.k8s.api.events.v1.Event")


def _event_causes(doc: Doc) -> list[errors.Cause]:
    """What the schema cannot say, in Kubernetes' words: an event says who did what, briefly."""
    causes = [errors.required(field) for field in EVENT_SAYS if not doc.get(field)]
    too_long = f"can have at most {LONGEST_EVENT_WORD} characters"
    causes += [
        errors.invalid_field(field, '""', too_long)
        for field in EVENT_SAYS[1:]
        if len(_at(doc, field)) > LONGEST_EVENT_WORD
    ]
    if doc.get("type") not in EVENT_TYPES:
        causes.append(errors.invalid_field("type", '""', f"has invalid value: {_at(doc, 'type')}"))
    return causes


def _event_to_core(doc: Doc, old: Doc | None) -> Doc:
    """The newer form asks more of a new event; what is stored is checked as a core event (W28)."""
    if old is None and (causes := _EVENT_VERSION.validate(doc) or _event_causes(doc)):
        raise errors.is_invalid("", "Event", str(doc["metadata"].get("name", "")), causes)
    return wire.event_to_core(doc, old)


def _project_event(row: models.Event, doc: Doc) -> None:
    row.regarding_kind = _at(doc, "involvedObject", "kind")[:63]
    row.regarding_namespace = _at(doc, "involvedObject", "namespace")[:63]
    row.regarding_name = _at(doc, "involvedObject", "name")[:253]
    texts = (doc["metadata"]["creationTimestamp"], doc.get("lastTimestamp"), _at(doc, "series", "lastObservedTime"))
    row.last_seen = max(moment for text in texts if (moment := times.time_of(text)) is not None)


def _event_fields(reference: str, reporter: str) -> dict[str, Callable[[Doc], str]]:
    """Field selectors. ``involvedObject.*`` works in both forms."""
    about = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    prefixes = dict.fromkeys(("involvedObject", reference))
    found = {f"{prefix}.{name}": partial(_field, path=(reference, name)) for prefix in prefixes for name in about}
    return {
        **found,
        "reason": partial(_field, path=("reason",)),
        "type": partial(_field, path=("type",)),
        reporter: partial(_field, path=(reporter,)),
    }


def _field(doc: Doc, *, path: tuple[str, ...]) -> str:
    return _at(doc, *path)


EVENT = kinds.register(
    Kind(
        kind="Event",
        plural="events",
        short_names=("ev",),
        namespaced=True,
        versions=(
            *_core(
                "Event",
                wire.EVENT_COLUMNS,
                protobuf_fields.EVENT_CORE,
                fields={
                    **_event_fields("involvedObject", "reportingComponent"),
                    "source": lambda doc: _at(doc, "source", "component") or _at(doc, "reportingComponent"),
                },
            ),
            Version(
                group=EVENTS,
                version="v1",
                schema=_EVENT_VERSION,
                columns=wire.EVENT_COLUMNS,
                fields=_event_fields("regarding", "reportingController"),
                protobuf=protobuf_fields.EVENT,
                from_storage=wire.event_from_core,
                to_storage=_event_to_core,
            ),
        ),
        model=models.Event,
        unconditional_update=True,
        create_on_update=True,
        name_check="segment",
        project=_project_event,
        audited=False,
        retention_seconds=EVENT_RETENTION_SECONDS,
    )
)


# ---------------------------------------------------------------- data and accounts


def _merge_secret(subresource: str, old: Doc | None, new: Doc) -> Doc:  # noqa: ARG001 - the signature of merge
    return {**wire.fold_string_data(new), "type": "Opaque" if new.get("type") in (None, "") else new["type"]}


def _project_secret(row: models.Secret, doc: Doc) -> None:
    row.type = _at(doc, "type")[:253]


SECRET = kinds.register(
    Kind(
        kind="Secret",
        is_right=True,
        confidential=True,
        plural="secrets",
        namespaced=True,
        versions=_core(
            "Secret",
            wire.SECRET_COLUMNS,
            protobuf_fields.SECRET,
            fields={"type": lambda doc: _at(doc, "type")},
        ),
        model=models.Secret,
        unconditional_update=True,
        project=_project_secret,
        merge=_merge_secret,
        left_out_empty=("data",),
        secret_fields=("data", "stringData"),
    )
)
CONFIG_MAP = kinds.register(
    Kind(
        kind="ConfigMap",
        plural="configmaps",
        short_names=("cm",),
        namespaced=True,
        versions=_core("ConfigMap", wire.CONFIG_MAP_COLUMNS, protobuf_fields.CONFIG_MAP),
        model=models.ConfigMap,
        secret_fields=("data", "binaryData"),
        unconditional_update=True,
        left_out_empty=("data", "binaryData"),
    )
)
SERVICE_ACCOUNT = kinds.register(
    Kind(
        kind="ServiceAccount",
        is_right=True,
        plural="serviceaccounts",
        short_names=("sa",),
        namespaced=True,
        versions=_core("ServiceAccount", wire.SERVICE_ACCOUNT_COLUMNS, protobuf_fields.SERVICE_ACCOUNT),
        model=models.ServiceAccount,
        subresources=(Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),),
        unconditional_update=True,
        left_out_empty=("secrets", "imagePullSecrets"),
        merge_keys={"secrets": "name"},
    )
)


# ---------------------------------------------------------------- services

# Always none: kubectl cluster-info asks for them, and lists them as a table (W149).
_SERVICE_VERSION = Version(
    group="",
    version="v1",
    schema=schema_files.load(SCHEMA_FILES / "services.v1.yaml", name="io.k8s.api.core.v1.Service"),
    columns=wire.SERVICE_COLUMNS,
)
SERVICE = Kind(
    kind="Service",
    plural="services",
    short_names=("svc",),
    namespaced=True,
    versions=(_SERVICE_VERSION,),
    model=Resource,  # type: ignore[type-abstract] # none is ever stored
    verbs=("get", "list", "watch"),
)
virtual_resources.register_collection(
    virtual_resources.Collection(Served(SERVICE, _SERVICE_VERSION), list, "there are no services here")
)


# ---------------------------------------------------------------- RBAC


def _project_cluster_role(row: models.ClusterRole, doc: Doc) -> None:
    row.aggregated = doc.get("aggregationRule") is not None


ROLE = kinds.register(
    Kind(
        kind="Role",
        is_right=True,
        plural="roles",
        namespaced=True,
        versions=_rbac("Role", wire.ROLE_COLUMNS, protobuf_fields.ROLE),
        model=models.Role,
        unconditional_update=True,
        create_on_update=True,
        name_check="segment",
    )
)
CLUSTER_ROLE = kinds.register(
    Kind(
        kind="ClusterRole",
        is_right=True,
        plural="clusterroles",
        namespaced=False,
        versions=_rbac("ClusterRole", wire.CLUSTER_ROLE_COLUMNS, protobuf_fields.CLUSTER_ROLE),
        model=models.ClusterRole,
        unconditional_update=True,
        create_on_update=True,
        name_check="segment",
        project=_project_cluster_role,
    )
)
ROLE_BINDING = kinds.register(
    Kind(
        kind="RoleBinding",
        is_right=True,
        plural="rolebindings",
        namespaced=True,
        versions=_rbac("RoleBinding", wire.ROLE_BINDING_COLUMNS, protobuf_fields.ROLE_BINDING),
        model=models.RoleBinding,
        left_out_empty=("subjects",),
        unconditional_update=True,
        create_on_update=True,
        name_check="segment",
    )
)
CLUSTER_ROLE_BINDING = kinds.register(
    Kind(
        kind="ClusterRoleBinding",
        is_right=True,
        plural="clusterrolebindings",
        namespaced=False,
        versions=_rbac(
            "ClusterRoleBinding",
            wire.CLUSTER_ROLE_BINDING_COLUMNS,
            protobuf_fields.CLUSTER_ROLE_BINDING,
        ),
        model=models.ClusterRoleBinding,
        left_out_empty=("subjects",),
        unconditional_update=True,
        create_on_update=True,
        name_check="segment",
    )
)


# ---------------------------------------------------------------- the hub itself

# D8: clusteradm takes for a hub what has this kind, and asks the object what belongs to it.
CLUSTER_MANAGER = kinds.register(
    Kind(
        kind="ClusterManager",
        plural="clustermanagers",
        namespaced=False,
        versions=(
            Version(
                group="operator.open-cluster-management.io",
                version="v1",
                schema=schema_files.load(
                    SCHEMA_FILES / "clustermanagers.v1.yaml",
                    name="io.open-cluster-management.operator.v1.ClusterManager",
                ),
            ),
        ),
        model=models.ClusterManager,
        subresources=(Subresource("status"),),
        custom=True,
    )
)


def _at(doc: Doc, *path: str) -> str:
    """The text at a path of a stored document, or none."""
    value: Any = doc
    for name in path:
        value = (value or {}).get(name)
    return value or ""


# Acts that the audit names (D11) besides the generic verbs.
audit_acts.declare("serviceaccount:token", "Service account token issued")
audit_acts.declare("bootstraptoken:create", "Bootstrap token minted")
audit_acts.declare("bootstraptoken:revoke", "Bootstrap token revoked")
audit_acts.declare("accessrequest:ask", "Access requested")
audit_acts.declare("accessrequest:grant", "Access request granted")
audit_acts.declare("accessrequest:dismiss", "Access request dismissed")
