"""What is known of each act that can take more than one person; the module of the act registers it here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings

from ocmconsole.kubeapi.storage import audit_acts
from ocmconsole.second_approval.rules import ActName, Rule

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.second_approval.models import ProposedAct

Doc = dict[str, Any]

PROPOSE = audit_acts.declare("second-approval:propose", "Act proposed that takes another person")
APPROVE = audit_acts.declare(
    "second-approval:approve", "Proposed act approved", refused="Approving a proposed act refused"
)
DECLINE = audit_acts.declare(
    "second-approval:decline", "Proposed act declined", refused="Declining a proposed act refused"
)
CHANGE = audit_acts.declare("second-approval:change", "Proposed act is no longer what was seen")
DONE = audit_acts.declare("second-approval:done", "Proposed act carried out")
BREAK_GLASS = audit_acts.declare("second-approval:break-glass", "Act done from the host without a second person")


@dataclass(frozen=True, slots=True)
class ActKind:
    """An act that can take more than one person.

    ``title`` says what is done, of ``{subject}``. ``may`` says whether an actor may do it, and so approve it;
    ``evidence`` reads what it would be decided on now, None where it cannot be done any more. ``perform`` does it for
    somebody who carries out what was approved on its page; None where it is done again by hand, because it answers with
    a secret or takes the host, and ``again`` says how. ``by_proposer``: what is done goes on in the name of who did it,
    so only the one who proposed it performs it. ``url`` is the page about the subject. ``prepare`` reads at once what
    ``may`` will ask about many, into the request's memory.
    """

    name: ActName
    title: str
    may: Callable[[Actor, ProposedAct], bool]
    evidence: Callable[[ProposedAct], Doc | None]
    perform: Callable[[Actor, ProposedAct], object] | None = None
    again: str = ""
    by_proposer: bool = False
    url: Callable[[ProposedAct], str] = lambda _: ""
    prepare: Callable[[Collection[ProposedAct]], None] = lambda _: None


_kinds: dict[str, ActKind] = {}


def register(kind: ActKind) -> None:
    _kinds[kind.name] = kind


def kind_of(name: str) -> ActKind:
    return _kinds[name]


def rule_of(name: str) -> Rule | None:
    """How many people the act takes; None where one is enough."""
    rules: dict[str, Rule] = settings.OCMCONSOLE_SECOND_APPROVAL
    return rules.get(name)


def is_on() -> bool:
    """Whether any act takes more than one person."""
    return bool(settings.OCMCONSOLE_SECOND_APPROVAL)
