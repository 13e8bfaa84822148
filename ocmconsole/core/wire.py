"""Core kinds between the wire and the store: two forms of an Event, a Secret's plain text, and printer columns.

Pure functions of documents. They run on input that no schema has checked yet, so what has a wrong type is left for the
schema to refuse. ``kinds`` hangs them on the versions; columns are those of a kube-apiserver.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import PrinterColumn

# An age of this is shown as <unknown>.
NEVER = "0001-01-01T00:00:00Z"

# W28, two views of one Event: names in events.k8s.io/v1 and in v1, which is what is stored.
_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES = {core: name for name, core in _EVENT_NAMES.items()}


def event_to_core(doc: Doc, old: Doc | None) -> Doc:  # noqa: ARG001 - both forms can say everything, so nothing is kept
    """An events.k8s.io/v1 Event as the core/v1 Event that is stored."""
    return {**_renamed(doc, _EVENT_NAMES), "apiVersion": "v1"}


def event_from_core(doc: Doc) -> Doc:
    return {**_renamed(doc, _CORE_NAMES), "apiVersion": "events.k8s.io/v1"}


def _renamed(doc: Doc, names: dict[str, str]) -> Doc:
    return {names.get(name, name): value for name, value in doc.items()}


def fold_string_data(doc: Doc) -> Doc:
    """``stringData`` is for writing only: its texts replace the bytes of the same keys in ``data``."""
    texts, data = doc.get("stringData"), doc.get("data")
    if not isinstance(texts, dict) or not isinstance(data, dict | None):
        return doc
    try:
        folded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    except (AttributeError, UnicodeEncodeError):
        return doc
    kept = {name: value for name, value in doc.items() if name != "stringData"}
    return {**kept, "data": {**(data or {}), **folded}} if folded else kept


# Printer columns

AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp", description="Time since the object was created.")
_CREATED_AT = PrinterColumn(
    "Created At", "date", ".metadata.creationTimestamp", description="When the object was created.", age=False
)


def _at(doc: Doc, *path: str) -> Any:
    """What is at a path, or None."""
    value: Any = doc
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _event(doc: Doc) -> Doc:
    """An Event in core form, whichever form is served."""
    return _renamed(doc, _EVENT_NAMES)


def _first_seen(doc: Doc) -> str:
    event = _event(doc)
    return event.get("firstTimestamp") or event.get("eventTime") or NEVER


def _last_seen(doc: Doc) -> str:
    event = _event(doc)
    return _at(event, "series", "lastObservedTime") or event.get("lastTimestamp") or _first_seen(doc)


def _event_count(doc: Doc) -> int:
    event = _event(doc)
    return _at(event, "series", "count") or event.get("count") or 1


def _event_object(doc: Doc) -> str:
    about = _event(doc).get("involvedObject") or {}
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(doc: Doc) -> str:
    event = _event(doc)
    program = _at(event, "source", "component") or event.get("reportingComponent", "")
    place = _at(event, "source", "host") or event.get("reportingInstance", "")
    return f"{program}, {place}" if place else program


def _event_text(doc: Doc) -> str:
    return str(_event(doc).get("message", "")).strip()


def _entries(*fields: str) -> Callable[[Doc], int]:
    def count(doc: Doc) -> int:
        return sum(len(doc.get(field) or {}) for field in fields)

    return count


def _bound_role(doc: Doc) -> str:
    return f"{_at(doc, 'roleRef', 'kind')}/{_at(doc, 'roleRef', 'name')}"


def _subjects(kind: str) -> Callable[[Doc], str]:
    def names(doc: Doc) -> str:
        found = [subject for subject in doc.get("subjects") or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in found)
        return ", ".join(subject.get("name", "") for subject in found)

    return names


NAMESPACE_COLUMNS = (PrinterColumn("Status", "string", ".status.phase", description="Active or Terminating."), AGE)
# Both forms of an Event; the name comes last and is shown only when asked for.
EVENT_COLUMNS = (
    PrinterColumn("Last Seen", "date", _last_seen, description="Time since it happened last."),
    PrinterColumn("Type", "string", ".type", description="Normal or Warning."),
    PrinterColumn("Reason", "string", ".reason", description="What happened, in one word."),
    PrinterColumn("Object", "string", _event_object, description="What it happened to."),
    PrinterColumn(
        "Subobject",
        "string",
        lambda doc: _at(_event(doc), "involvedObject", "fieldPath") or "",
        description="The part of the object that it happened to.",
        priority=1,
    ),
    PrinterColumn("Source", "string", _event_source, description="Who reported this.", priority=1),
    PrinterColumn("Message", "string", _event_text, description="What happened, for people."),
    PrinterColumn("First Seen", "date", _first_seen, description="Time since it happened first.", priority=1),
    PrinterColumn("Count", "integer", _event_count, description="How often it happened.", priority=1),
    PrinterColumn("Name", "string", ".metadata.name", "name", "Name of the event.", priority=1),
)
SECRET_COLUMNS = (
    PrinterColumn("Type", "string", ".type", description="What the data is for."),
    PrinterColumn("Data", "integer", _entries("data"), description="Number of keys."),
    AGE,
)
CONFIG_MAP_COLUMNS = (
    PrinterColumn("Data", "integer", _entries("data", "binaryData"), description="Number of keys."),
    AGE,
)
SERVICE_ACCOUNT_COLUMNS = (AGE,)
SERVICE_COLUMNS = (
    PrinterColumn("Type", "string", ".spec.type", description="How the service is reached."),
    PrinterColumn("Cluster-IP", "string", ".spec.clusterIP", description="Its address inside the cluster."),
    PrinterColumn("External-IP", "string", ".spec.externalIPs", description="Its addresses outside."),
    PrinterColumn("Port(s)", "string", ".spec.ports", description="Its ports."),
    AGE,
    PrinterColumn("Selector", "string", ".spec.selector", description="What it leads to.", priority=1),
)
ROLE_COLUMNS = (_CREATED_AT,)
CLUSTER_ROLE_COLUMNS = (_CREATED_AT,)
CUSTOM_RESOURCE_DEFINITION_COLUMNS = (_CREATED_AT,)
ROLE_BINDING_COLUMNS = (
    PrinterColumn("Role", "string", _bound_role, description="The role whose permissions are given."),
    AGE,
    PrinterColumn("Users", "string", _subjects("User"), description="Users that get them.", priority=1),
    PrinterColumn("Groups", "string", _subjects("Group"), description="Groups that get them.", priority=1),
    PrinterColumn(
        "ServiceAccounts",
        "string",
        _subjects("ServiceAccount"),
        description="Service accounts that get them.",
        priority=1,
    ),
)
CLUSTER_ROLE_BINDING_COLUMNS = ROLE_BINDING_COLUMNS
