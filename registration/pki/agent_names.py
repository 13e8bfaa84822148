"""Names of agents: what a certificate request must say to speak for a cluster (G3, H35). Pure functions.

Invariant: identity is matched exactly. A name is never cut, folded, trimmed or searched for in another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ocmconsole.kubeapi.schema import names

if TYPE_CHECKING:
    from registration.pki.ca import Certificate, Request

SIGNER = "kubernetes.io/kube-apiserver-client"
CLUSTER_LABEL = "open-cluster-management.io/cluster-name"
ADDON_LABEL = "open-cluster-management.io/addon-name"
USER_PREFIX = "system:open-cluster-management:"
# A group of the same power, for other authenticators.
PLAIN_PREFIX = "open-cluster-management:"
MANAGED_CLUSTERS = "system:open-cluster-management:managed-clusters"
AGENT_USAGES = frozenset({"digital signature", "key encipherment", "client auth"})


def group_of(cluster: str) -> str:
    """The organization, hence group, of a cluster's agents."""
    return f"{USER_PREFIX}{cluster}"


@dataclass(frozen=True, slots=True)
class AgentName:
    """``system:open-cluster-management:<cluster>:<agent>``."""

    cluster: str
    agent: str


def agent_name(common_name: str) -> AgentName | None:
    """Exactly two non-empty parts after the prefix, else None (H35)."""
    if not common_name.startswith(USER_PREFIX):
        return None
    parts = common_name.removeprefix(USER_PREFIX).split(":")
    if len(parts) != 2 or not all(parts):  # noqa: PLR2004 - cluster and agent
        return None
    return AgentName(*parts)


def clusters_named(request: Request | Certificate) -> tuple[str, ...]:
    """Every cluster for which a certificate with this subject would speak: as its agent, or as a member of its groups.

    Wider than H35: whatever else a request asks for, a person may approve it.
    """
    agent = agent_name(request.common_name)
    groups = (
        organization.removeprefix(prefix)
        for prefix in (USER_PREFIX, PLAIN_PREFIX)
        for organization in request.organizations
        if organization.startswith(prefix)
    )
    found = {*groups, *([agent.cluster] if agent else [])} - {MANAGED_CLUSTERS.removeprefix(USER_PREFIX)}
    return tuple(sorted(name for name in found if not any(names.label_flaws(name))))


def identity_problems(request: Request, *, cluster: str, signer: str, usages: list[str]) -> list[str]:
    """Why a request does not speak for a cluster's agent, in words; empty when everything holds (H35, K12)."""
    return [*_name_problems(request, cluster), *_request_problems(request, signer, usages)]


def _name_problems(request: Request, cluster: str) -> list[str]:
    found = []
    name = agent_name(request.common_name)
    if name is None:
        found.append(f"the common name “{request.common_name}” is not that of a cluster's agent")
    elif name.cluster != cluster:
        found.append(f"the common name speaks for “{name.cluster}”, the label for “{cluster}”")
    if sorted(set(request.organizations) - {MANAGED_CLUSTERS}) != [group_of(cluster)]:
        found.append(
            f"the organizations are {', '.join(request.organizations) or 'none'}, not exactly {group_of(cluster)}"
        )
    if len(set(request.organizations)) != len(request.organizations):
        found.append("an organization is repeated")
    return found


def _request_problems(request: Request, signer: str, usages: list[str]) -> list[str]:
    found = []
    if signer != SIGNER:
        found.append(f"the signer is {signer}, not {SIGNER}")
    if request.organizational_units:
        found.append(f"it asks for organizational units {', '.join(request.organizational_units)}")
    if request.has_other_attributes:
        found.append("the subject holds more than a common name and organizations")
    if request.alternative_names:
        found.append(f"it asks for alternative names {', '.join(request.alternative_names)}")
    if extra := sorted(set(usages) - AGENT_USAGES):
        found.append(f"it asks for the usages {', '.join(extra)}")
    if "client auth" not in usages:
        found.append("it does not ask for the usage client auth")
    if not request.key_is_strong:
        found.append(request.size_flaw or f"a key of type {request.key_text} is not signed")
    if not request.size_flaw and not request.signature_valid:
        found.append("it is not signed by the key it carries")
    return found
