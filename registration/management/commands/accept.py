"""``manage.py accept NAME… [--accept-key K --reason R]``: as the console does, as the named person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from ocmconsole.accounts.acting_command import ActingCommand
from ocmconsole.kubeapi import clock
from registration.approvals import services
from registration.keys import key_lines
from registration.models import IssuedCertificate

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from ocmconsole.kubeapi.access.actor import Actor


class Command(ActingCommand):
    help = "Accepts clusters and approves their waiting certificate requests."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="+", metavar="NAME")
        parser.add_argument(
            "--accept-key",
            default="",
            metavar="SHA256:…",
            help="the key that is the right one, for one known name; certificates of its other keys are revoked",
        )
        parser.add_argument("--reason", default="", help="how you know; required with --accept-key")
        super().add_arguments(parser)

    def act(self, actor: Actor, *args: Any, names: list[str], accept_key: str, reason: str, **options: Any) -> None:
        if bool(accept_key) != bool(reason.strip()) or (accept_key and len(names) > 1):
            raise CommandError("--accept-key goes with one NAME and a --reason")
        override = services.Override(accept_key, reason.strip()) if accept_key else None
        for name in names:
            valid = [row.pk for row in key_lines.certificates_of(name, clock.now())]
            approved = services.accept_cluster(actor, name, override=override)
            results = [f"{request} approved" for request in approved]
            if count := IssuedCertificate.objects.filter(pk__in=valid, revoked_at__isnull=False).count():
                results.append(f"{count} certificate{'' if count == 1 else 's'} of other keys revoked")
            self.stdout.write("; ".join([f"{name} accepted", *results]))
