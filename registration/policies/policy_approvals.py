"""Approval policies as acts that can take two people: who may approve one, and how it is carried out.

A policy acts as the person who changed or enabled it last, so the one who proposed it carries it out.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.urls import reverse

from ocmconsole.second_approval import acts
from ocmconsole.second_approval.acts import ActKind
from ocmconsole.second_approval.rules import ActName
from registration.approvals import second_people
from registration.models import ApprovalPolicy
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput

if TYPE_CHECKING:
    from collections.abc import Collection

    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.second_approval.models import ProposedAct


def _rule(found: ProposedAct) -> PolicyInput:
    asked = {name: value for name, value in found.arguments.items() if name != "step"}
    return PolicyInput(name=found.subject, **{**asked, "expires": datetime.fromisoformat(asked["expires"])})


def _may(actor: Actor, found: ProposedAct) -> bool:
    if found.arguments["step"] == "create":
        rule = _rule(found)
        return policy_services.may_use_policies(actor, "add") or (
            rule.is_exact and second_people.may_accept(actor, rule.pattern)
        )
    return policy_services.may_use_policies(actor, "change", found.subject)


def _prepare(proposed: Collection[ProposedAct]) -> None:
    rules = [_rule(found) for found in proposed if found.arguments["step"] == "create"]
    second_people.prepare_clusters(rule.pattern for rule in rules if rule.is_exact)


def _evidence(found: ProposedAct) -> Doc:
    return policy_services.evidence_about(found.subject, found.arguments["tokens"])


def _perform(actor: Actor, found: ProposedAct) -> None:
    if found.arguments["step"] == "create":
        policy_services.create_policy(actor, _rule(found))
    elif found.arguments["step"] == "change":
        policy_services.change_policy(actor, found.subject, _rule(found))
    else:
        policy_services.enable_policy(actor, found.subject)


def _url(found: ProposedAct) -> str:
    is_there = ApprovalPolicy.objects.filter(name=found.subject).exists()
    return reverse("registration:policy", args=[found.subject]) if is_there else reverse("registration:policies")


acts.register(
    ActKind(
        ActName.POLICY,
        "Let the policy {subject} accept clusters",
        may=_may,
        evidence=_evidence,
        perform=_perform,
        again="It is carried out by the one who proposed it, as whom the policy acts.",
        by_proposer=True,
        url=_url,
        prepare=_prepare,
    )
)
