"""Reads the bodies of requests: how large one may be, and how many bytes of them the hub holds at one time (D23).

Invariants: certificate, header and declared size are judged before anything is waited for; a request without a valid
credential ("a stranger") brings at most ``stranger_body`` bytes; what is being read or waits for its answer stays
within a budget, of which one caller gets a part only; unauthenticated callers share a small one. Called by
``exchange``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, HTTPRequestEvent, HTTPScope

Environ = dict[str, Any]

KIB = 1024
MIB = 1024 * KIB
LARGEST_BODY = 3 * MIB  # bytes; the limit of a kube-apiserver, beyond which it answers 413 (W174)
LARGEST_DISCARD = 16 * MIB  # of a refused body: many clients read an answer only after they have sent everything
DISCARD_SECONDS = 2.0  # for the rest of a refused body, so that the client reads the refusal
MOST_DISCARDING = 16  # refused bodies that are read and thrown away at one time; the others' connections end at once
BODY_SECONDS = 60.0  # for a body from a known caller
STRANGER_SECONDS = 10.0  # for a body from a stranger
LEAST_HELD = 16 * KIB  # bytes: what a waiting request costs besides its body, so that a body of one byte is not free
MOST_JUDGED = (
    64  # requests whose credential is being checked before their body; the server has read up to 256 KiB of each
)
SHARE = 4  # one caller, or one address of strangers (IPv6: one /64), gets this part of a budget
HAS_WHOLE_BODY = "ocmconsole.has_whole_body"  # in the scope's extensions: a function, whether all has arrived
IS_GONE = "ocmconsole.is_gone"  # likewise: whether the client has gone away
SINK = "ocmconsole.sink"  # likewise: as ``stream_response.Sink``, for an answer in chunks that has begun
ANSWER = "ocmconsole.answer"  # likewise: sends a 200 with these headers and this body at once; returns whether it could


class ClientGoneError(Exception):
    """The client closed the connection, or was too slow, before its request was read."""


class TooLargeError(Exception):
    """The body is larger than this caller may send; ``limit`` is in bytes, ``is_anonymous`` without any credential."""

    def __init__(self, limit: int, *, is_anonymous: bool = False) -> None:
        super().__init__(limit)
        self.limit = limit
        self.is_anonymous = is_anonymous


class BusyError(Exception):
    """A budget of bytes in flight is used up; the same request may succeed later."""


@dataclass(frozen=True, slots=True)
class Limits:
    """In bytes."""

    body: int = LARGEST_BODY
    stranger_body: int = 64 * KIB
    bodies: int = 64 * MIB  # of known callers, together
    stranger_bodies: int = 2 * MIB  # of strangers, together


@dataclass(slots=True)
class Budget:
    """Bytes that are held for callers, of ``limit`` at most; one caller holds ``limit / SHARE`` at most."""

    limit: int
    held: Counter[str] = field(default_factory=Counter)
    total: int = 0

    def take(self, caller: str, size: int) -> None:
        """Raises BusyError, and takes nothing then."""
        if self.total + size > self.limit or self.held[caller] + size > self.limit // SHARE:
            raise BusyError
        self.held[caller] += size
        self.total += size

    def give_back(self, caller: str, size: int) -> None:
        self.total -= size
        self.held[caller] -= size
        if not self.held[caller]:
            del self.held[caller]


@dataclass(slots=True)
class Holding:
    """What one request holds of a budget until it is closed."""

    budget: Budget
    caller: str
    size: int = 0

    def grow_to(self, size: int) -> None:
        """Raises BusyError."""
        more = max(size, LEAST_HELD) - self.size
        if more > 0:
            self.budget.take(self.caller, more)
            self.size += more

    def close(self) -> None:
        if self.size:
            self.budget.give_back(self.caller, self.size)
            self.size = 0


class Intake:
    """The budgets of one listener. All methods run on the event loop, so nothing needs a lock."""

    def __init__(self, limits: Limits, site_of: Callable[[str], str] = str) -> None:
        """``site_of`` reduces an address to what is counted together (``request_limits.site_of``)."""
        self.limits, self.site_of = limits, site_of
        self.known = Budget(limits.bodies)
        self.strangers = Budget(limits.stranger_bodies)
        self.judging = Budget(MOST_JUDGED)
        self.discarding = 0

    async def read(
        self,
        scope: HTTPScope,
        environ: Environ,
        receive: ASGIReceiveCallable,
        judge: Callable[[Environ], Awaitable[str | bool]],
        digest: bytes | None,
    ) -> tuple[bytes, Holding | None]:
        """The body, and what it holds of a budget: to be closed by the caller of this function.

        ``judge`` returns whether the head of the request carries a valid credential, for a cookie the name that it
        signs in. It is awaited before the body, unless the body is small and has come with the head: such a request is
        authenticated when it is handled. ``digest`` is what its credential is known by (``request_limits.digest_of``),
        None for a cookie and for nothing.
        Raises TooLargeError, BusyError, ClientGoneError.
        """
        declared = _declared(scope)
        if declared == 0:
            return b"", None
        shows_credential = _shows_credential(environ)
        known: str | bool = shows_credential
        if declared is not None and declared > self.limits.body:
            raise TooLargeError(self.limits.body, is_anonymous=not shows_credential)
        if known and not _is_small_and_here(scope, declared):
            known = await self._judged(environ, judge)
        limit = self.limits.body if known else self.limits.stranger_body
        if declared is not None and declared > limit:
            raise TooLargeError(limit, is_anonymous=not shows_credential)
        holding = self._holding(environ, digest, known=known)
        try:
            holding.grow_to(declared or 0)
            async with asyncio.timeout(BODY_SECONDS if known else STRANGER_SECONDS):
                return await _read(receive, limit, holding), holding
        except TimeoutError as error:
            holding.close()
            raise ClientGoneError from error
        except BaseException:
            holding.close()
            raise

    async def _judged(self, environ: Environ, judge: Callable[[Environ], Awaitable[str | bool]]) -> str | bool:
        site = self.site_of(str(environ["REMOTE_ADDR"]))
        self.judging.take(site, 1)
        try:
            return await judge(environ)
        finally:
            self.judging.give_back(site, 1)

    def _holding(self, environ: Environ, digest: bytes | None, *, known: str | bool) -> Holding:
        """Cookies that nobody has judged are counted by the address: their text is free."""
        site = self.site_of(str(environ["REMOTE_ADDR"]))
        if not known:
            return Holding(self.strangers, site)
        if digest is not None:
            return Holding(self.known, digest.hex())
        return Holding(self.known, known if isinstance(known, str) else site)

    async def discard(self, scope: HTTPScope, receive: ASGIReceiveCallable) -> None:
        """After a refusal: read what is still coming, for a moment and for a few clients only, and keep nothing.

        A connection that is closed with unread bytes in it is reset, and the client may never read the answer.
        """
        declared = _declared(scope)
        expects = header(scope, b"expect").lower() == b"100-continue"  # such a client has sent nothing yet
        if expects or (declared or 0) > LARGEST_DISCARD or self.discarding >= MOST_DISCARDING:
            return
        self.discarding += 1
        total = 0
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                async for chunk in _chunks(receive):
                    total += len(chunk)
                    if total > LARGEST_DISCARD:
                        return
        except (TimeoutError, ClientGoneError):
            return
        finally:
            self.discarding -= 1


async def _read(receive: ASGIReceiveCallable, limit: int, holding: Holding) -> bytes:
    body = bytearray()
    async for chunk in _chunks(receive):
        if len(body) + len(chunk) > limit:
            raise TooLargeError(limit)
        holding.grow_to(len(body) + len(chunk))
        body += chunk
    return bytes(body)


async def _chunks(receive: ASGIReceiveCallable) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        request = cast("HTTPRequestEvent", message)
        yield request["body"]
        more = request["more_body"]


def _declared(scope: HTTPScope) -> int | None:
    """The length that the head declares; None for a body in chunks."""
    if header(scope, b"transfer-encoding"):
        return None
    return int(header(scope, b"content-length") or 0)


def has_whole_body(scope: HTTPScope) -> bool:
    """Whether the body, if there is one, has come already.

    Not known under another server than ocmconsole.server.serving.
    """
    if _declared(scope) == 0:
        return True
    look = cast("dict[str, Any]", scope.get("extensions") or {}).get(HAS_WHOLE_BODY)
    return look is not None and bool(look())


def _is_small_and_here(scope: HTTPScope, declared: int | None) -> bool:
    return declared is not None and declared <= LEAST_HELD and has_whole_body(scope)


def _shows_credential(environ: Environ) -> bool:
    """Valid or not; without any nobody needs to be asked. A missing certificate is None, an unusable one is not."""
    return (
        environ["ocmconsole.peer_certificate"] is not None
        or "HTTP_AUTHORIZATION" in environ
        or "HTTP_COOKIE" in environ
    )


def header(scope: HTTPScope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")
