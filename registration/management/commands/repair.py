"""``manage.py repair NAME``: what is wrong with an agent, and the one manifest that brings it back (D29).

``repair --not-given`` makes one for each cluster for which a rotation of the serving CA waits.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.core.tokens import tokens
from ocmconsole.environment import home
from ocmconsole.environment.durations import parse_duration
from ocmconsole.kubeapi import clock, errors
from registration.approvals import repairs, services
from registration.certificates import agent_troubles, ca_rotation, stolen_ca
from registration.pki import ca

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from datetime import timedelta

    from ocmconsole.kubeapi.access.actor import Actor
    from registration.approvals.repairs import RepairManifest


class Command(ActingCommand):
    help = "Says what is wrong with the agent of a cluster, and writes the manifest that brings it back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", nargs="?", default="")
        parser.add_argument("--ttl", default="1h", help="how long the manifest works, such as 15m or 1h, at most 24h")
        parser.add_argument("--output", default="", metavar="FILE", help="write the manifest there and not to stdout")
        of_all = "instead of NAME: a manifest there for each cluster that lacks the serving CA or a certificate"
        parser.add_argument("--not-given", default="", metavar="FOLDER", help=of_all)
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, name: str, ttl: str, output: str, not_given: str, **options: Any) -> None:
        """What a person reads goes to stderr where stdout is the manifest, so that it can be piped to kubectl."""
        if bool(name) == bool(not_given) or (not_given and output):
            raise CommandError("repair takes NAME, or --not-given FOLDER alone")
        try:
            lifetime = parse_duration(ttl)
            if name:
                self._repair(actor, name, lifetime, output)
            else:
                self._repair_all(actor, lifetime, not_given)
        except (ImproperlyConfigured, ca.AuthorityError) as error:
            raise CommandError(str(error)) from error

    def _repair(self, actor: Actor, name: str, lifetime: timedelta, output: str) -> None:
        path = Path(output).absolute() if output else None
        if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK)):
            raise CommandError(f"{output} cannot be written: nothing is changed")
        services.require_accept(actor, name)
        repairs.line_to_repair(name)
        trouble = agent_troubles.what_is_wrong(name, clock.now())
        made = repairs.mint_manifest(actor, name, ttl=lifetime)
        if path is None:
            self.stdout.write(made.text, ending="")
        else:
            _write(actor, path, made)
        lines = [f"{name}: {trouble.text}", f"On the managed cluster, until {made.token.expires:%H:%M} UTC, once:"]
        lines += [f"  {each}" for each in trouble.commands(output or repairs.FILE_NAME.format(name))]
        if trouble.must_start_over:
            lines.append("In this order: its certificate has not ended, and the agent would go on with it.")
        for line in lines:
            if path is None:
                self.stderr.write(line, self.style.NOTICE)
            else:
                self.stdout.write(line)

    def _repair_all(self, actor: Actor, lifetime: timedelta, folder: str) -> None:
        """What cannot be made for one cluster holds up no other."""
        ca_rotation.require_admin(actor)
        found = ca_rotation.progress_of(ca.AuthorityRole.SERVING)
        names = sorted({each.name for each in found.left} | set(stolen_ca.fallen()))
        if found.other is None and not names:
            raise CommandError(
                "the CA of serving is not being rotated, and no cluster lost the hub with a CA: nobody waits"
            )
        place = Path(folder).absolute()
        with suppress(OSError):
            place.mkdir(mode=0o700)
        if not place.is_dir() or not os.access(place, os.W_OK):
            raise CommandError(f"{folder} is no folder that can be written: nothing is changed")
        made, failed = 0, 0
        for each in names:
            path = place / repairs.FILE_NAME.format(each)
            try:
                _write(actor, path, repairs.mint_manifest(actor, each, ttl=lifetime))
            except errors.ApiError as error:
                failed += 1
                self.stderr.write(error.message)
                continue
            made += 1
            self.stdout.write(str(path))
        self.stdout.write(f"{made} made, each to be applied on its cluster once; {failed} not")


def _write(actor: Actor, path: Path, made: RepairManifest) -> None:
    try:
        home.write_file(path, made.text.encode(), secret=True)
    except OSError as error:
        tokens.revoke_bootstrap_token(actor, made.token.pk)
        raise CommandError(f"{path} cannot be written ({error.strerror or error}): the token is revoked") from error
