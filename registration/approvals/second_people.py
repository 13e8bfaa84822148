"""Registration's acts that can take two people: who may approve one, what its evidence is, and how it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.urls import reverse

from ocmconsole.kubeapi import request_cache
from ocmconsole.second_approval import acts
from ocmconsole.second_approval.acts import ActKind
from ocmconsole.second_approval.rules import ActName
from registration.admission import key_overrides
from registration.approvals import repairs, services

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.second_approval.models import ProposedAct

SECOND = "Another person has approved it."  # the reason of an override that was proposed without one


LISTED = "clusters of proposals"  # in the request's memory


def prepare_clusters(names: Iterable[str]) -> None:
    """Of a list of proposals, for ``may_accept``."""
    before = request_cache.cached(LISTED, frozenset[str])
    request_cache.remember(LISTED, before.union(names))


def may_accept(actor: Actor, name: str) -> bool:
    """What an actor may accept of the clusters of a list is asked once."""
    listed = request_cache.cached(LISTED, frozenset[str])
    if name not in listed:
        return services.may_accept(actor, name).allowed
    question = (LISTED, len(listed), actor.user, actor.groups, actor.credential)
    return name in request_cache.cached(question, lambda: services.acceptable(actor, listed))


def _prepare(proposed: Collection[ProposedAct]) -> None:
    prepare_clusters(found.subject for found in proposed)


def _may_accept(actor: Actor, found: ProposedAct) -> bool:
    return may_accept(actor, found.subject)


def _accept(actor: Actor, found: ProposedAct) -> None:
    override = services.Override(found.arguments["key"], found.reason or SECOND)
    services.accept_cluster(actor, found.subject, override=override, clusterset=found.also.get("set", ""))


def _request_url(found: ProposedAct) -> str:
    return reverse("registration:request", args=[found.subject])


def _repair_url(found: ProposedAct) -> str:
    return reverse("registration:repair", args=[found.subject])


acts.register(
    ActKind(
        ActName.KEY_OVERRIDE,
        "Override: accept a key for {subject}",
        may=_may_accept,
        evidence=key_overrides.evidence_of,
        perform=_accept,
        url=_request_url,
        prepare=_prepare,
    )
)
acts.register(
    ActKind(
        ActName.REPAIR,
        "Make a repair manifest for {subject}",
        may=_may_accept,
        evidence=repairs.evidence_of,
        again="One who proposed or approved it then makes the manifest, which is shown once: the page Repair of the "
        "cluster, or the command.",
        url=_repair_url,
        prepare=_prepare,
    )
)
