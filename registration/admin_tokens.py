"""Django admin of what lets clusters in: bootstrap tokens, and policies that accept without asking.

Acts are services, which ask for the person's rights and leave the audit that every other way leaves.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Count
from django.urls import reverse

from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse
from ocmconsole.core.tokens import bootstrap_terms, tokens
from ocmconsole.djangoadmin.acts import AdminAct
from ocmconsole.djangoadmin.lists import ChoiceFilter, status_label
from ocmconsole.djangoadmin.resources import ReadOnlyAdmin
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.actor import EntryPoint
from ocmconsole.kubeapi.access.session import actor_of
from registration.models import ApprovalPolicy, ApprovalPolicyUse
from registration.policies import policy_services

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString

    from ocmconsole.kubeapi.access.actor import Actor


class TokenFilter(ChoiceFilter):
    title = "state"
    parameter_name = "state"
    choices_of = (("standing", "Not ended"), ("expired", "Expired"), ("revoked", "Revoked"))

    def narrowed(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if value == "revoked":
            return rows.filter(revoked_at__isnull=False)
        now, standing = clock.now(), rows.filter(revoked_at=None)
        return standing.filter(expires__gt=now) if value == "standing" else standing.filter(expires__lte=now)


def _revoke_token(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:  # noqa: ARG001 - the signature of acts
    tokens.revoke_as(actor, row)


@admin.register(BootstrapToken)
class BootstrapTokenAdmin(ReadOnlyAdmin):
    """Neither the token nor its digest is shown. Tokens are minted on the console, which shows each once."""

    list_display = ("id", "name", "state", "uses_text", "cluster", "created_by", "created", "expires", "last_used")
    list_filter = (TokenFilter,)
    search_fields = ("id", "name__contains", "created_by__contains", "cluster__contains")
    ordering = ("-created",)
    date_hierarchy = "created"
    lookups = ("cluster",)
    exclude = ("hash",)
    is_for_all_staff = True
    acts = (
        AdminAct(
            "revoke", "Revoke selected tokens…", "revoked", _revoke_token,
            effects=("Nobody asks with them any more. Clusters that came with them stay as they are.",),
        ),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("hash")

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """As the console: one's own, or all."""
        actor = actor_of(request, EntryPoint.ADMIN)
        return rows if bootstrap_terms.sees_all(actor) else rows.filter(created_by=actor.user)

    def decorated(self, request: HttpRequest, rows: list[Any]) -> list[Any]:  # noqa: ARG002 - Django's signature
        brought = _counted(BootstrapTokenUse, "token", rows)
        for row in rows:
            row.brought_count = brought[row.pk]
        return rows

    @admin.display
    def state(self, row: BootstrapToken) -> SafeString:
        found = row.state(clock.now())
        return status_label(found.value.capitalize(), {"usable": "ok", "exhausted": "caution"}.get(found, "quiet"))

    @admin.display(description="uses")
    def uses_text(self, row: BootstrapToken) -> str:
        return row.uses_text

    def view_on_site(self, row: BootstrapToken) -> str:
        return f"{reverse('registration:tokens')}#token-{row.pk}"


def _enable(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:  # noqa: ARG001 - the signature of acts
    policy_services.enable_policy(actor, row.name)


def _disable(actor: Actor, row: Any, given: Mapping[str, Any]) -> None:  # noqa: ARG001 - the signature of acts
    policy_services.disable_policy(actor, row.name)


@admin.register(ApprovalPolicy)
class ApprovalPolicyAdmin(ReadOnlyAdmin):
    """What is let in without asking. Rules are written on the console, which shows what they would have let in."""

    list_display = ("name", "state", "pattern", "clusterset", "let_in", "acts_as", "expires", "failed_at")
    list_filter = ("enabled",)
    search_fields = ("name__contains", "pattern__contains", "acts_as__contains")
    ordering = ("name",)
    is_for_all_staff = True
    acts = (
        AdminAct("disable", "Disable selected policies", "disabled", _disable),
        AdminAct(
            "enable", "Enable selected policies, acting as you…", "enabled", _enable,
            effects=("Each lets in what fits it without asking, with your rights, until it ends.",),
        ),
    )  # fmt: skip

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        actor = actor_of(request, EntryPoint.ADMIN)
        return rows if policy_services.may_use_policies(actor, "view") else rows.filter(acts_as=actor.user)

    def decorated(self, request: HttpRequest, rows: list[Any]) -> list[Any]:  # noqa: ARG002 - Django's signature
        uses = _counted(ApprovalPolicyUse, "policy", rows)
        for row in rows:
            row.use_count = uses[row.pk]
        return rows

    @admin.display
    def state(self, row: ApprovalPolicy) -> SafeString:
        found = row.state(clock.now())
        label = "Ended" if found is ApprovalPolicy.State.EXPIRED else found.value.capitalize()
        return status_label(label, {"working": "ok", "failing": "danger"}.get(found, "quiet"))

    @admin.display(description="let in")
    def let_in(self, row: ApprovalPolicy) -> str:
        return f"{row.accepts} of {row.max_accepts}" if row.max_accepts else str(row.accepts)

    def view_on_site(self, row: ApprovalPolicy) -> str:
        return reverse("registration:policy", args=[row.name])


def _counted(model: Any, name: str, rows: list[Any]) -> Counter[Any]:
    """How many rows of the model belong to each of these, in one query."""
    found = model.objects.filter(**{f"{name}__in": [row.pk for row in rows]}).order_by()
    return Counter(dict(found.values_list(name).annotate(Count("pk"))))
