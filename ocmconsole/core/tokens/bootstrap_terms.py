"""What a bootstrap token may do and who may see it: its name, its networks, the clusters it may still bring (K4).

Invariant: a token brings no more cluster names than it was minted for; one that it has brought may go on joining. How a
token is read, minted and revoked is ``tokens``'. Callers: ``tokens``, rules and pages of registration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from django.conf import settings

from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse, TokenPermission
from ocmconsole.kubeapi import clock, errors, request_cache
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.schema.names import key_flaws, subdomain_flaws, value_flaws
from ocmconsole.kubeapi.schema.values import quoted
from ocmconsole.kubeapi.storage import plain_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocmconsole.core.models import BootstrapTokenQuerySet
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Cause

PREFIX = "bootstrap:"
LONGEST_LIFE = timedelta(days=365)  # a bootstrap token is short-lived
LONGEST_REPAIR = timedelta(days=1)  # a repair token needs no person's look at the key that it brings
LONGEST_NAME = 120  # characters
MOST_USES = 10_000  # clusters
TOKEN_OBJECTS = "OCMCONSOLE_LIMIT_TOKEN_OBJECTS"  # noqa: S105 - the name of a setting
MOST_NETWORKS = 32  # of one token: each is compared at each use
# The group is the hub's own: tokens are no resource of the API.
GROUP, PLURAL = "ocmconsole.io", "bootstraptokens"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a token is minted for. No ``addresses`` is everywhere, ``max_uses`` None any number up to the limit.

    A repair token has a ``key_line`` and the ``rotation`` in which it was minted (D29).
    """

    ttl: timedelta
    name: str = ""
    cluster: str = ""
    max_uses: int | None = None
    addresses: tuple[str, ...] = ()
    clusterset: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    key_line: int | None = None
    rotation: str = ""

    def check(self) -> None:
        """Raises Invalid with every flaw."""
        if causes := list(self._flaws()):
            raise errors.is_invalid("", "BootstrapToken", self.name, causes)

    def _flaws(self) -> Iterator[Cause]:
        if len(self.name) > LONGEST_NAME or not self.name.isprintable():
            yield errors.invalid_field(
                "name", quoted(self.name), f"must be at most {LONGEST_NAME} printable characters"
            )
        longest = LONGEST_LIFE if self.key_line is None else LONGEST_REPAIR
        if not timedelta() < self.ttl <= longest:
            text = f"must be positive and at most {longest.days} day{'' if longest.days == 1 else 's'}"
            yield errors.invalid_field("ttl", quoted(str(self.ttl)), text)
        for path, name in (("cluster", self.cluster), ("clusterset", self.clusterset)):
            yield from (
                errors.invalid_field(path, quoted(name), flaw) for flaw in (subdomain_flaws(name) if name else ())
            )
        if self.max_uses is not None and not 0 < self.max_uses <= MOST_USES:
            yield errors.invalid_field("max_uses", str(self.max_uses), f"must be between 1 and {MOST_USES}")
        yield from (errors.invalid_field("addresses", quoted(text), "must be a network such as 10.3.0.0/16")
                    for text in self.addresses if not is_network(text))  # fmt: skip
        if len(self.addresses) > MOST_NETWORKS:
            yield errors.invalid_field(
                "addresses", f"{len(self.addresses)} networks", f"must be at most {MOST_NETWORKS}"
            )
        for key, value in self.labels.items():
            flaws = (*key_flaws(key), *value_flaws(value))
            yield from (errors.invalid_field("labels", quoted(f"{key}={value}"), flaw) for flaw in flaws)

    def columns(self) -> dict[str, Any]:
        """As they are stored, and as the audit shows them."""
        return {
            "name": self.name,
            "cluster": self.cluster,
            "max_uses": self.max_uses,
            "addresses": list(self.addresses),
            "clusterset": self.clusterset,
            "labels": dict(self.labels),
            "key_line": self.key_line,
            "rotation": self.rotation,
        }


# ---------------------------------------------------------------- networks


def is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def is_within(address: str, networks: Iterable[str]) -> bool:
    """An address that nobody knows is within none."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in ip_network(network) for network in networks)


# ---------------------------------------------------------------- uses


def token_of(actor: Actor) -> BootstrapToken | None:
    """The token that the actor showed; None for one of a Secret, and for every other credential."""
    if not actor.credential.startswith(PREFIX):
        return None
    token = actor.credential.removeprefix(PREFIX)
    return request_cache.cached(("token", token), lambda: plain_sql.row_by(BootstrapToken.objects, id=token))


def token_refusal(token: BootstrapToken | None, names: Iterable[str]) -> str:
    """Why the token opens nothing for these clusters, or ""."""
    if token is None or not (uses := most_uses(token)):
        return ""
    if token.is_repair:
        is_spent = plain_sql.is_there(BootstrapTokenUse, token_id=token.pk)
        return f"the repair token {token.pk} has been used: it works once" if is_spent else ""
    wanted = set(names)
    new = wanted - brought_among(token, wanted)
    if wanted and not new:  # it is joining
        return ""
    brought = plain_sql.count(BootstrapTokenUse, token_id=token.pk)
    if brought + max(len(new), 1) <= uses:
        return ""
    most = f"{uses} cluster{'' if uses == 1 else 's'}"
    if token.max_uses is None:
        return f"the bootstrap token {token.pk} has brought {brought} clusters, and {TOKEN_OBJECTS} is {uses}"
    return f"the bootstrap token {token.pk} was minted for {most} and has brought {brought}"


def brought_among(token: BootstrapToken, names: Collection[str]) -> set[str]:
    """Those of the clusters that have come with the token."""
    return {
        name for name in names if request_cache.cached(("brought", token.pk, name), partial(_has_brought, token, name))
    }


def _has_brought(token: BootstrapToken, cluster: str) -> bool:
    return plain_sql.is_there(BootstrapTokenUse, token_id=token.pk, cluster=cluster)


def most_uses(token: BootstrapToken) -> int:
    """How many clusters may come with it; one that was minted for any number is bounded too (D23). 0 is no bound."""
    return int(token.max_uses or settings.OCMCONSOLE_LIMIT_TOKEN_OBJECTS)


def new_uses(token: BootstrapToken | None, names: Iterable[str]) -> list[BootstrapTokenUse]:
    """Rows for the names that the token has not brought yet."""
    if token is None:
        return []
    wanted, now = set(names), clock.now()
    new = sorted(wanted - brought_among(token, wanted))
    url = settings.OCMCONSOLE_API_URL[:300]
    return [BootstrapTokenUse(token=token, cluster=name, since=now, hub_url=url) for name in new]


# ---------------------------------------------------------------- sight


def tokens_for(actor: Actor) -> BootstrapTokenQuerySet:
    """The actor's own tokens, or all for users who may see all; newest first, with their uses."""
    rows: BootstrapTokenQuerySet = BootstrapToken.objects.counted().order_by("-created", "pk")
    return rows if sees_all(actor) else rows.filter(created_by=actor.user)


def sees_all(actor: Actor) -> bool:
    return authorization.permitted(actor, TokenPermission.VIEW).allowed


def may_revoke(actor: Actor, token: BootstrapToken) -> bool:
    return token.created_by == actor.user or may_revoke_all(actor)


def may_revoke_all(actor: Actor) -> bool:
    return authorization.permitted(actor, TokenPermission.DELETE).allowed


authorization.spell(TokenPermission.VIEW, lambda name: [Attributes("list", GROUP, PLURAL)])  # noqa: ARG005 - a right on all tokens
authorization.spell(TokenPermission.DELETE, lambda name: [Attributes("delete", GROUP, PLURAL, name=name)])
