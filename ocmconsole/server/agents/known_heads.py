"""Heads of requests by their bytes: an agent sends the same one all day, so it is parsed once.

A request of an agent is a request line, which says what is asked for, and header lines, which say who asks. The latter
are the same each time, but for the length of a body; to parse them, to decode the certificate that a proxy passes on
and to hash it took a third of a renewal.

Invariant: a head is known only if the parser has read the same header lines on a connection that says the same of its
peer (``origin``), ``recognise`` found them an agent's, and the request was answered by a path of agents. What is found
is what the parser, ``lease_path`` and ``proxy`` made of those bytes; nothing of it is a decision: limits, register and
RBAC are asked for each request. Bytes are compared by their SHA-256. Called by ``direct_answers``.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NamedTuple

from ocmconsole.kubeapi.access import request_limits
from ocmconsole.server.agents import lease_path

# Of some 350 bytes each: one for reads and one for writes of each agent. Those that were not used for longest are
# forgotten, half of them at once.
MOST_HEADS = 4 * request_limits.MOST_CREDENTIALS
LINE = re.compile(rb"(GET|PUT) (/[A-Za-z0-9._/-]+)(?:\?([A-Za-z0-9._~%&=,:/-]*))? HTTP/1\.1\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: ?([0-9]{1,5})(?=\r\n)", re.IGNORECASE)
BODY = re.compile(rb"\r\n(?:content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)
END = b"\r\n\r\n"


class WholeRequest(NamedTuple):
    """What came, taken apart but not understood. ``lines`` are the headers without the length of the body.

    ``path`` and ``query`` hold no byte that a parser reads in another way than as it stands.
    """

    is_write: bool
    path: bytes
    query: bytes
    lines: bytes
    body: bytes


class KnownHead(NamedTuple):
    """What header lines say, as ``lease_path.AgentRequest`` has it. ``digest`` is that of the certificate."""

    digest: bytes
    address: str
    program: str
    media: bytes


def taken_apart(data: bytes) -> WholeRequest | None:
    """One request that is all there, nothing behind it; None for anything else."""
    line = LINE.match(data)
    if line is None:
        return None
    begin = line.end() - 2  # each header begins with the end of the line before
    end = data.find(END, begin)
    if end < 0:
        return None
    lines, body = data[begin : end + 2], data[end + len(END) :]
    is_write = line[1] == b"PUT"
    if not is_write:
        return None if body or BODY.search(lines) else WholeRequest(is_write, line[2], line[3] or b"", lines, body)
    length = LENGTH.search(lines)
    if length is None or not 0 < int(length[1]) == len(body) <= lease_path.LARGEST_BODY:
        return None
    return WholeRequest(is_write, line[2], line[3] or b"", lines[: length.start()] + lines[length.end() :], body)


class KnownHeads:
    """Of one listener."""

    def __init__(self) -> None:
        self._used: dict[bytes, KnownHead] = {}
        self._before: dict[bytes, KnownHead] = {}  # what was used before those

    def find(self, request: WholeRequest, origin: bytes) -> KnownHead | None:
        key = _key(request, origin)
        head = self._used.get(key)
        if head is None and (head := self._before.pop(key, None)) is not None:
            self._put(key, head)
        return head

    def keep(self, request: WholeRequest, origin: bytes, head: KnownHead) -> None:
        """A head that the parser has read, whole, and that was found an agent's."""
        if b"\r\n " not in request.lines and b"\r\n\t" not in request.lines:  # of which a line goes on in the next
            self._put(_key(request, origin), head)

    def _put(self, key: bytes, head: KnownHead) -> None:
        self._used[key] = head
        if len(self._used) > MOST_HEADS // 2:
            self._used, self._before = {}, self._used


def _key(request: WholeRequest, origin: bytes) -> bytes:
    """``origin`` has always the same length."""
    return sha256(b"%b%b%b" % (origin, b"P" if request.is_write else b"G", request.lines)).digest()
