"""``manage.py proposals list|show|approve|decline|carry-out``: acts that wait for another person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from django.core.management.base import CommandError

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.kubeapi import clock
from ocmconsole.second_approval import acts, decisions, gate

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.second_approval.models import ProposedAct


class Command(ActingCommand):
    help = (
        "Shows acts that take more than one person, and approves or declines them as one who proves to be that person."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        steps = parser.add_subparsers(dest="step", required=True)
        shown = steps.add_parser("list", help="what waits; --closed what was done, declined, changed or has expired")
        shown.add_argument("--closed", action="store_true")
        super().add_arguments(shown)
        for step, text in (
            ("show", "everything that one would approve, with its digest"),
            ("approve", "stand behind it; asks for the password of USER"),
            ("carry-out", "do what enough people have approved"),
            ("decline", "it is not done"),
        ):
            made = steps.add_parser(step, help=text)
            made.add_argument("number", type=int)
            if step in {"approve", "carry-out"}:
                made.add_argument("--digest", required=True, help="what show has said, so that nothing else is meant")
            if step == "decline":
                made.add_argument("--reason", required=True)
            super().add_arguments(made)

    def handle(self, *args: Any, prove: bool = False, **options: Any) -> None:
        super().handle(*args, prove=prove or options["step"] == "approve", **options)

    def act(self, actor: Actor, *args: Any, step: str, number: int = 0, **options: Any) -> None:
        if step == "list":
            found = decisions.closed_for(actor) if options["closed"] else decisions.waiting_for(actor)
            for each in found:
                self.stdout.write(_line(each))
            if not found:
                self.stdout.write("Nothing waits for another person." if not options["closed"] else "Nothing yet.")
            return
        if step == "show":
            self._show(decisions.find(actor, number))
            return
        if step == "approve":
            self._tell(decisions.approve(actor, number, options["digest"]))
        elif step == "decline":
            decisions.decline(actor, number, options["reason"])
            self.stdout.write(f"proposal {number} is declined")
        else:
            decisions.carry_out(actor, number, options["digest"])
            self.stdout.write(f"proposal {number} is carried out")

    def _show(self, found: ProposedAct) -> None:
        self.stdout.write(_line(found))
        self.stdout.write(yaml.safe_dump(gate.document_of(found), sort_keys=False, allow_unicode=True).rstrip())
        people, rule = decisions.people_behind(found)
        if rule is not None:
            self.stdout.write(f"people: {len(people)} of {rule.people} ({', '.join(people) or 'nobody'})")
        self.stdout.write(f"digest: {found.digest}")

    def _tell(self, found: ProposedAct) -> None:
        people, rule = decisions.people_behind(found)
        if rule is None:
            raise CommandError("it takes no second person any more")
        self.stdout.write(f"proposal {found.pk} is approved: {len(people)} of {rule.people} ({', '.join(people)})")


def _line(found: ProposedAct) -> str:
    state = found.present_state(clock.now())
    title = acts.kind_of(found.act).title.format(subject=found.subject)
    return f"{found.pk}  {state}  {title}, by {found.proposed_by}, until {found.expires:%Y-%m-%d %H:%M} UTC"
