"""Claims: what a cluster says of itself, read from its document and from what people look for. Pure.

The agent decides which of its ClusterClaims it reports, and cuts them at its own limit (G34); the hub keeps what the
schema lets pass. Called by ``kinds``, which makes rows of them, and by queries and pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

# What OCM itself says of a cluster; an agent reports these first and always (G34).
RESERVED = {
    "id.k8s.io": "Cluster ID",
    "kubeversion.open-cluster-management.io": "Kubernetes version",
    "platform.open-cluster-management.io": "Platform",
    "product.open-cluster-management.io": "Product",
}


def reported(doc: Doc) -> dict[str, str]:
    """Claims by name in the order of the agent. The list may name one twice: the later counts, as upstream (P6)."""
    claims = (doc.get("status") or {}).get("clusterClaims") or ()
    return {claim["name"]: claim.get("value") or "" for claim in claims if claim.get("name")}


def columns(doc: Doc) -> list[dict[str, Any]]:
    """The claims as rows of their own."""
    return [{"name": name, "value": value} for name, value in reported(doc).items()]


class ClaimFilter(NamedTuple):
    """A claim that somebody looks for: of any value when ``value`` is None."""

    name: str
    value: str | None = None

    @classmethod
    def read(cls, text: str) -> ClaimFilter:
        """``NAME`` or ``NAME=VALUE``; only a value may hold a further equals sign."""
        name, equals, value = text.partition("=")
        return cls(name.strip(), value.strip() if equals else None)

    @property
    def is_possible(self) -> bool:
        """No database keeps NUL, so no cluster says it, and some refuse to be asked."""
        return bool(self.name) and "\0" not in self.name + (self.value or "")

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"
