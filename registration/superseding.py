"""Which certificate requests give way to another one of the same asker (K11, K7, D13). Pure; the rule's only place.

A request gives way to a newer one for the same name by the same asker: the same credential from the same address while
both wait, the same credential from any address once the newer one is approved. Different askers never give way to each
other, and what is decided stays as it is. ``queries`` and ``assessment`` leave out what gives way, and a reconciler
deletes it, so that inbox, request page and the list of superseded requests agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from registration.keys import key_history
from registration.models import CertificateSigningRequest
from registration.pki import agent_names

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from registration.keys.key_history import Asker

State = CertificateSigningRequest.State
APPROVED = frozenset({State.APPROVED, State.ISSUED})
FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One request of a name. ``speaks_for`` is the cluster when it fits (H35), else its common name."""

    name: str
    state: str
    speaks_for: str
    asker: Asker
    created: datetime

    @property
    def order(self) -> tuple[datetime, datetime]:
        """By the audit: an object's time of creation is a whole second, in which an agent can ask twice."""
        return self.asker.at or self.created, self.created


def candidate(doc: Doc, asker: Asker, *, state: str, created: datetime) -> Candidate:
    metadata, spec = doc["metadata"], doc["spec"]
    request, cluster = key_history.requested(doc), (metadata.get("labels") or {}).get(agent_names.CLUSTER_LABEL, "")
    fits = not agent_names.identity_problems(
        request, cluster=cluster, signer=spec["signerName"], usages=spec.get("usages") or []
    )
    return Candidate(metadata["name"], state, cluster if fits else request.common_name, asker, created)


def giving_way(requests: Sequence[Candidate]) -> dict[str, str]:
    """The name of each request that gives way, and of the one to which it does. All are of one cluster name."""
    newest_first = sorted(requests, key=lambda each: each.order, reverse=True)
    found: dict[str, str] = {}
    for place, new in enumerate(newest_first):
        if new.name in found or (new.state != State.PENDING and new.state not in APPROVED):
            continue
        older = (old for old in newest_first[place + 1 :] if old.state == State.PENDING)
        found |= {old.name: new.name for old in older if old.name not in found and _is_replaced(old, by=new)}
    return found


def _is_replaced(old: Candidate, *, by: Candidate) -> bool:
    if old.speaks_for != by.speaks_for or old.asker.credential != by.asker.credential:
        return False
    return by.state in APPROVED or old.asker.address == by.asker.address


def traced(gave_way: Mapping[str, str], to: str) -> int:
    """How many requests gave way, one after the other, to this one."""
    found, reached = 0, {to}
    while reached:
        reached = {old for old, new in gave_way.items() if new in reached}
        found += len(reached)
    return found
