"""Limits for each identity (D23): requests a second and at once, open watches, a share of threads and of CPU time.

A ``Callers`` belongs to one listener of one process and lives on its event loop alone, so nothing here is locked. It
knows a credential by its digest once a request with it was authenticated; before that a request belongs to its address.
Requests over a limit are answered 429 before their body is read; those of an identity that has used up its share of CPU
time wait, without a thread. Callers: ``ocmconsole.server.exchange``, ``authentication``.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any

from django.conf import settings

from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor

REQUESTS = "OCMCONSOLE_LIMIT_REQUESTS"
IN_FLIGHT = "OCMCONSOLE_LIMIT_IN_FLIGHT"
WATCHES = "OCMCONSOLE_LIMIT_WATCHES"
STRANGERS = "OCMCONSOLE_LIMIT_STRANGERS"
BODIES = "OCMCONSOLE_LIMIT_BODIES"
STRANGER_BODIES = "OCMCONSOLE_LIMIT_STRANGER_BODIES"
CPU = "OCMCONSOLE_LIMIT_CPU"
STATUS_SIZE = "OCMCONSOLE_LIMIT_STATUS_SIZE"

AUTHENTICATED_AS = "ocmconsole.authenticated_as"  # the WSGI variable that holds the authenticated Actor
CPU_CREDIT = 1.0  # seconds of CPU time that an identity may use at once; an ordinary request takes 2 to 8 ms
CPU_DEBT = 0.5  # seconds of CPU time, at most, that it has to wait for after one request
NOTED_DELAY = 1.0  # seconds; a shorter wait is not recorded
CROWD = 10  # times the limits for an address, and for a token that was minted for so many clusters or more
SECONDS_OF_STRANGERS = 20  # how many seconds' worth of failures an address may send at once
# Of 700 bytes each; the one that was not used for longest is forgotten. More than the largest fleet has agents
# (100,000): they come in turns, so of a table that is a little too small each would be gone when it comes again.
MOST_CREDENTIALS = 131_072
MOST_ADDRESSES = 16_384  # of 500 bytes each
IPV6_SITE = 64  # bits: a host that has one IPv6 address has all of its /64
LONGEST_WAIT = 60  # seconds, of Retry-After
WATCH_WAIT = 5  # seconds, of Retry-After where watches have to end first
# Credentials that many hold at once by design: their bearers are counted for each address.
SHARED = ("bootstrap:", "jwt:")

_spent: ContextVar[list[float] | None] = ContextVar("spent", default=None)


def charge(seconds: float) -> None:
    """Add CPU time that the present request makes the hub spend elsewhere. Does nothing outside of a request."""
    if (spent := _spent.get()) is not None:
        spent[0] += seconds


@contextmanager
def metering() -> Iterator[list[float]]:
    """Around a request on its thread: the list's one element becomes the CPU time in seconds that it is charged for."""
    began, spent = thread_time(), [0.0]
    token = _spent.set(spent)
    try:
        yield spent
    finally:
        _spent.reset(token)
        spent[0] += thread_time() - began


class HeldBackError(errors.TooManyRequests):
    """429 with ``Retry-After``, in the words that clients know (W161); the cause names the limit."""

    def __init__(self, limit: str, text: str, retry_after: int, message: str = "") -> None:
        super().__init__(
            message or "the server has received too many requests and has asked us to try again later",
            causes=[errors.Cause(limit, text)],
            retry_after=retry_after,
        )
        self.limit = limit


class OverSizeError(errors.RequestTooLarge):
    """413: larger than a limit allows, which the cause names."""

    def __init__(self, limit: str, text: str) -> None:
        super().__init__(text, causes=[errors.Cause(limit, "larger than this limit allows")])
        self.limit = limit


@dataclass(eq=False, slots=True)
class Bucket:
    """An amount that is spent and refilled steadily (a token bucket); below zero its owner has to wait."""

    level: float
    at: float  # monotonic time of the last refill

    def refill(self, rate: float, most: float, now: float) -> None:
        """``rate`` a second, up to ``most``."""
        self.level = min(most, self.level + (now - self.at) * rate)
        self.at = now


@dataclass(eq=False, slots=True)
class CallerAccount:
    """One identity, or one address of requests without a known credential.

    ``name`` is the user name, "" for an address. ``times``: how many agents are expected behind it, up to ``CROWD``.
    ``since``: the monotonic time of the request that it was made for.
    """

    name: str
    address: str
    requests: Bucket
    cpu: Bucket
    reads: asyncio.Semaphore
    writes: asyncio.Semaphore
    since: float
    times: int = 1
    is_exempt: bool = False
    in_flight: int = 0
    watches: int = 0

    def take(self, rate: float, burst: float, now: float) -> int:
        """Count one request; returns 0, or the seconds after which it may be repeated.

        ``rate`` a second and ``burst`` at once, either of which is 0 where that limit is switched off: nothing holds.
        """
        if not rate or not burst:
            return 0
        self.requests.refill(rate, burst, now)
        if self.requests.level < 1:
            return min(LONGEST_WAIT, max(1, math.ceil((1 - self.requests.level) / rate)))
        self.requests.level -= 1
        return 0

    def delay(self, now: float) -> float:
        """Seconds until its share of CPU time allows the next request."""
        rate = settings.OCMCONSOLE_LIMIT_CPU * self.times / 100
        if not rate or self.is_exempt:
            return 0.0
        self.cpu.refill(rate, CPU_CREDIT * self.times, now)
        return max(0.0, -self.cpu.level / rate)

    def end_watch(self) -> None:
        self.watches -= 1

    def spend(self, seconds: float) -> None:
        self.cpu.level = max(self.cpu.level - seconds, -CPU_DEBT * self.times)


@dataclass(slots=True)
class Callers:
    """Everybody who sent requests to one listener lately. ``share``: threads that one identity may occupy.

    As many for its reads as for its writes: a write that waits for a lock holds up no read of the same identity.
    """

    share: int
    _known: OrderedDict[bytes, CallerAccount] = field(default_factory=OrderedDict)  # by digest of the credential
    _failed: OrderedDict[bytes, None] = field(default_factory=OrderedDict)
    _named: dict[tuple[str, str], CallerAccount] = field(default_factory=dict)
    _holders: dict[tuple[str, str], int] = field(default_factory=dict)  # credentials that lead to a named account
    _addresses: OrderedDict[str, CallerAccount] = field(default_factory=OrderedDict)

    def account_of(self, digest: bytes | None, address: str, now: float) -> CallerAccount:
        """Whose request this is. Without a known credential it is its address's."""
        if digest is not None and (found := self._known.get(digest)) is not None:
            self._known.move_to_end(digest)
            return found
        site = site_of(address)
        if (found := self._addresses.get(site)) is None:
            found = self._addresses[site] = self._account("", site, CROWD, _strangers_burst(), now)
            _forget_oldest(self._addresses, MOST_ADDRESSES)
        self._addresses.move_to_end(site)
        return found

    def _account(self, name: str, address: str, times: int, burst: float, now: float) -> CallerAccount:
        cpu = Bucket(CPU_CREDIT * times, now)
        reads, writes = asyncio.Semaphore(self.share), asyncio.Semaphore(self.share)
        return CallerAccount(name, address, Bucket(burst, now), cpu, reads, writes, now, times)

    def check(self, account: CallerAccount, digest: bytes | None, now: float, *, has_certificate: bool) -> bool:
        """Before anything is read; returns whether the request was counted for its address. Raises HeldBackError."""
        if account.is_exempt:
            return False
        most = settings.OCMCONSOLE_LIMIT_IN_FLIGHT * account.times
        if most and account.in_flight >= most:
            raise HeldBackError(IN_FLIGHT, f"{account.name or account.address} has {most} requests in flight", 1)
        if not account.name:
            return self._check_stranger(account, digest, now, has_certificate=has_certificate)
        if wait := _count(account, now):
            rate = settings.OCMCONSOLE_LIMIT_REQUESTS * account.times
            raise HeldBackError(REQUESTS, f"{account.name} sent more than {rate} requests a second", wait)
        return False

    def _check_stranger(
        self, account: CallerAccount, digest: bytes | None, now: float, *, has_certificate: bool
    ) -> bool:
        """A new certificate may be a good one behind the address of a bad neighbour, so it is tried."""
        rate = settings.OCMCONSOLE_LIMIT_STRANGERS
        if not rate or (has_certificate and digest not in self._failed):
            return False
        if wait := account.take(rate, _strangers_burst(), now):
            text = f"{account.address} sent more than {rate} requests a second without a valid credential"
            raise HeldBackError(STRANGERS, text, wait)
        return True

    def settle(self, visit: Visit, actor: Actor | None, spent: float, now: float, *, is_refused: bool) -> CallerAccount:
        """After the request: who sent it, or that its credential was refused. Returns the account that is charged.

        ``spent`` is CPU time in seconds. A request that failed before its credential was read is charged to nobody.
        A credential that worked once and is refused now (revoked, expired) is forgotten, and its address is charged.
        """
        account, digest = visit.account, visit.digest
        if account.name and digest is not None and is_refused and actor is None:
            self._forget(digest)
            account = self.account_of(None, visit.address, now)
            account.take(settings.OCMCONSOLE_LIMIT_STRANGERS, _strangers_burst(), now)
        if actor is not None and not actor.is_anonymous and digest is not None:
            if not account.name:
                account = self._learned(digest, actor, now)
            account.is_exempt = actor.is_master
            account.spend(spent)
        elif not account.name and (is_refused or actor is not None):
            account.spend(spent)
            if digest is not None:
                self._failed[digest] = None
                _forget_oldest(self._failed, MOST_ADDRESSES)
        return account

    def check_watch(self, account: CallerAccount) -> None:
        """Before a stream is opened. Raises HeldBackError."""
        most = settings.OCMCONSOLE_LIMIT_WATCHES * account.times
        if most and account.name and not account.is_exempt and account.watches >= most:
            raise HeldBackError(WATCHES, f"{account.name} has {most} open watches", WATCH_WAIT)

    def _learned(self, digest: bytes, actor: Actor, now: float) -> CallerAccount:
        self._failed.pop(digest, None)
        if (known := self._known.get(digest)) is not None:  # by another first request that came at the same time
            return known
        key = (actor.user, site_of(actor.address) if actor.credential.startswith(SHARED) else "")
        if (found := self._named.get(key)) is None:
            times = min(actor.bearers, CROWD)
            burst = settings.OCMCONSOLE_LIMIT_BURST * times
            found = self._named[key] = self._account(actor.user, key[1], times, burst, now)
        self._known[digest] = found
        self._holders[key] = self._holders.get(key, 0) + 1
        while len(self._known) > MOST_CREDENTIALS:
            self._drop(self._known.popitem(last=False)[1])
        return found

    def _forget(self, digest: bytes) -> None:
        if (account := self._known.pop(digest, None)) is not None:  # else another request was refused before this one
            self._drop(account)

    def _drop(self, account: CallerAccount) -> None:
        """A named account goes with its last credential; requests that still run hold it themselves."""
        key = (account.name, account.address)
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key], self._named[key]


@dataclass(eq=False, slots=True)
class Visit:
    """One request: ``account`` is whose it seems to be at first, ``payer`` whose it turned out to be."""

    callers: Callers
    account: CallerAccount
    payer: CallerAccount
    digest: bytes | None
    address: str
    is_inside: bool = False
    is_counted: bool = False

    @classmethod
    def of(cls, callers: Callers, environ: dict[str, Any]) -> Visit:
        """``environ`` is the head of the request, as WSGI spells it."""
        address = environ["REMOTE_ADDR"]
        digest = digest_of(environ["ocmconsole.peer_certificate"], environ.get("HTTP_AUTHORIZATION", ""), address)
        return cls.of_digest(callers, digest, address)

    @classmethod
    def of_digest(cls, callers: Callers, digest: bytes | None, address: str) -> Visit:
        """``digest`` as ``digest_of`` makes it."""
        account = callers.account_of(digest, address, monotonic())
        return cls(callers, account, account, digest, address)

    def enter(self, *, has_certificate: bool) -> None:
        """Count the request as in flight, until ``leave``. Raises HeldBackError."""
        self.is_counted = self.callers.check(self.account, self.digest, monotonic(), has_certificate=has_certificate)
        self.account.in_flight += 1
        self.is_inside = True

    def leave(self) -> None:
        """The request is answered, or goes on as a stream. Once more changes nothing."""
        if self.is_inside:
            self.account.in_flight -= 1
            self.is_inside = False

    @asynccontextmanager
    async def turn(self, *, writes: bool) -> AsyncIterator[float]:
        """Wait for a thread and for CPU time of the identity's share; gives the seconds of delay by the latter."""
        async with self.account.writes if writes else self.account.reads:
            if wait := self.account.delay(monotonic()):
                await asyncio.sleep(wait)
            yield wait

    def settle(self, actor: Actor | None, spent: float, *, is_refused: bool) -> None:
        """As ``Callers.settle``. What was counted for the address is given back for a good credential that is new.

        It counts for its identity instead, unless that is new too. Over the limit of the identity it remains counted
        for the address: many credentials, or ever new spellings of one, gain nothing.
        """
        now = monotonic()
        self.payer = self.callers.settle(self, actor, spent, now, is_refused=is_refused)
        if not self.payer.name or self.payer is self.account:
            return
        is_within = self.payer.is_exempt or self.payer.since == now or not _count(self.payer, now)
        if is_within and self.is_counted:
            self.account.requests.level += 1

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count an open stream. Raises HeldBackError."""
        ended = self.watch()
        try:
            yield
        finally:
            ended()

    def watch(self) -> Callable[[], None]:
        """As ``watching``, until what is returned is called, once."""
        self.callers.check_watch(self.payer)
        self.payer.watches += 1
        return self.payer.end_watch


def _count(account: CallerAccount, now: float) -> int:
    """One request of a named account; as ``CallerAccount.take``."""
    rate, burst = settings.OCMCONSOLE_LIMIT_REQUESTS, settings.OCMCONSOLE_LIMIT_BURST
    return account.take(rate * account.times, burst * account.times, now)


def _strangers_burst() -> float:
    return float(settings.OCMCONSOLE_LIMIT_STRANGERS * SECONDS_OF_STRANGERS)


def _forget_oldest(table: OrderedDict, most: int) -> None:  # type: ignore[type-arg] # any table
    while len(table) > most:
        table.popitem(last=False)


def digest_of(certificate: bytes | None, authorization: str, address: str) -> bytes | None:
    """What a credential is known by. A bearer token may be shared, so it counts together with where it comes from."""
    if certificate is not None:
        return hashlib.sha256(certificate).digest()
    if authorization:
        shown = bearer_token(authorization) or authorization
        return hashlib.sha256(f"{site_of(address)} {shown}".encode()).digest()
    return None


def bearer_token(authorization: str) -> str:
    """The token of an ``Authorization`` header, however its scheme and blanks are written; "" without one."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def site_of(address: str) -> str:
    """The part of an address that identifies a caller."""
    if ":" not in address:
        return address
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((int(found), IPV6_SITE), strict=False))
