"""Pages of approval policies: what each lets in and has let in, what it would have, and changing that."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from clusters import queries as clusters
from ocmconsole.components import refusals
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.core.models import BootstrapToken
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.second_approval import gate
from registration.models import ApprovalPolicy, ApprovalPolicyUse
from registration.policies import policy_history, policy_services
from registration.policies.policy_form import PolicyForm
from registration.policies.policy_history import PolicyOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor
    from registration.policies.policy_matching import PolicyInput

USES_SHOWN = 20  # clusters that a policy let in, the newest; the page says how many there are


@login_required
@require_GET
def policy_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    found = list(policy_services.policies_for(actor))
    if not found and not policy_services.may_use_policies(actor, "view"):
        raise Http404("There are no policies that you may see.")
    context = {"rows": _rows(found), **_rights(actor)}
    return render(request, "registration/policies/list.html", context)


def _rows(found: Iterable[ApprovalPolicy]) -> list[dict[str, Any]]:
    now, wanted = clock.now(), list(found)
    names = _token_names({token for policy in wanted for token in policy.tokens})
    return [
        {
            "policy": policy,
            "state": str(policy.state(now)),
            "tokens": [names.get(token, token) for token in policy.tokens],
        }
        for policy in wanted
    ]


def _token_names(ids: set[str]) -> dict[str, str]:
    return {token.pk: token.name or token.pk for token in BootstrapToken.objects.filter(pk__in=ids)}


def _rights(actor: Actor) -> dict[str, Any]:
    resource = f"{policy_services.PLURAL}.{policy_services.GROUP}"
    return {
        "may_add": policy_services.may_use_policies(actor, "add"),
        "may_change": policy_services.may_use_policies(actor, "change"),
        "may_delete": policy_services.may_use_policies(actor, "delete"),
        "add_missing": policy_services.missing_right("add").capitalize(),
        "change_missing": policy_services.missing_right("change").capitalize(),
        "explain_url": explain_url("create", resource),
        "change_explain_url": explain_url("update", resource),
    }


def _policy(actor: Actor, name: str) -> ApprovalPolicy:
    found = policy_services.policies_for(actor).filter(name=name).first()
    if found is None:
        raise Http404(f"There is no policy {name} that you may see.")
    return found


@login_required
@require_GET
def policy_detail(request: HttpRequest, name: str) -> HttpResponse:
    return _detail(request, name)


def _detail(request: HttpRequest, name: str, *, status: int = 200) -> HttpResponse:
    actor = actor_of(request)
    policy = _policy(actor, name)
    context = {
        **_rows([policy])[0],
        **_tried(actor, policy),
        **_rights(actor),
        "uses": _uses(actor, policy),
        "has_default_set": settings.OCMCONSOLE_FEATURE_GATES["DefaultClusterSet"],
        "may_stop": policy.acts_as == actor.user or policy_services.may_use_policies(actor, "change", name),
        "audit_url": audit_url(policy_services.PLURAL, name),
    }
    return render(request, "registration/policies/detail.html", context, status=status)


def _uses(actor: Actor, policy: ApprovalPolicy) -> list[ApprovalPolicyUse]:
    visible = clusters.clusters_for(actor).values("name")
    return list(policy.uses.filter(cluster__in=visible)[:USES_SHOWN])


def _tried(actor: Actor, policy: ApprovalPolicy) -> dict[str, Any]:
    """What it would have done in the last days."""
    tried = policy_history.dry_run(actor, policy)
    past = tried.past
    counts = {str(outcome): sum(each.outcome is outcome for each in past) for outcome in PolicyOutcome}
    return {
        "past": past,
        "past_days": policy_history.SHOWN_SINCE.days,
        "past_bound": policy_history.MOST if tried.is_cut else 0,
        "warnings": [each for each in past if each.is_warning],
        "let_in_now": [each for each in past if each.is_let_in_now],
        "counts": {"accepted": counts["accepted"], "waiting": counts["waiting"], "none": counts["no decision"]},
    }


# ---------------------------------------------------------------- making and changing


@login_required
@require_http_methods(["GET", "POST"])
def create(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if not policy_services.may_use_policies(actor, "add") and not policy_services.may_use_policies(actor, "view"):
        raise Http404("There are no policies that you may see.")
    ends = (clock.now() + timedelta(days=14)).date()
    form = PolicyForm(request.POST or None, actor=actor, initial={"ends": ends})
    return _edited(request, actor, form, None)


@login_required
@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, name: str) -> HttpResponse:
    actor = actor_of(request)
    policy = _policy(actor, name)
    initial = {
        "name": policy.name,
        "tokens": policy.tokens,
        "pattern": policy.pattern,
        "addresses": policy.addresses,
        "set": policy.clusterset,
        "max_accepts": policy.max_accepts,
        "ends": (policy.expires - timedelta(microseconds=1)).date(),
        "reason": policy.reason,
    }
    form = PolicyForm(request.POST or None, actor=actor, policy=policy, initial=initial)
    return _edited(request, actor, form, policy)


def _edited(request: HttpRequest, actor: Actor, form: PolicyForm, policy: ApprovalPolicy | None) -> HttpResponse:
    """``act`` says whether a rule is tried or kept; trying stores nothing."""
    context: dict[str, Any] = {"form": form, "policy": policy, **_rights(actor)}
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            if request.POST.get("act") != "try":
                return _kept(request, actor, form.rule, policy)
            form.rule.check(clock.now())
            context |= _tried(actor, _unstored(form.rule)) | {"is_tried": True}
        except gate.Waits as waits:
            return refusals.proposed(request, waits.pk)
        except errors.ApiError as error:
            status = error.code if error.code != errors.Invalid.code else 400
            if error.causes:
                form.take(error.causes)
            else:
                messages.error(request, error.message)
    elif request.method == "POST":
        status = 400
    return render(request, "registration/policies/form.html", context, status=status)


def _unstored(rule: PolicyInput) -> ApprovalPolicy:
    return ApprovalPolicy(name=rule.name, **rule.columns())


def _kept(request: HttpRequest, actor: Actor, rule: PolicyInput, policy: ApprovalPolicy | None) -> HttpResponse:
    if policy is None:
        policy_services.create_policy(actor, rule)
        messages.success(request, f"The policy {rule.name} works from now on, as you.")
    else:
        policy_services.change_policy(actor, policy.name, rule)
        messages.success(request, f"The policy {rule.name} is changed; it acts as you from now on.")
    return redirect("registration:policy", name=rule.name)


# ---------------------------------------------------------------- ending


@login_required
@require_POST
def switch(request: HttpRequest, name: str) -> HttpResponse:
    """On or off."""
    actor = actor_of(request)
    _policy(actor, name)
    turns_on = request.POST.get("to") == "on"
    try:
        (policy_services.enable_policy if turns_on else policy_services.disable_policy)(actor, name)
    except gate.Waits as waits:
        return refusals.proposed(request, waits.pk)
    except errors.Forbidden as error:
        messages.error(request, error.message)
        return _detail(request, name, status=error.code)
    done = "works again, as you" if turns_on else "lets nothing in any more"
    messages.success(request, f"The policy {name} {done}.")
    return redirect("registration:policy", name=name)


@login_required
@require_http_methods(["GET", "POST"])
def delete(request: HttpRequest, name: str) -> HttpResponse:
    actor = actor_of(request)
    policy = _policy(actor, name)
    status = 200
    if request.method == "POST":
        try:
            policy_services.delete_policy(actor, name)
        except errors.Forbidden as error:
            messages.error(request, error.message)
            status = error.code
        else:
            messages.success(request, f"The policy {name} is deleted; what it let in stays.")
            return redirect("registration:policies")
    context = {
        **_rows([policy])[0],
        **_rights(actor),
        "delete_missing": policy_services.missing_right("delete").capitalize(),
        "delete_explain_url": explain_url("delete", f"{policy_services.PLURAL}.{policy_services.GROUP}", name=name),
    }
    return render(request, "registration/policies/delete.html", context, status=status)
