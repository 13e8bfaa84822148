"""``manage.py simulate_fleet --clusters N``: N registration agents in one process against the hub that is served."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import resource
import sys
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from ocmconsole.accounts import acting_command
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors
from registration import join_guide
from registration.agent.client.api import ssl_context
from registration.agent.client.kubeconfig import Kubeconfig, parse_kubeconfig, read_kubeconfig
from registration.pki import kubeconfigs
from registration.simulation import happenings
from registration.simulation.report import FleetReport
from registration.simulation.simulation import AGENTS_OF_CLIENT, AGENTS_OF_TOKEN, Plan, ProxyPool, Simulation, source_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

# Open files of one agent: three watches and a connection for everything else, with one to spare while one is replaced.
FILES = 5
SPARE_FILES = 200  # for the process itself
UNLIMITED = httpx.Limits(max_connections=None, max_keepalive_connections=None)
# What leaves room in the 64 characters of a common name, which ``CryptographyTool`` keeps to.
PREFIX = re.compile(r"[a-z0-9][-a-z0-9]{0,19}")
LIFETIME = timedelta(hours=12)  # of the bootstrap tokens, which agents need until they have joined


class Command(BaseCommand):
    help = (
        "Simulates a fleet: real registration agents that join and beat over the API of the hub that is being served."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--clusters", type=int, required=True, metavar="N", help="how many agents")
        parser.add_argument("--prefix", default="sim", help="of the clusters' names (sim)")
        parser.add_argument("--join-over", type=float, default=0, metavar="SECONDS", help="0: all at once")
        parser.add_argument("--seconds", type=float, default=60, help="to go on after all have joined (60)")
        parser.add_argument("--outage", action="append", default=[], metavar="50%@60s+30s",
                            help="a share is gone from then on for so long; may be given again")  # fmt: skip
        parser.add_argument("--skew", action="append", default=[], metavar="10%=300s",
                            help="the clocks of a share are ahead; may be given again")  # fmt: skip
        parser.add_argument(
            "--flapping", type=int, default=0, metavar="PERCENT", help="agents that restart all the time"
        )
        parser.add_argument("--pooled", action="store_true", help="over shared connections, as a trusted proxy does")
        parser.add_argument("--seed", type=int, default=1, help="another number is another fleet")
        parser.add_argument("--report", type=Path, metavar="FILE", help="write the report as JSON too")
        parser.add_argument("--verbose", action="store_true", help="the agents' logs, on standard error")
        parser.add_argument("--as", dest="user", default="admin", metavar="USER", help="who mints the tokens")

    def handle(self, *args: Any, clusters: int, **options: Any) -> None:
        if clusters < 1:
            raise CommandError("--clusters must be at least 1")
        if not PREFIX.fullmatch(options["prefix"]):
            raise CommandError("--prefix takes 1 to 20 lowercase letters, digits and -, a letter or digit first")
        plan = _plan(clusters, options)
        _raise_limit(FILES * clusters)
        logging.basicConfig(
            level=logging.INFO if options["verbose"] else logging.CRITICAL, stream=sys.stderr, force=True
        )
        logging.getLogger("httpx").setLevel(logging.WARNING)
        admin = read_kubeconfig(settings.OCMCONSOLE_HOME / "admin.kubeconfig")
        bootstraps = _bootstraps(clusters, options["user"])
        report = asyncio.run(_simulate(plan, bootstraps, admin, pooled=options["pooled"]))
        doc = report.as_document() | {"clusters": clusters, "simulator": _own_cost(clusters)}
        for line in report.lines():
            self.stdout.write(line)
        own = doc["simulator"]
        self.stdout.write(
            f"\nthis process: {own['cpu_seconds']} s of CPU, {own['rss_mb']} MB, {own['kb_an_agent']} KB an agent"
        )
        if options["report"]:
            options["report"].write_text(json.dumps(doc, indent=2) + "\n")
        if len(report.joined) < clusters:
            raise CommandError(f"{clusters - len(report.joined)} of {clusters} agents did not join")


def _plan(clusters: int, options: dict[str, Any]) -> Plan:
    try:
        outages = [happenings.parse_outage(text) for text in options["outage"]]
        skews = [happenings.parse_skew(text) for text in options["skew"]]
    except ValueError as error:
        raise CommandError(str(error)) from error
    return Plan(
        clusters, options["prefix"], options["join_over"], options["seconds"], outages, skews,
        options["flapping"] / 100, seed=options["seed"],
    )  # fmt: skip


def _bootstraps(clusters: int, user: str) -> list[Kubeconfig]:
    """As many tokens as the limits of one identity ask for."""
    actor = acting_command.actor_named(user)
    address = join_guide.addresses()[0]
    found = []
    for _ in range(0, clusters, AGENTS_OF_TOKEN):
        try:
            token = tokens.issue_bootstrap_token(actor, ttl=LIFETIME, name="simulated fleet", max_uses=AGENTS_OF_TOKEN)
        except errors.ApiError as error:
            raise CommandError(error.message) from error
        found.append(parse_kubeconfig(kubeconfigs.of_agent(token, address), Path()))
    return found


def _raise_limit(files: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + SPARE_FILES
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise CommandError(f"so many agents need {wanted} open files, and the limit is {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


async def _simulate(plan: Plan, bootstraps: list[Kubeconfig], admin: Kubeconfig, *, pooled: bool) -> FleetReport:
    pool = _pool(bootstraps[0], plan.clusters) if pooled else None
    simulation = Simulation(plan, bootstraps, admin, pool)
    with click.progressbar(length=plan.clusters, label="agents heard", file=sys.stderr) as bar:
        try:
            return await simulation.run(lambda heard: bar.update(heard - bar.pos))
        finally:
            if pool is not None:
                await pool.close()


def _pool(bootstrap: Kubeconfig, clusters: int) -> ProxyPool:
    """Connections of which each carries one request or watch at a time, of any agent."""
    proxies = settings.OCMCONSOLE_TRUSTED_PROXIES
    if not proxies.secret:
        raise CommandError("--pooled needs OCMCONSOLE_TRUSTED_PROXY with this machine, and OCMCONSOLE_PROXY_SECRET")
    numbers = range(math.ceil(clusters / AGENTS_OF_CLIENT))
    sources = [source_of(bootstrap.endpoint.server, number * AGENTS_OF_CLIENT) for number in numbers]
    for source in set(sources):
        if source and not any(ip_address(source) in network for network in proxies.networks):
            raise CommandError(f"so many agents call from {source} too, which OCMCONSOLE_TRUSTED_PROXY does not name")
    secure = ssl_context(bootstrap)
    clients = [
        httpx.AsyncClient(
            base_url=bootstrap.endpoint.server,
            transport=httpx.AsyncHTTPTransport(verify=secure, limits=UNLIMITED, local_address=source),
            trust_env=False,
        )
        for source in sources
    ]
    return ProxyPool(clients, proxies.secret)


def _own_cost(clusters: int) -> dict[str, float]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "rss_mb": round(used.ru_maxrss / 1024),
        "kb_an_agent": round(used.ru_maxrss / clusters),
    }
