"""``ocmconsole-agent``: one agent beside or inside the cluster that it registers, until it is stopped.

Options have the names of upstream's registration agent where that has them. Exit codes: 0 stopped by a signal, 1 it
cannot begin, 2 wrong options.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import logging
import random
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .agent import RegistrationAgent
from .bootstrapping.hub_files import FolderOfFiles, HubFiles, SecretOfFiles
from .bootstrapping.hubs import FilesOfHubs
from .client.api import Api
from .client.attempts import Log
from .client.clock import AgentClock
from .client.kubeconfig import Kubeconfig, KubeconfigError, in_cluster, read_kubeconfig
from .equipment import Equipment
from .keys import OpenSSL
from .options import HUB_TIMEOUT, MOST_CUSTOM_CLAIMS, STATUS_PERIOD, AgentOptions
from .steady_state.managed_cluster import KubernetesCluster

NAMESPACE = "open-cluster-management-agent"
SECRET = "hub-kubeconfig-secret"  # noqa: S105 - the name of a Secret
BOOTSTRAP = Path("/spoke/bootstrap/kubeconfig")  # where upstream mounts the Secret bootstrap-hub-kubeconfig
# A cluster's name is that of its namespace on the hub, so it has its form (G2).
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SHORTEST_CERTIFICATE = 3600  # seconds, as upstream: a shorter one would be renewed all the time
DURATION = {"s": 1, "m": 60, "h": 3600}  # seconds of the units of a period


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="ocmconsole-agent",
        description="Registers a cluster with a hub of Open Cluster Management and keeps it registered.",
    )
    made.add_argument("--bootstrap-kubeconfig", dest="bootstrap", type=Path, action="append", metavar="FILE",
                      help=f"of a hub, given again for others to turn to ({BOOTSTRAP})")  # fmt: skip
    made.add_argument("--spoke-kubeconfig", type=Path, metavar="FILE",
                      help="of the managed cluster; without it this is a pod of that cluster")  # fmt: skip
    where = made.add_mutually_exclusive_group()
    where.add_argument(
        "--hub-kubeconfig-dir", type=Path, metavar="FOLDER", help="keep certificate and hub kubeconfig here"
    )
    where.add_argument("--hub-kubeconfig-secret", default=SECRET, metavar="NAME",
                       help=f"or in this Secret of the managed cluster ({SECRET})")  # fmt: skip
    made.add_argument("--namespace", default=NAMESPACE, help=f"of that Secret ({NAMESPACE})")
    made.add_argument("--cluster-name", type=_name, help="else the one that is kept, else a random one")
    made.add_argument("--agent-name", type=_name, help="else the one that is kept, else a random one")
    made.add_argument("--spoke-external-server-urls", dest="urls", default="", metavar="URL,URL",
                      help="where others reach the managed cluster's API")  # fmt: skip
    made.add_argument("--cluster-annotations", dest="annotations", default="", metavar="KEY=VALUE,…",
                      help="for the new ManagedCluster; keys begin with agent.open-cluster-management.io")  # fmt: skip
    made.add_argument("--client-cert-expiration-seconds", dest="expiration", type=_expiration, default=0, metavar="N",
                      help="ask the hub for certificates of this lifetime; 0 leaves it to the hub")  # fmt: skip
    made.add_argument("--cluster-healthcheck-period", dest="period", type=_duration, default=STATUS_PERIOD,
                      metavar="1m", help="between looks at the managed cluster (1m)")  # fmt: skip
    made.add_argument("--max-custom-cluster-claims", dest="claims", type=int, default=MOST_CUSTOM_CLAIMS, metavar="N",
                      help=f"ClusterClaims reported beside the reserved ones ({MOST_CUSTOM_CLAIMS})")  # fmt: skip
    made.add_argument("--reserved-cluster-claim-suffixes", dest="suffixes", default="", metavar="S,S",
                      help="claims whose names end so count as reserved")  # fmt: skip
    made.add_argument("--hub-connection-timeout-seconds", dest="timeout", type=float, default=HUB_TIMEOUT, metavar="N",
                      help=f"without a heartbeat, after which another hub is tried ({HUB_TIMEOUT:.0f})")  # fmt: skip
    made.add_argument("--verbose", action="store_true", help="log each request")
    return made


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a namespace")
    return text


def _expiration(text: str) -> int:
    if not text.isdecimal() or 0 < int(text) < SHORTEST_CERTIFICATE:
        raise argparse.ArgumentTypeError(f"it must be 0 or at least {SHORTEST_CERTIFICATE}")
    return int(text)


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+)([smh])", text)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 30s or 1m")
    return float(found[1]) * DURATION[found[2]]


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr, force=True
    )
    if not options.verbose:
        logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(_run(options))
    except KubeconfigError as error:
        logging.error("%s", error)  # noqa: LOG015, TRY400 - the text says it, and there is no agent yet
        return 1
    return 0


async def _run(options: argparse.Namespace) -> None:
    """Until SIGTERM or SIGINT, which close all connections. KubeconfigError when the managed cluster is not known."""
    logger = logging.getLogger("ocmconsole.agent")
    spoke = read_kubeconfig(options.spoke_kubeconfig) if options.spoke_kubeconfig else in_cluster()
    clock, chance = AgentClock(), random.Random()  # noqa: S311 - jitter
    api = Api(spoke, clock)
    log = Log(logger)
    agent = RegistrationAgent(
        FilesOfHubs(options.bootstrap or [BOOTSTRAP], logger),
        _files(options, api),
        KubernetesCluster(api, log, chance),
        _agent_options(options, spoke),
        Equipment(OpenSSL(), clock, log, chance),
    )
    task = asyncio.ensure_future(agent.run())
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    finally:
        await api.close()


def _files(options: argparse.Namespace, api: Api) -> HubFiles:
    if options.hub_kubeconfig_dir:
        return FolderOfFiles(options.hub_kubeconfig_dir)
    return SecretOfFiles(api, options.namespace, options.hub_kubeconfig_secret)


def _agent_options(options: argparse.Namespace, spoke: Kubeconfig) -> AgentOptions:
    urls = _listed(options.urls)
    return AgentOptions(
        cluster_name=options.cluster_name or "",
        agent_name=options.agent_name or "",
        external_urls=urls,
        ca_bundle=base64.b64encode(spoke.endpoint.authority.encode()).decode() if urls else "",
        annotations=dict(part.split("=", 1) for part in _listed(options.annotations) if "=" in part),
        certificate_seconds=options.expiration,
        status_period=options.period,
        most_custom_claims=options.claims,
        reserved_claim_suffixes=_listed(options.suffixes),
        hub_timeout=options.timeout,
    )
