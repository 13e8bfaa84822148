"""Who acts: one immutable value that every verb takes first. Made by entry points, read by authorization and audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from ocmconsole.kubeapi import (
    clock,
)

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
# The hub's own parts, which act without a credential (D24).
OWN_PREFIX = "system:ocmconsole:"


class EntryPoint(StrEnum):
    """The place where a call came in, as the audit shows it."""

    API = "api"
    WEB = "web"
    ADMIN = "admin"
    CLI = "cli"
    STANDING = "standing"  # what a person decided beforehand: a policy, the wish that came with a token
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Actor:
    """A user name with groups (W21), the entry point used, and what it knows of the request.

    ``credential`` identifies the credential, never its secret: ``cert:<sha256>``, ``bootstrap:<id>``, ``jwt:<jti>``,
    ``session:<user pk>``. ``impersonator`` is the real user behind an impersonated one.
    ``as_of`` is ``Revision.rights`` from before the credential was examined, None where none was; ``renew`` examines it
    again and returns the actor of now, or raises Unauthorized or Forbidden. ``until`` is when the credential expires
    (seconds since the epoch), where that changes no right: a session.
    """

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    entry_point: EntryPoint = EntryPoint.API
    credential: str = ""
    address: str = ""
    user_agent: str = ""
    request_id: str = ""
    impersonator: str = ""
    bearers: int = 1  # clients that are expected to share the credential, as a token for 20 clusters; for limits (D23)
    as_of: int | None = field(default=None, compare=False)
    renew: Callable[[], Actor] | None = field(default=None, compare=False, repr=False)
    until: float = field(default=inf, compare=False)

    @property
    def is_master(self) -> bool:
        return MASTERS in self.groups

    @property
    def is_controller(self) -> bool:
        """The hub itself: its writers bypass permission rules (K6), never shape rules."""
        return self.entry_point is EntryPoint.CONTROLLER

    @property
    def is_anonymous(self) -> bool:
        return self.user == ANONYMOUS

    def is_outdated(self, rights: int) -> bool:
        """Whether rights or credentials have changed or ended since this one was examined; ``rights`` is of now."""
        if self.is_controller or self.as_of is None:
            return False
        return rights > self.as_of or clock.now().timestamp() >= self.until

    def renewed(self) -> Actor:
        """The actor with present groups and rights, with the same entry point. Raises Unauthorized, Forbidden."""
        return replace(self.renew(), entry_point=self.entry_point, request_id=self.request_id) if self.renew else self

    def through(self, entry_point: EntryPoint) -> Actor:
        return replace(self, entry_point=entry_point)

    @classmethod
    def controller(cls, name: str) -> Actor:
        """A part of the hub itself as an actor: ``system:ocmconsole:<name>``."""
        return cls(user=f"{OWN_PREFIX}{name}", groups=(MASTERS, AUTHENTICATED), entry_point=EntryPoint.CONTROLLER)

    @classmethod
    def anonymous(cls) -> Actor:
        return cls(user=ANONYMOUS, groups=(UNAUTHENTICATED,))
