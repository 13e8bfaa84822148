"""``manage.py repair NAME``: what is wrong with an agent, and the one manifest that brings it back (D29)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.core.tokens import tokens
from ocmconsole.environment import home
from ocmconsole.environment.durations import parse_duration
from ocmconsole.kubeapi import clock
from registration.approvals import repairs, services
from registration.certificates import agent_troubles
from registration.pki import ca

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor
    from registration.approvals.repairs import RepairManifest


class Command(ActingCommand):
    help = "Says what is wrong with the agent of a cluster, and writes the manifest that brings it back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME")
        parser.add_argument("--ttl", default="1h", help="how long the manifest works, such as 15m or 1h, at most 24h")
        parser.add_argument("--output", default="", metavar="FILE", help="write the manifest there and not to stdout")
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, name: str, ttl: str, output: str, **options: Any) -> None:
        """What a person reads goes to stderr where stdout is the manifest, so that it can be piped to kubectl."""
        try:
            lifetime = parse_duration(ttl)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        path = Path(output).absolute() if output else None
        if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK)):
            raise CommandError(f"{output} cannot be written: nothing is changed")
        services.require_accept(actor, name)
        repairs.line_to_repair(name)
        trouble = agent_troubles.what_is_wrong(name, clock.now())
        try:
            made = repairs.mint_manifest(actor, name, ttl=lifetime)
        except ca.AuthorityError as error:
            raise CommandError(str(error)) from error
        if path is None:
            self.stdout.write(made.text, ending="")
        else:
            _write(actor, path, made)
        said = self.stdout if path else self.stderr
        style = (lambda text: text) if path else self.style.NOTICE
        file = output or repairs.FILE_NAME.format(name)
        lines = [f"{name}: {trouble.text}", f"On the managed cluster, until {made.token.expires:%H:%M} UTC, once:"]
        lines.append(f"  kubectl apply -f {file}")
        if trouble.must_start_over:
            lines += ["Its certificate has not ended, so the agent goes on with it until you also run there:"]
            lines.append(f"  {agent_troubles.START_OVER}")
        for line in lines:
            said.write(line, style)


def _write(actor: Actor, path: Path, made: RepairManifest) -> None:
    try:
        home.write_file(path, made.text.encode(), secret=True)
    except OSError as error:
        tokens.revoke_bootstrap_token(actor, made.token.pk)
        raise CommandError(f"{path} cannot be written ({error.strerror or error}): the token is revoked") from error
