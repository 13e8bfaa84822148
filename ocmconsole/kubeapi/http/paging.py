"""Continue tokens: where the next page of a list begins, and of which revision its first page was (W10, W150).

And reads that name a revision: one that the hub has not reached (W175), or exactly an earlier one.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, NamedTuple

import orjson

from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.models import Change
from ocmconsole.kubeapi.storage import reader
from ocmconsole.kubeapi.watch import change_log

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.http.request_info import ListOptions
    from ocmconsole.kubeapi.watch.streams import WatchScope

# The last element of a continue token whose list is exact.
EXACT = "exact"
LOG_BATCH = 500  # rows for one query; SQLite takes some thousand parameters


def require_reached(resource_version: str) -> None:
    """Raises Timeout for a read that is to be no older than a revision beyond the head (W175).

    Upstream waits three seconds first. Here no client can know a revision that is about to come: the head that it read
    was committed. It is one that a restored database lost.
    """
    wanted = int(resource_version or 0)
    if not wanted or wanted <= (now := change_log.newest_revision()):
        return
    cause = errors.Cause("ResourceVersionTooLarge", "Too large resource version")
    text = f"Timeout: Too large resource version: {wanted}, current: {now}"
    raise errors.Timeout(text, causes=[cause], retry_after=1)


class Position(NamedTuple):
    """Where a list begins. ``revision`` is that of its first page; ``exact``: all pages show the state of it."""

    after: Key | None = None
    revision: int | None = None
    exact: bool = False


def position(options: ListOptions, kind: Kind) -> Position:
    """Where a list begins, or goes on. Raises Expired."""
    if not options.token:
        exact = options.match == "Exact"
        return Position(None, int(options.resource_version) if exact else None, exact)
    key, revision, exact = _read(options.token)
    # Beyond the head: the token is of a future that a restore removed (D21).
    if change_log.cut_before([kind.resource], revision) is not None or revision > change_log.newest_revision():
        raise errors.Expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new "
            "list without the continue parameter, or use the continue token in this response to retrieve the remainder "
            "of the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list.",
            metadata={"continue": continue_token(key, change_log.newest_revision())},
        )
    return Position(key, revision, exact)


def _read(text: str) -> tuple[Key, int, bool]:
    """A client may send anything: what ``token`` cannot have made is refused."""
    try:
        match orjson.loads(base64.urlsafe_b64decode(text.encode())):
            case [int(revision), str(namespace), str(name), *rest] if rest in ([], [EXACT]):
                if revision is not True and 0 < revision < 2**63 and "\0" not in namespace + name:
                    return Key(namespace, name), revision, bool(rest)
    except (ValueError, binascii.Error) as error:
        raise errors.BadRequest(f"invalid continue token: {error}") from error
    raise errors.BadRequest("invalid continue token: it is none of this server's")


def continue_token(key: Key, revision: int, *, exact: bool = False) -> str:
    place = [revision, key.namespace, key.name, *([EXACT] if exact else [])]
    return base64.urlsafe_b64encode(orjson.dumps(place)).decode()


# ---------------------------------------------------------------- as it was


def exact_page(kind: Kind, at: Position, scope: WatchScope, limit: int) -> tuple[list[Doc], Doc]:
    """Documents that the scope sees and the metadata of the list, as of ``at.revision``. Raises Expired."""
    assert at.revision is not None
    name = scope.options.fields.pinned("metadata.name")
    past = _as_of(kind, at.revision, namespace=scope.namespace, name=name)
    docs = [past[key] for key in sorted(past) if (at.after is None or key > at.after) and scope.sees(past[key])]
    metadata: Doc = {"resourceVersion": str(at.revision)}
    if limit and len(docs) > limit:
        last = docs[limit - 1]["metadata"]
        metadata["continue"] = continue_token(Key(last.get("namespace", ""), last["name"]), at.revision, exact=True)
        if scope.options.labels.is_empty and scope.options.fields.is_empty:
            metadata["remainingItemCount"] = len(docs) - limit
        docs = docs[:limit]
    return docs, metadata


def _as_of(kind: Kind, revision: int, *, namespace: str, name: str | None) -> dict[Key, Doc]:
    """What there was at a revision: what there is, without the changes since.

    The log has what an object became, so what it was is in the change before; where that is cut, the list is too
    old (Expired), and so it is where changes since are cut.
    """
    page = reader.read_page(kind, namespace=namespace, name=name)
    docs = [orjson.loads(text) for text in page.texts]
    past: dict[Key, Doc] = {Key(doc["metadata"].get("namespace", ""), doc["metadata"]["name"]): doc for doc in docs}
    log = Change.objects.filter(resource=kind.resource, revision__lte=page.revision).order_by("revision")
    log = log.filter(namespace=namespace) if namespace else log
    log = log if name is None else log.filter(name=name)
    verbs: dict[Key, str] = {}
    for place, called, verb in log.filter(revision__gt=revision).values_list("namespace", "name", "verb"):
        verbs.setdefault(Key(place, called), verb)
    there = {key for key, verb in verbs.items() if verb != Change.Verb.ADDED}
    newest: dict[Key, int] = {}
    for place, called, number in log.filter(revision__lte=revision).values_list("namespace", "name", "revision"):
        if (key := Key(place, called)) in there:
            newest[key] = number
    for key in verbs:
        past.pop(key, None)
    numbers = sorted(newest.values())
    found = 0
    for start in range(0, len(numbers), LOG_BATCH):
        for change in Change.objects.filter(revision__in=numbers[start : start + LOG_BATCH]):
            past[Key(change.namespace, change.name)] = orjson.loads(change.text)
            found += 1
    # Asked last, because the log may be cut at any time.
    if found < len(there) or change_log.cut_before([kind.resource], revision) is not None:
        raise errors.Expired("The resourceVersion for the provided list is too old.")
    return past
