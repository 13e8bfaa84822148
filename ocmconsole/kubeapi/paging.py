"""Continue tokens: where the next page of a list begins, and of which revision its first page was (wire.md 3.9).

And reads that name a revision which the hub has not reached (wire.md 3.7).
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import orjson

from ocmconsole.kubeapi import changes, errors
from ocmconsole.kubeapi.kinds import Key, Kind

if TYPE_CHECKING:
    from ocmconsole.kubeapi.requestinfo import ListOptions


def require_reached(resource_version: str) -> None:
    """Raises Timeout for a read that is to be no older than a revision beyond the head (W175).

    Upstream waits three seconds first. Here no client can know a revision that is about to come: the head that it read
    was committed. It is one that a restored database lost.
    """
    wanted = int(resource_version or 0)
    if not wanted or wanted <= (now := changes.head()):
        return
    cause = errors.Cause("ResourceVersionTooLarge", "Too large resource version")
    text = f"Timeout: Too large resource version: {wanted}, current: {now}"
    raise errors.Timeout(text, causes=[cause], retry_after=1)


def position(options: ListOptions, kind: Kind) -> tuple[Key | None, int | None]:
    """Where a continued list goes on, and the revision of its first page."""
    if not options.token:
        return None, None
    key, revision = _read(options.token)
    if changes.cut_before(kind.resource, revision) is not None or revision > changes.head():  # D21
        raise errors.Expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new "
            "list without the continue parameter, or use the continue token in this response to retrieve the remainder "
            "of the results. Continuing with the provided token results in an inconsistent list - objects that were "
            "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
            "list.",
            metadata={"continue": token(key, changes.head())},
        )
    return key, revision


def _read(text: str) -> tuple[Key, int]:
    """A client may send anything: what ``token`` cannot have made is refused."""
    try:
        match orjson.loads(base64.urlsafe_b64decode(text.encode())):
            case [int(revision), str(namespace), str(name)] if revision is not True and "\0" not in namespace + name:
                if 0 < revision < 2**63:
                    return Key(namespace, name), revision
    except (ValueError, binascii.Error) as error:
        raise errors.BadRequest(f"invalid continue token: {error}") from error
    raise errors.BadRequest("invalid continue token: it is none of this server's")


def token(key: Key, revision: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([revision, key.namespace, key.name])).decode()
