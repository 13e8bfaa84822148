"""``manage.py bootstrap_token create | list | revoke``: tokens with which agents request to join, printed once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.accounts import acting_command
from ocmconsole.core.models import BootstrapToken
from ocmconsole.core.tokens import tokens
from ocmconsole.environment import home
from ocmconsole.environment.durations import parse_duration
from ocmconsole.kubeapi import clock, errors
from registration import join_guide
from registration.pki import kubeconfigs

if TYPE_CHECKING:
    from argparse import ArgumentParser

ANY = "any"  # of --uses: as many clusters as the hub's limit for one token allows


class Command(BaseCommand):
    help = "Mints, lists and revokes bootstrap tokens."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        create = acts.add_parser("create", help="mint a token and print it once")
        create.add_argument("--name", default="", help="what it is for")
        create.add_argument("--ttl", default="1h", help="how long it works, such as 15m, 1h or 7d")
        create.add_argument("--cluster", default="", help="the one cluster that may join with it")
        create.add_argument("--uses", default="1", help="how many clusters may come with it (1), or any")
        create.add_argument("--from", dest="networks", action="append", default=[], metavar="CIDR",
                            help="a network from which it works, such as 10.3.0.0/16; may be given again")  # fmt: skip
        create.add_argument("--set", dest="clusterset", default="", help="the set that its clusters are to join")
        create.add_argument("--label", dest="labels", action="append", default=[], metavar="KEY=VALUE",
                            help="a label that its clusters are to have; may be given again")  # fmt: skip
        create.add_argument("--kubeconfig", metavar="FILE", help="write a ready bootstrap kubeconfig instead")
        create.add_argument("--as", dest="user", default="admin", metavar="USER")
        acting_command.add_proof(create)
        acts.add_parser("list", help="show tokens, never their secrets")
        revoke = acts.add_parser("revoke", help="end a token now")
        revoke.add_argument("id", metavar="ID")
        revoke.add_argument("--as", dest="user", default="admin", metavar="USER")

    def handle(self, *args: Any, act: str, **options: Any) -> None:
        try:
            with acting_command.breaking_glass(options.get("break_glass") or ""):
                {"create": self._create, "list": self._list, "revoke": self._revoke}[act](options)
        except errors.ApiError as error:
            raise CommandError(error.message) from error

    def _create(self, options: dict[str, Any]) -> None:
        try:
            ttl = parse_duration(options["ttl"])
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        if options["uses"] != ANY and not (options["uses"].isascii() and options["uses"].isdecimal()):
            raise CommandError(f"--uses must be a number of clusters or {ANY}, not {options['uses']!r}")
        if odd := next((each for each in options["labels"] if "=" not in each), ""):
            raise CommandError(f"--label must be KEY=VALUE, not {odd!r}")
        actor = acting_command.actor_named(options["user"], proven=options["prove"])
        token = tokens.issue_bootstrap_token(
            actor,
            name=options["name"],
            ttl=ttl,
            cluster=options["cluster"],
            max_uses=None if options["uses"] == ANY else int(options["uses"]),
            addresses=options["networks"],
            clusterset=options["clusterset"],
            labels=dict(each.split("=", 1) for each in options["labels"]),
        )
        if options["kubeconfig"]:
            home.write_file(
                Path(options["kubeconfig"]).absolute(),
                kubeconfigs.of_agent(token, join_guide.addresses()[0]).encode(),
                secret=True,
            )
            self.stdout.write(f"{options['kubeconfig']} holds a token for {options['ttl']}")
            return
        cluster = options["cluster"] or "<cluster_name>"
        self.stdout.write(f"token={token}")
        self.stdout.write("please log on to the cluster and run:")
        self.stdout.write(
            f"clusteradm join --hub-token {token} --hub-apiserver {join_guide.addresses()[0]} --cluster-name {cluster}"
        )

    def _list(self, options: dict[str, Any]) -> None:
        now = clock.now()
        for token in BootstrapToken.objects.counted().order_by("created"):
            state = f"until {token.expires:%Y-%m-%d %H:%M}" if token.state(now) == "usable" else token.state(now)
            self.stdout.write(
                f"{token.pk}  {token.name or '-'}  {token.cluster or 'any cluster'}  {state}  {token.uses_text}"
            )

    def _revoke(self, options: dict[str, Any]) -> None:
        tokens.revoke_bootstrap_token(acting_command.actor_named(options["user"]), options["id"])
        self.stdout.write(f"{options['id']} revoked")
