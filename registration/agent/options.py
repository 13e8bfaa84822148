"""What an agent is asked to do: names, periods and bounds. Data, made by ``command`` or by a program that runs many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STATUS_PERIOD = 60.0  # seconds between looks at the managed cluster, upstream's --cluster-healthcheck-period
MOST_CUSTOM_CLAIMS = 20  # upstream's --max-custom-cluster-claims
HUB_TIMEOUT = 600.0  # seconds without a heartbeat after which another hub is tried, upstream's default


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """``cluster_name`` and ``agent_name`` may be empty: then they are kept ones or random ones."""

    cluster_name: str = ""
    agent_name: str = ""
    external_urls: tuple[str, ...] = ()
    ca_bundle: str = ""  # base64 of PEM, for external_urls
    annotations: Mapping[str, str] = field(default_factory=dict)
    certificate_seconds: int = 0  # asked of the hub; 0 leaves it to the hub
    status_period: float = STATUS_PERIOD
    most_custom_claims: int = MOST_CUSTOM_CLAIMS
    reserved_claim_suffixes: tuple[str, ...] = ()
    hub_timeout: float = HUB_TIMEOUT
