"""What accepting a request would do, in order, computed from what is there now.

Reads only and decides nothing: a rule may still refuse. Nothing is listed that is not known. Called by the page of a
request and by the preview of a bulk decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings

from clusters.acceptance import agent_roles
from clusters.kinds import CLUSTERSET_LABEL
from clustersets import queries as sets
from clustersets.rights import reach, set_rights
from ocmconsole.kubeapi import clock
from registration.evidence.assessment import lifetime_text
from registration.pki import ca
from registration.signing import lifetime

if TYPE_CHECKING:
    from clusters.models import ManagedCluster
    from ocmconsole.kubeapi.access.actor import Actor
    from registration.evidence.evidence_items import Asked, Evidence

TEAMS_NAMED = 3  # in a sentence


@dataclass(frozen=True, slots=True)
class Effect:
    """``reaches`` marks what concerns other people or their work, ``joins`` the step at which another set is chosen."""

    title: str
    text: str = ""
    reaches: bool = False
    joins: bool = False


@dataclass(frozen=True, slots=True)
class SetChoice:
    """The set that a cluster joins when it is accepted, and those that the person may put it into instead."""

    joined: str
    present: str
    others: tuple[str, ...]
    denied: str = ""

    @property
    def is_move(self) -> bool:
        return self.joined != self.present


def set_choice(actor: Actor, cluster: ManagedCluster | None, wanted: str = "") -> SetChoice:
    """A6: to change the set takes the right to label the cluster, and to join both sets."""
    if cluster is None:
        return SetChoice("", "", ())
    present = cluster.clusterset
    if cluster.name not in set_rights.movable(actor, [cluster]):
        return SetChoice(present, present, (), "You may not change the labels of this cluster.")
    exclusive = [each.name for each in set_rights.to_join(actor) if each.is_exclusive]
    joinable = set_rights.joinable(actor, [*exclusive, *([present] if present else [])])
    if present and present not in joinable:
        return SetChoice(present, present, (), f"You may not take clusters out of the set {present}.")
    others = tuple(name for name in exclusive if name in joinable)
    return SetChoice(wanted if wanted in others else present, present, others)


def accept_effects(actor: Actor, found: Evidence, chosen: SetChoice, asked: Asked | None = None) -> list[Effect]:
    """``asked`` is the request that would be signed; without it, the newest."""
    signed = asked or next(iter(found.waiting), None)
    return [
        *([_signing(signed, len(found.waiting) - 1)] if signed else []),
        *([] if found.is_accepted else _acceptance(found)),
        *(_sets(actor, found, chosen) if chosen.is_move or not found.is_accepted else []),
    ]


def _signing(asked: Asked, others: int) -> Effect:
    text = certificate_sentence(asked, authority_ends())
    if others:
        text += f" {others} other request{'s stay' if others > 1 else ' stays'} undecided."
    does = "Signs" if settings.OCMCONSOLE_CSR_SIGNER == "internal" else "Approves"
    return Effect(f"{does} request {asked.name}", text)


def authority_ends() -> datetime | None:
    """When the hub's CA ends; None when it cannot be read."""
    try:
        return ca.client_authority(settings.OCMCONSOLE_HOME).certificate.not_valid_after_utc
    except ca.AuthorityError:
        return None


def certificate_sentence(asked: Asked, ca_ends: datetime | None) -> str:
    """What the request would get now, in sentences. ``ca_ends`` is ``authority_ends()``."""
    if settings.OCMCONSOLE_CSR_SIGNER != "internal":
        return "Another signer than the hub issues the certificate."
    if ca_ends is None:
        return "The hub's CA cannot be read; nothing can be signed until it is mended."
    signed, wanted = lifetime(asked.doc), asked.doc["spec"].get("expirationSeconds")
    ends = min(clock.now() + signed, ca_ends)
    shorter = ""
    if wanted and wanted > signed.total_seconds():
        shorter = f" It asked for {lifetime_text(wanted)}; the hub gives no longer ones."
    end = f"{ends:%d %b %Y}".lstrip("0")
    return f"Client certificate for {lifetime_text(signed.total_seconds())}, to {end}.{shorter}"


def _acceptance(found: Evidence) -> list[Effect]:
    """What only a cluster that is not let in yet still lacks."""
    accepts = Effect("Sets hubAcceptsClient to true", "The agent may renew its lease and report its status.")
    return [accepts, _namespace(found.name, exists=found.has_namespace)]


def _namespace(name: str, *, exists: bool) -> Effect:
    """H4: the namespace that acceptance creates or uses, with a ClusterRole and bindings."""
    bindings = (
        agent_roles.cluster_role_binding(name, {}),
        agent_roles.registration_binding(name, {}),
        agent_roles.work_binding(name, {}),
    )
    text = f"With a cluster role and {len(bindings)} bindings for its agents."
    if exists:
        return Effect(f"Uses namespace {name}, which exists", text)
    return Effect(f"Creates namespace {name}", text)


def _sets(actor: Actor, found: Evidence, chosen: SetChoice) -> list[Effect]:
    """D16: users who see a set see its members; only sets that the actor sees are listed."""
    if found.cluster is None:
        return []
    labels = dict(found.cluster.labels)
    if chosen.joined:
        labels[CLUSTERSET_LABEL] = chosen.joined
    joined = [each.name for each in sets.memberships_for(actor) if each.includes(labels)]
    others = [name for name in joined if name != chosen.joined]
    also = f"Its labels also make it a member of {_listed(others)}." if others else ""
    title = f"{'Moves to' if chosen.is_move else 'Joins'} set {chosen.joined}" if chosen.joined else "Joins no set"
    return [Effect(title, also, joins=True), *_sight(joined)]


def _sight(joined: list[str]) -> list[Effect]:
    people, teams = reach.viewers(joined)
    if not people and not teams:
        return []
    counted = [_counted(len(teams), "team")] if teams else []
    counted += [_counted(len(people), "person", "people")]
    named = teams[:TEAMS_NAMED] or list(people[:TEAMS_NAMED])
    rest = (len(teams) or len(people)) - len(named)
    text = f"{_listed(named)}{f' and {rest} more' if rest else ''}."
    return [Effect(f"{', '.join(counted)} can see it through its sets", text, reaches=True)]


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return " and ".join(filter(None, [", ".join(found[:-1]), *found[-1:]]))
