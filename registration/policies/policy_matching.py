"""What an approval policy fits, and which policies make sense. Pure: rows and facts in, reasons out (K9).

Invariant: all requesters of the name fit, not only the last one; what the agent chose itself gives no set.
Callers: ``policy_reconcilers``, which acts, ``policy_services``, which keeps policies, and their pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from clustersets.kinds import DEFAULT_SET, GLOBAL_SET
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.schema.names import label_flaws, subdomain_flaws
from ocmconsole.kubeapi.schema.values import quoted

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Cause
    from registration.models import ApprovalPolicy

LONGEST_END = timedelta(days=365)  # a policy is renewed at least once a year
LONGEST_REASON = 500  # characters
MOST_ACCEPTS = 10_000  # clusters
MOST_TOKENS = 32  # tokens of one policy
PATTERN = re.compile(r"[a-z0-9.*?-]{1,253}")
# Every cluster may be a member of these without anybody's doing.
OPEN_SETS = frozenset({DEFAULT_SET, GLOBAL_SET})


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """What a person wants of a policy; ``expires`` has no default, so that none is forgotten."""

    name: str
    expires: datetime
    reason: str
    tokens: Sequence[str] = ()
    pattern: str = ""
    addresses: Sequence[str] = ()
    clusterset: str = ""
    max_accepts: int | None = None

    def check(self, now: datetime) -> None:
        """Raises Invalid with every flaw."""
        if causes := list(self._flaws(now)):
            raise errors.is_invalid("", "ApprovalPolicy", self.name, causes)

    def _flaws(self, now: datetime) -> Iterator[Cause]:
        yield from (errors.invalid_field("name", quoted(self.name), flaw) for flaw in label_flaws(self.name))
        if not now < self.expires <= now + LONGEST_END:
            text = f"must be in the future, and at most {LONGEST_END.days} days from now"
            yield errors.invalid_field("expires", quoted(self.expires.isoformat()), text)
        if not self.reason.strip() or len(self.reason) > LONGEST_REASON:
            yield errors.invalid_field(
                "reason", quoted(self.reason[:40]), f"must say why, in at most {LONGEST_REASON} characters"
            )
        if self.pattern and not PATTERN.fullmatch(self.pattern):
            text = "must be a name in which * stands for anything and ? for one character"
            yield errors.invalid_field("pattern", quoted(self.pattern), text)
        if not (self.tokens or self.addresses or self.pattern.strip("*?")):
            yield errors.invalid_field("pattern", quoted(self.pattern), "must narrow it, or tokens or addresses must")
        if len(self.tokens) > MOST_TOKENS:
            yield errors.invalid_field("tokens", f"{len(self.tokens)} tokens", f"must be at most {MOST_TOKENS}")
        yield from (errors.invalid_field("addresses", quoted(text), "must be a network such as 10.3.0.0/16")
                    for text in self.addresses if not bootstrap_terms.is_network(text))  # fmt: skip
        if len(self.addresses) > bootstrap_terms.MOST_NETWORKS:
            text = f"must be at most {bootstrap_terms.MOST_NETWORKS}"
            yield errors.invalid_field("addresses", f"{len(self.addresses)} networks", text)
        if self.clusterset:
            yield from (errors.invalid_field("clusterset", quoted(self.clusterset), flaw)
                        for flaw in subdomain_flaws(self.clusterset))  # fmt: skip
        if self.max_accepts is not None and not 0 < self.max_accepts <= MOST_ACCEPTS:
            yield errors.invalid_field("max_accepts", str(self.max_accepts), f"must be between 1 and {MOST_ACCEPTS}")

    def columns(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "pattern": self.pattern,
            "addresses": list(self.addresses),
            "clusterset": self.clusterset,
            "max_accepts": self.max_accepts,
            "expires": self.expires,
            "reason": self.reason.strip(),
        }

    @property
    def is_exact(self) -> bool:
        """A policy for one cluster with one token: no more than what the user may accept without a policy."""
        return self.max_accepts == 1 and len(self.tokens) == 1 and is_one_name(self.pattern)


def is_one_name(pattern: str) -> bool:
    return not any(True for _ in subdomain_flaws(pattern))


# ---------------------------------------------------------------- does it fit?


@dataclass(frozen=True, slots=True)
class Arrival:
    """A name that asks to join: credentials and addresses of all who made its cluster and its requests.

    ``sets`` are those that the agent's own labels make it a member of.
    """

    name: str
    credentials: frozenset[str]
    addresses: frozenset[str]
    sets: frozenset[str] = field(default_factory=frozenset)


def misfit(policy: ApprovalPolicy, arrival: Arrival) -> str:
    """Why a policy leaves an arrival to a person, or ""."""
    if policy.pattern and not fnmatchcase(arrival.name, policy.pattern):
        return f"its name is not {policy.pattern}"
    strange = _strange_credential(policy, arrival)
    if strange:
        return strange
    if policy.addresses and not (
        arrival.addresses and all(bootstrap_terms.is_within(each, policy.addresses) for each in arrival.addresses)
    ):
        return f"it came from {', '.join(sorted(arrival.addresses)) or 'an unknown address'}"
    chosen = arrival.sets - OPEN_SETS - {policy.clusterset}
    return f"its own labels make it a member of {', '.join(sorted(chosen))}" if chosen else ""


def _strange_credential(policy: ApprovalPolicy, arrival: Arrival) -> str:
    if not policy.tokens:
        return ""
    wanted = {f"{bootstrap_terms.PREFIX}{token}" for token in policy.tokens}
    return "" if arrival.credentials and arrival.credentials <= wanted else "it came with another credential"
