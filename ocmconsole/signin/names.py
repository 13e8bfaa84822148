"""Names that mean somebody without being an account's: nobody may get one by choosing their name at a provider.

Rights are given to names, and policies, tokens and requests stay when an account goes. Called by ``adapters``.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Q

from ocmconsole.core.models import AccessRequest, BootstrapToken
from ocmconsole.core.rbac import rule_index
from ocmconsole.second_approval.models import ProposedAct
from registration.models import ApprovalPolicy


def is_spoken_for(name: str) -> bool:
    """Whether RBAC or the settings give the name something, or a record of this hub calls somebody so, in any case."""
    return _is_given_rights(name.casefold()) or _is_on_record(name)


def _is_given_rights(folded: str) -> bool:
    bound = (grant.subject.name for grant in rule_index.index.granted() if grant.subject.kind == "User")
    return any(folded == other.casefold() for other in (*settings.OCMCONSOLE_AUTO_APPROVED_USERS, *bound))


def _is_on_record(name: str) -> bool:
    """What acts or is granted in this name later, or is its bearer's to change."""
    return (
        BootstrapToken.objects.filter(created_by__iexact=name).exists()
        or ApprovalPolicy.objects.filter(Q(created_by__iexact=name) | Q(acts_as__iexact=name)).exists()
        or ProposedAct.objects.filter(proposed_by__iexact=name).exists()
        or AccessRequest.objects.filter(user__iexact=name).exists()
    )
