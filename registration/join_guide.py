"""What a cluster needs to join, as kubeconfig, manifest and clusteradm, and how far it has come.

Everything is made of what the user just entered and a secret that only this page holds: nothing here is stored.
Callers: the wizard and the page of tokens.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from shlex import quote
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import yaml
from django.conf import settings
from django.urls import reverse

from clusters.kinds import LEASE_NAME, parse_instant
from clusters.models import Lease, ManagedCluster
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi.models import AuditEvent
from registration import hub_setup, queries
from registration.models import HubAddress, IssuedCertificate
from registration.pki import kubeconfigs

if TYPE_CHECKING:
    from ocmconsole.core.models import BootstrapToken
    from ocmconsole.kubeapi.errors import Doc

AGENT_NAMESPACE = "open-cluster-management-agent"
BOOTSTRAP_SECRET = "bootstrap-hub-kubeconfig"  # noqa: S105 - the Secret's name
# An agent asks within seconds; a step that takes longer has a cause.
PATIENCE = timedelta(minutes=2)
TITLES = (
    "Token used",
    "ManagedCluster seen",
    "Certificate request seen",
    "Accepted",
    "Certificate issued",
    "First heartbeat",
)
ACCEPTING = 3  # the step before which the agent acts with the token, and which a person takes


@dataclass(frozen=True, slots=True)
class Reach:
    """How the cluster gets to the hub. ``authority`` is PEM that stands for the hub's own CA."""

    server: str
    proxy: str = ""
    authority: str = ""


# ---------------------------------------------------------------- the hub's address


def named_hosts() -> list[str]:
    """Names and addresses in the hub's serving certificate."""
    return hub_setup.serving_names()


def addresses() -> list[str]:
    """Where the hub may be reached; first the one to use unless the user chooses another.

    That is the configured URL, or, where it leads to the hub from its own machine only, the one that was added last.
    """
    configured = settings.OCMCONSOLE_API_URL
    parts = urlsplit(configured)
    port = f":{parts.port}" if parts.port else ""
    others = [
        f"https://{f'[{host}]' if ':' in host else host}{port}" for host in named_hosts() if not _is_loopback(host)
    ]
    added = list(HubAddress.objects.order_by("-added_at").values_list("url", flat=True))
    first = [*added, configured] if _is_loopback(parts.hostname or "") else [configured, *added]
    return list(dict.fromkeys([*first, *others]))


def is_named(url: str) -> bool:
    """Whether the hub's certificate names the URL's host."""
    return (urlsplit(url).hostname or "") in named_hosts()


def address_problems(url: str) -> list[str]:
    """Why an agent on another machine would not get on with this address, as far as the hub can know."""
    host = urlsplit(url).hostname or ""
    listening, port = settings.OCMCONSOLE_API_ADDRESS
    found = []
    if not is_named(url):
        names = ", ".join(named_hosts())
        found.append(f"The hub's certificate does not name {host}, so an agent would refuse it. It names {names}.")
    if _is_loopback(host):
        found.append(f"{host} leads to the hub only from the hub's own machine: no other machine reaches it.")
    if _is_loopback(listening) and not settings.OCMCONSOLE_TRUSTED_PROXIES.networks:
        found.append(
            f"The hub listens on {listening} only, so other machines reach it only through something that forwards to "
            f"it. To listen on all addresses, set OCMCONSOLE_API_ADDRESS=0.0.0.0:{port} and start the hub again."
        )
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# ---------------------------------------------------------------- what to run


def bootstrap_kubeconfig(token: str, reach: Reach) -> str:
    return kubeconfigs.of_agent(token, reach.server, authority=reach.authority.encode(), proxy=reach.proxy)


def manifest(token: str, name: str, reach: Reach) -> str:
    """For ``kubectl apply`` on a cluster that has the klusterlet operator."""
    docs: list[Doc] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": AGENT_NAMESPACE}},
        _secret(token, reach),
        {
            "apiVersion": "operator.open-cluster-management.io/v1",
            "kind": "Klusterlet",
            "metadata": {"name": "klusterlet"},
            "spec": {"clusterName": name, "namespace": AGENT_NAMESPACE},
        },
    ]
    return yaml.safe_dump_all(docs, sort_keys=False)


def bootstrap_secret(token: str, reach: Reach) -> str:
    """For ``kubectl apply`` on a cluster that has an agent: it starts again by itself when this Secret changes."""
    return yaml.safe_dump(_secret(token, reach), sort_keys=False)


def _secret(token: str, reach: Reach) -> Doc:
    kubeconfig = base64.b64encode(bootstrap_kubeconfig(token, reach).encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": BOOTSTRAP_SECRET, "namespace": AGENT_NAMESPACE},
        "type": "Opaque",
        "data": {"kubeconfig": kubeconfig},
    }


def join_command(token: str, name: str, reach: Reach) -> str:
    flags = [f"--hub-token {token}", f"--hub-apiserver {quote(reach.server)}"]
    flags += [f"--cluster-name {quote(name) if name else '<cluster_name>'}"]
    flags += ["--ca-file hub-ca.pem"] if reach.authority else []
    flags += [f"--proxy-url {quote(reach.proxy)}"] if reach.proxy else []
    return " ".join(["clusteradm join", *flags])


def flags(reach: Reach) -> Iterator[tuple[str, str]]:
    """Each flag of the command in words."""
    yield "--hub-token", "Lets this cluster request to join until it expires. It is shown on this page and never again."
    yield "--hub-apiserver", "Where the agent finds the hub. The hub's certificate must name it."
    yield "--cluster-name", "The name under which the hub knows the cluster, and of its namespace on the hub."
    if reach.authority:
        yield "--ca-file", "Whom the agent trusts instead of the hub's own CA. Save the text you entered as hub-ca.pem."
    if reach.proxy:
        yield "--proxy-url", "An HTTP proxy on the way to the hub. It must pass TLS through unopened."


def watch_url(token_id: str, name: str, server: str = "") -> str:
    """The wizard's last step; ``server`` is the address that the agent was given, empty for the hub's first."""
    place = {"name": name} | ({"server": server} if server and server != addresses()[0] else {})
    return f"{reverse('registration:add-watch', args=[token_id])}?{urlencode(place)}"


def probe(reach: Reach) -> str:
    """What to run on the cluster, beside the hub's ``ca.crt``, to see whether DNS and TLS work."""
    proxy = f" --proxy {quote(reach.proxy)}" if reach.proxy else ""
    return f"curl{proxy} --cacert ca.crt {quote(reach.server.rstrip('/') + '/healthz')}"


# ---------------------------------------------------------------- how far it has come


@dataclass(frozen=True, slots=True)
class JoinStep:
    """One of six. ``at`` is when it was done; ``cause`` why it may hang."""

    title: str
    at: datetime | None
    cause: str = ""
    is_next: bool = False

    @property
    def is_done(self) -> bool:
        return self.at is not None


def steps(token: BootstrapToken, name: str, now: datetime) -> list[JoinStep]:
    """From the token's first use to the first heartbeat; the first that is open says what is likely in its way."""
    done = _progress(token, name)
    following = next((index for index, at in enumerate(done) if at is None), len(done))
    since = max([token.created, *(at for at in done[:following] if at)])
    is_late = following == ACCEPTING or now - since > PATIENCE
    return [
        JoinStep(title, at, _cause(index, token, name) if index == following and is_late else "", index == following)
        for index, (title, at) in enumerate(zip(TITLES, done, strict=True))
    ]


def _progress(token: BootstrapToken, name: str) -> list[datetime | None]:
    """What was collected since has the time of what followed from it."""
    cluster = ManagedCluster.objects.filter(name=name, deleted_at=None).first()
    if cluster is None:
        return [token.last_used, None, None, None, None, None]
    # Objects know whole seconds only: one that was made in the second of the token came after it.
    request = queries.requests_of(name).filter(created__gte=token.created.replace(microsecond=0)).last()
    accepted = queries.facts_of(name).decided_at if cluster.hub_accepts_client else None
    issued = IssuedCertificate.objects.filter(cluster=name, not_after__gt=token.created).order_by("not_before").first()
    certified = max(issued.not_before, cluster.created) if issued and accepted else None
    asked = request.created if request else certified
    return [
        token.last_used or cluster.created,
        cluster.created,
        asked,
        accepted,
        certified,
        _first_heartbeat(cluster) if certified else None,
    ]


def _first_heartbeat(cluster: ManagedCluster) -> datetime | None:
    """The lease keeps the last one; since when the agent counts as joined is as near as the hub knows."""
    lease = Lease.objects.filter(namespace=cluster.name, name=LEASE_NAME).exclude(skew=None).first()
    if lease is None or lease.renew_time is None or parse_instant(lease.renew_time) < cluster.created:
        return None
    return cluster.available_since or parse_instant(lease.renew_time)


def _cause(index: int, token: BootstrapToken, name: str) -> str:
    denial = (
        AuditEvent.objects.filter(credential=f"{bootstrap_terms.PREFIX}{token.pk}", outcome=AuditEvent.Outcome.DENIED)
        .order_by("-time")
        .first()
    ) or _refused_address(token)
    if denial is not None and index < ACCEPTING:
        return f"The token was used from {denial.address or 'an unknown address'} and refused: {denial.reason}"
    return (
        "No request with this token has reached the hub. Check DNS and TLS from the cluster as below.",
        f"The token was used, and nothing called {name} was registered. Was another name given to the agent?",
        "The cluster is registered; its agent has not asked for a certificate. Its log says what keeps it.",
        "It waits for somebody who may accept it.",
        "It is accepted and its certificate is not issued. The hub's work queue or an external signer is behind.",
        "The certificate is issued; the agent has not come back with it. Its log says what keeps it.",
    )[index]


def _refused_address(token: BootstrapToken) -> AuditEvent | None:
    return AuditEvent.objects.filter(act="bootstraptokens:use", name=token.pk).order_by("-time").first()
