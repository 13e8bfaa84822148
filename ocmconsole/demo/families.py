"""The fleet of a retailer as data: which families of clusters there are, and how their members are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

CITIES = ("lyon", "porto", "ghent", "turin", "bergen", "malmo", "graz", "brno", "cork", "leeds")
VERSIONS = {"v1.34.2": 46, "v1.34.1": 20, "v1.33.5": 18, "v1.33.8": 9, "v1.32.9": 5, "v1.31.4": 2}


@dataclass(frozen=True)
class Family:
    """Clusters of one purpose: their set, the token that they join with, and where they run. ``share`` is of 100."""

    prefix: str
    clusterset: str
    token: str
    share: int
    network: str
    platform: str
    product: str
    labels: Mapping[str, str] = field(default_factory=dict)
    cores: int = 96


FAMILIES = (
    Family("store-fr", "stores-fr", "stores", 30, "203.0.113", "BareMetal", "k3s", {"env": "prod", "country": "fr"}, 8),
    Family(
        "store-de", "stores-de", "stores", 22, "198.51.100", "BareMetal", "k3s", {"env": "prod", "country": "de"}, 8
    ),
    Family("eu-web", "web", "web-eu", 16, "192.0.2", "AWS", "EKS", {"env": "prod", "region": "eu-west-1"}),
    Family("us-web", "web", "web-us", 10, "192.0.2", "GCP", "GKE", {"env": "prod", "region": "us-east1"}),
    Family("edge", "edge", "edge", 10, "198.51.100", "BareMetal", "MicroK8s", {"env": "prod", "tier": "edge"}, 4),
    Family("ml-batch", "platform", "platform", 4, "192.0.2", "OpenStack", "Kubernetes", {"env": "prod", "gpu": "true"}),
    Family("erp", "platform", "platform", 3, "192.0.2", "VMware", "OpenShift", {"env": "prod", "region": "eu-central"}),
    Family("stage", "platform", "platform", 3, "192.0.2", "VMware", "Kubernetes", {"env": "stage"}, 32),
    Family("lab", "lab", "lab", 2, "203.0.113", "Other", "kind", {"env": "test"}, 4),
)
SETS = tuple(dict.fromkeys(family.clusterset for family in FAMILIES))
TOKENS = tuple(dict.fromkeys(family.token for family in FAMILIES))
BY_PREFIX = {family.prefix: family for family in FAMILIES}


@dataclass
class Names:
    """Running numbers of each family; those of the edge carry a city."""

    random: Random
    last: dict[str, int] = field(default_factory=dict)

    def next(self, family: Family) -> str:
        number = self.last[family.prefix] = self.last.get(family.prefix, 0) + 1
        if family.prefix == "edge":
            return f"edge-{CITIES[number % len(CITIES)]}-{number // len(CITIES) + 1:02}"
        digits = 4 if family.prefix.startswith("store") else 2
        start = 400 if family.prefix == "store-fr" else 0
        return f"{family.prefix}-{start + number:0{digits}}"

    def family(self) -> Family:
        return self.random.choices(FAMILIES, [family.share for family in FAMILIES])[0]

    def version(self) -> str:
        return self.random.choices([*VERSIONS], [*VERSIONS.values()])[0]

    def address(self, family: Family) -> str:
        return f"{family.network}.{self.random.randrange(2, 250)}"
