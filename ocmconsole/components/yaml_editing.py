"""An object as a person edits it: YAML in, server-side apply out, and what that would change.

Invariant: only what the person really changed is applied, so that the console becomes the owner of nothing that
somebody else keeps; what the user leaves out is removed only when the console owned it. Callers are pages; none
offers Secrets.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ocmconsole.components import document_display
from ocmconsole.kubeapi import clock, errors, verbs
from ocmconsole.kubeapi.formats import apply, documents
from ocmconsole.kubeapi.schema import times
from ocmconsole.kubeapi.schema.metadata import SET_BY_SERVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Key, Kind

MANAGER = "ocmconsole-console"
# What names the object.
IDENTITY = ("name", "namespace")
# What an editor does not show, because a person does not write it.
SERVERS = frozenset({*SET_BY_SERVER, "ownerReferences", "finalizers"})
LARGEST = 256 * 1024  # characters; bounds parsing
CONTEXT = 3  # unchanged lines around a difference, as in diff -u


@dataclass(frozen=True, slots=True)
class DiffLine:
    """``sign`` is ``+``, ``-``, a blank for what stays, or ``@`` where lines are left out."""

    sign: str
    text: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What applying would do. ``kept`` are fields that were left out but stay, because others own them."""

    lines: list[DiffLine]
    kept: list[str]

    @property
    def is_change(self) -> bool:
        return bool(self.lines)


def editable(doc: Doc) -> Doc:
    """The part of a document that a person may say something about."""
    metadata = {name: part for name, part in doc["metadata"].items() if name not in SERVERS}
    return {**{name: part for name, part in doc.items() if name != "status"}, "metadata": metadata}


def as_text(doc: Doc) -> str:
    return document_display.as_yaml(editable(doc))


def version_of(doc: Doc) -> str:
    """Changes when something does that a person edits, and not with every status that an agent reports."""
    return hashlib.sha256(as_text(doc).encode("utf-8", "surrogatepass")).hexdigest()


def parse_edit(kind: Kind, key: Key, text: str) -> Doc:
    """The document in an edited text. Raises BadRequest when it is none, or another object's."""
    if len(text) > LARGEST:
        raise errors.RequestTooLarge(f"the text is longer than {LARGEST // 1024} KiB")
    doc, doubled = documents.read_yaml(text.encode("utf-8", "surrogatepass"))
    if doubled:
        raise errors.BadRequest(f"given twice: {', '.join(doubled)}")
    metadata = doc.get("metadata") if isinstance(doc, dict) else None
    if not isinstance(metadata, dict):
        raise errors.BadRequest("this is no object: it needs apiVersion, kind and metadata")
    if (doc.get("apiVersion"), doc.get("kind")) != (kind.storage.api_version, kind.kind):
        raise errors.BadRequest(f"apiVersion and kind must stay {kind.storage.api_version} and {kind.kind}")
    if (metadata.get("namespace") or "", metadata.get("name")) != (key.namespace, key.name):
        raise errors.BadRequest(f"the name must stay {key.name}; another name is another object")
    found: Doc = doc
    return found


def preview_edit(actor: Actor, kind: Kind, key: Key, edited: Doc, *, seen: str, force: bool = False) -> Preview:
    """Nothing is stored. Raises what applying would raise: Forbidden, Conflict with its managers, Invalid."""
    present = verbs.existing(kind, key).doc
    new = _apply(actor, kind, key, edited, seen=seen, force=force, dry_run=True)
    return Preview(list(difference(as_text(present), as_text(new))), _kept(edited, editable(new)))


def save_edit(actor: Actor, kind: Kind, key: Key, edited: Doc, *, seen: str, force: bool = False) -> Doc:
    """Apply as the console's field manager. ``seen`` is ``version_of`` what the person began with."""
    return _apply(actor, kind, key, edited, seen=seen, force=force, dry_run=False)


def _apply(actor: Actor, kind: Kind, key: Key, edited: Doc, *, seen: str, force: bool, dry_run: bool) -> Doc:
    def propose(old: Doc | None) -> Doc:
        if old is None or version_of(old) != seen:
            raise errors.conflict(kind.group, kind.plural, key.name, "somebody has changed it since you opened it")
        body = opinion(old, edited)
        version = kind.storage
        return apply.apply(
            old,
            body,
            manager=MANAGER,
            force=force,
            api_version=version.api_version,
            schema=version.schema.root,
            now=times.timestamp(clock.now()),
        )

    options = verbs.Options(manager=MANAGER, dry_run=dry_run, unknown="strict")
    verbs.existing(kind, key)  # applying would make it anew
    result = verbs.apply_(actor, kind, key, propose, options=options).doc
    assert result is not None
    return result


def opinion(live: Doc, edited: Doc) -> Doc:
    """What the console has to say: what was changed, and what it said before and is still there."""
    said = _said(editable(edited), editable(live), _own(live))
    body: Doc = said if isinstance(said, dict) else {}
    identity = {name: live["metadata"][name] for name in IDENTITY if name in live["metadata"]}
    metadata = {**body.get("metadata", {}), **identity}
    return {**body, "apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata}


def _own(live: Doc) -> Doc:
    """The fields that the console has applied before, as a tree of FieldsV1."""
    entries = live["metadata"].get("managedFields") or ()
    return next(
        (each["fieldsV1"] for each in entries if (each["manager"], each["operation"]) == (MANAGER, "Apply")), {}
    )


_NOTHING: Any = object()


def _said(edited: Any, live: Any, own: Doc) -> Any:
    if not isinstance(edited, dict) or not isinstance(live, dict):
        return edited if edited != live else _NOTHING
    found = {}
    for name, item in edited.items():
        mine = own.get(f"f:{name}")
        said = _said(item, live.get(name, _NOTHING), mine or {})
        if said is _NOTHING and mine == {}:  # a leaf that it has applied before
            said = item
        if said is not _NOTHING:
            found[name] = said
    return found or _NOTHING


def _kept(edited: Any, new: Any, path: str = "") -> list[str]:
    """Paths that the new document has and the edited one has not."""
    if not isinstance(edited, dict) or not isinstance(new, dict):
        return []
    left_out = [f"{path}{name}" for name, item in new.items() if name not in edited and item not in ({}, [])]
    deeper = (_kept(edited[name], new[name], f"{path}{name}.") for name in new if name in edited)
    return [*left_out, *(each for found in deeper for each in found)]


def difference(old: str, new: str) -> Iterator[DiffLine]:
    """Lines that go and come, with a few around them."""
    for index, text in enumerate(difflib.unified_diff(old.splitlines(), new.splitlines(), n=CONTEXT, lineterm="")):
        if index < 2:  # noqa: PLR2004 - the names of files
            continue
        yield DiffLine("@", "") if text.startswith("@@") else DiffLine(text[0], text[1:])
