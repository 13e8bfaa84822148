"""Reads a request line as Kubernetes does: which verb on which resource, and with which options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.errors import Cause
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage.selectors import FieldSelector, LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.http import QueryDict

    from ocmconsole.kubeapi.errors import Doc

VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
LONGEST_MANAGER = 128  # bytes, as in Kubernetes
LONGEST_INTEGER = 64  # characters; leading zeros are no fault
# NUL and lone surrogates.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class PlainQuery(dict[str, str]):
    """A query that names nothing twice, for who reads many: a ``QueryDict`` takes ten times as long."""

    def lists(self) -> Iterable[tuple[str, tuple[str]]]:
        return ((name, (value,)) for name, value in self.items())


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """``resource`` is empty for a path outside resources (discovery, health)."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def attributes(self) -> Attributes:
        """The question for authorisation. A namespace is asked for inside itself, as Kubernetes does."""
        if not self.resource:
            return Attributes(verb=self.verb, path=self.path)
        inside = self.name if self.resource == "namespaces" and not self.group else self.namespace
        return Attributes(
            verb=self.verb,
            group=self.group,
            version=self.version,
            resource=self.resource,
            subresource=self.subresource,
            namespace=inside,
            name=self.name,
        )


def parse(method: str, path: str, query: QueryDict | PlainQuery, place: Mapping[str, str]) -> RequestInfo:
    """``place``: the parts of the path that ``kubeapi.urls`` names.

    Raises BadRequest for a path with NUL, MethodNotAllowed for a method that has no verb, NotFound for a path below
    every resource.
    """
    if "\0" in path or not path.isprintable():
        raise errors.BadRequest("the path holds characters that no name may have")
    if "resource" not in place:
        return RequestInfo(verb=method.lower(), path=path.rstrip("/") or "/")
    if method not in VERBS:
        raise errors.no_such_method()
    if "beyond" in place:
        raise errors.unknown_path()
    name = place.get("name", "")
    return RequestInfo(
        _verb(method, name, query),
        path,
        place.get("group", ""),
        place["version"],
        place["resource"],
        place.get("subresource", ""),
        place.get("namespace", ""),
        name or _pinned(method, query),
    )


def _verb(method: str, name: str, query: QueryDict | PlainQuery) -> str:
    verb = VERBS[method]
    if name:
        return verb
    if verb == "get":
        return "watch" if is_watch(query) else "list"
    return "deletecollection" if verb == "delete" else verb


def is_watch(query: QueryDict | PlainQuery) -> bool:
    return "watch" in query and query.get("watch", "").lower() not in {"false", "0"}


def _pinned(method: str, query: QueryDict | PlainQuery) -> str:
    """W13: the name by which a list or watch is authorised: that which its field selector pins, else ""."""
    if method not in {"GET", "HEAD"} or "fieldSelector" not in query:
        return ""
    try:
        return FieldSelector.parse(query.get("fieldSelector", "")).pinned("metadata.name") or ""
    except errors.BadRequest:
        return ""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Query of a list or watch (W10, W11, W176)."""

    labels: LabelSelector
    fields: FieldSelector
    limit: int = 0
    token: str = ""
    resource_version: str = ""
    match: str = ""
    timeout: float | None = None
    bookmarks: bool = False
    initial_events: bool | None = None


def list_options(query: QueryDict | PlainQuery, *, watch: bool) -> ListOptions:
    """Raises BadRequest for unparsable values, Invalid for combinations that Kubernetes forbids."""
    _printable(query)
    options = ListOptions(
        labels=LabelSelector.parse(query.get("labelSelector", "")),
        fields=FieldSelector.parse(query.get("fieldSelector", "")),
        limit=max(_integer(query, "limit"), 0),
        token=query.get("continue", ""),
        resource_version=_resource_version(query),
        match=query.get("resourceVersionMatch", ""),
        timeout=float(_integer(query, "timeoutSeconds")) or None,
        bookmarks=_boolean(query, "allowWatchBookmarks") or False,
        initial_events=_boolean(query, "sendInitialEvents"),
    )
    causes = _watch_causes(options) if watch else _list_causes(options)
    if causes:
        raise errors.options_invalid("ListOptions", causes)
    if options.token and options.resource_version not in {"", "0"}:
        raise errors.BadRequest("specifying resource version is not allowed when using continue")
    return options


def resource_version(query: QueryDict) -> str:
    """Decimal, or empty. Raises BadRequest for anything else."""
    _printable(query)
    return _resource_version(query)


def _resource_version(query: QueryDict | PlainQuery) -> str:
    text = query.get("resourceVersion", "")
    if text and not re.fullmatch(r"[0-9]{1,18}", text):
        raise errors.BadRequest(f"invalid resource version: {text}")
    return text


def _watch_causes(options: ListOptions) -> list[Cause]:
    if options.initial_events is None:
        if options.match:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            return [errors.forbidden_field("resourceVersionMatch", text)]
    elif options.match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        return [errors.forbidden_field("resourceVersionMatch", text)]
    return []


def _list_causes(options: ListOptions) -> list[Cause]:
    causes = []
    if options.initial_events is not None:
        causes.append(errors.forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if options.match:
        if not options.resource_version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            causes.append(errors.forbidden_field("resourceVersionMatch", text))
        if options.token:
            text = "resourceVersionMatch is forbidden when continue is provided"
            causes.append(errors.forbidden_field("resourceVersionMatch", text))
        if options.match not in {"Exact", "NotOlderThan"}:
            causes.append(
                errors.unsupported("resourceVersionMatch", f'"{options.match}"', ("Exact", "NotOlderThan", ""))
            )
        elif options.match == "Exact" and options.resource_version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(errors.forbidden_field("resourceVersionMatch", text))
    return causes


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Query of a write: ``dryRun``, ``fieldManager``, ``fieldValidation``, ``force``."""

    dry_run: bool
    manager: str
    validation: str
    force: bool


def write_options(query: QueryDict, *, options: str, user_agent: str, applies: bool = False) -> WriteOptions:
    """``options`` names the type in messages: CreateOptions, UpdateOptions, PatchOptions."""
    _printable(query)
    causes = dry_run_causes(query.getlist("dryRun"))
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > LONGEST_MANAGER:
        causes.append(
            Cause("FieldValueTooLong", f"Too long: may not be more than {LONGEST_MANAGER} bytes", "fieldManager")
        )
    if not manager.isprintable():
        causes.append(errors.invalid_field("fieldManager", quoted(manager), "should only contain printable characters"))
    validation = query.get("fieldValidation", "")
    if validation not in {"", "Ignore", "Strict", "Warn"}:
        causes.append(errors.unsupported("fieldValidation", f'"{validation}"', ("", "Ignore", "Strict", "Warn")))
    force = _boolean(query, "force")
    if applies and not manager:
        causes.append(errors.required("fieldManager", "is required for apply patch"))
    if force is not None and not applies and options == "PatchOptions":
        causes.append(errors.forbidden_field("force", "may not be specified for non-apply patch"))
    if causes:
        raise errors.options_invalid(options, causes)
    manager = manager or user_agent.split("/", 1)[0][:LONGEST_MANAGER] or "unknown"
    return WriteOptions(bool(query.getlist("dryRun")), manager, (validation or "Warn").lower(), bool(force))


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How a DELETE is meant: DeleteOptions (W18). None is what was not given."""

    dry_run: bool = False
    propagation: str | None = None
    orphans: bool | None = None
    uid: str | None = None
    resource_version: str | None = None


_DELETE_FIELDS: dict[str, type] = {
    "dryRun": list,
    "gracePeriodSeconds": int,
    "orphanDependents": bool,
    "preconditions": dict,
    "propagationPolicy": str,
}
POLICIES = ("Foreground", "Background", "Orphan")


def delete_options(query: QueryDict, body: Doc) -> DeleteOptions:
    """From body and query; where both say something, the body counts, except that a dry run in either is one.

    Raises BadRequest for what is no DeleteOptions, Invalid for values that contradict each other.
    """
    _printable(query)
    if body.get("kind") not in (None, "", "DeleteOptions"):  # a tuple: what was sent need not be hashable
        raise errors.BadRequest(f"{quoted(body['kind'])} cannot be converted to DeleteOptions")
    for name, type_ in _DELETE_FIELDS.items():
        if body.get(name) is not None and type(body[name]) is not type_:
            raise errors.BadRequest(f"json: cannot unmarshal {quoted(body[name])} into DeleteOptions.{name}")
    _integer(query, "gracePeriodSeconds")
    orphans = body.get("orphanDependents")
    orphans = _boolean(query, "orphanDependents") if orphans is None else orphans
    policy = body.get("propagationPolicy")
    policy = query.get("propagationPolicy") if policy is None else policy
    dry_run = [*(body.get("dryRun") or ()), *query.getlist("dryRun")]
    causes = []
    if orphans is not None and policy is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(errors.invalid_field("propagationPolicy", f'"{policy}"', text))
    if policy is not None and policy not in POLICIES:
        causes.append(errors.unsupported("propagationPolicy", f'"{policy}"', (*POLICIES, "nil")))
    causes += dry_run_causes([str(value) for value in dry_run])
    if causes:
        raise errors.options_invalid("DeleteOptions", causes)
    conditions = body.get("preconditions") or {}
    promised = {name: conditions.get(name) for name in ("uid", "resourceVersion")}
    if not all(value is None or isinstance(value, str) for value in promised.values()):
        raise errors.BadRequest("json: cannot unmarshal preconditions into DeleteOptions.preconditions")
    return DeleteOptions(bool(dry_run), policy, orphans, promised["uid"], promised["resourceVersion"])


def dry_run_causes(values: list[str]) -> list[Cause]:
    """An empty value is none that is known: who asks for a dry run must not write by mistake."""
    if all(value == "All" for value in values):
        return []
    shown = ", ".join(f'"{value}"' for value in values)
    return [errors.unsupported("dryRun", f"[{shown}]", ("All",))]


def _printable(query: QueryDict | PlainQuery) -> None:
    """NUL and lone surrogates reach no database."""
    for name, values in query.lists():
        for text in (name, *values):
            if UNSTORABLE.search(text):
                raise errors.BadRequest("the query holds characters that no value may have")


def _integer(query: QueryDict | PlainQuery, name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text) if len(text) <= LONGEST_INTEGER else 2**63
    if not -(2**63) <= value < 2**63:
        raise errors.BadRequest(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def _boolean(query: QueryDict | PlainQuery, name: str) -> bool | None:
    text = query.get(name)
    if text is None or text == "":
        return None
    if text.lower() in {"true", "1", "t"}:
        return True
    if text.lower() in {"false", "0", "f"}:
        return False
    raise errors.BadRequest(f'strconv.ParseBool: parsing "{text}": invalid syntax')
