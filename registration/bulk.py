"""Many decisions at once: each is authorized, checked and recorded by itself, as if somebody had made it alone.

The first missing right ends it: whoever lacks it would be refused for the others too, and each refusal is a record.
Called by the pages of bulk decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi import errors
from registration import services

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor
    from registration.staleness import Seen

# In one request; each takes some hundredths of a second.
MOST_AT_ONCE = 100


class State(StrEnum):
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one row."""

    name: str
    state: State
    text: str = ""

    def told(self) -> dict[str, Any]:
        return asdict(self) | {"state": str(self.state)}


Chosen = Sequence[tuple[str, "Seen"]]


def accept(actor: Actor, chosen: Chosen) -> list[Result]:
    """Never one that is Blocked: the service refuses it without an override."""

    def act(name: str, seen: Seen) -> str:
        approved = services.accept_cluster(actor, name, seen=seen)
        return f"its request {approved[0]} is approved" if approved else "it has not asked for a certificate yet"

    return _each(actor, chosen, act)


def decline(actor: Actor, chosen: Chosen, *, reason: str) -> list[Result]:
    def act(name: str, seen: Seen) -> str:
        denied = services.decline_cluster(actor, name, reason=reason, seen=seen)
        return f"its request {denied[0]} is denied" if denied else "its name is refused"

    return _each(actor, chosen, act)


def _each(actor: Actor, chosen: Chosen, act: Callable[[str, Seen], str]) -> list[Result]:
    found: list[Result] = []
    for name, seen in chosen[:MOST_AT_ONCE]:
        if any(result.state is State.REFUSED for result in found):
            found.append(Result(name, State.NOT_TRIED))
            continue
        try:
            services.require_accept(actor, name)
        except errors.Forbidden as error:
            found.append(Result(name, State.REFUSED, error.message))
            continue
        try:
            found.append(Result(name, State.DONE, act(name, seen)))
        except errors.ApiError as error:
            found.append(Result(name, State.FAILED, error.message))
    return found
