"""Pages of bootstrap tokens: the list, minting, revoking. People see their own tokens, or all if they may."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from clusters import queries as clusters
from clusters.models import ManagedCluster
from ocmconsole.components import refusals
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse, TokenPermission
from ocmconsole.core.tokens import bootstrap_terms, tokens
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.second_approval import gate
from registration import join_guide
from registration.join_guide import Reach
from registration.joining.joining_forms import MintForm, ReachForm
from registration.models import ApprovalPolicy, CertificateSigningRequest, PolicyPermission
from registration.pki import agent_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.core.models import BootstrapTokenQuerySet
    from ocmconsole.kubeapi.access.actor import Actor

State = BootstrapToken.State
MOST = 200  # rows
CLUSTERS_SHOWN = 4  # names in a row of the table; the others are counted
EXPLAINED = explain_url("create", f"{bootstrap_terms.PLURAL}.{bootstrap_terms.GROUP}")
MISSING = f"You need the permission {TokenPermission.ADD} (in RBAC: create bootstraptokens in {bootstrap_terms.GROUP})."


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A line of the list. ``others`` are uses by names that are no cluster now or that the person may not see."""

    token: BootstrapToken
    state: str
    clusters: list[str]
    more: int
    others: int
    problems: list[str]
    may_revoke: bool


@login_required
@require_GET
def token_list(request: HttpRequest) -> HttpResponse:
    actor, now = actor_of(request), clock.now()
    _require_sight(actor)
    mine = bootstrap_terms.tokens_for(actor)
    wanted = request.GET.get("state", "")
    found = list(_narrowed(mine, wanted)[: MOST + 1])
    context = {
        "rows": _rows(actor, found[:MOST]),
        "has_more": len(found) > MOST,
        "most": MOST,
        "state": wanted,
        "counts": {"usable": sum(token.state(now) == State.USABLE for token in mine.usable(now)), "all": mine.count()},
        "sees_all": bootstrap_terms.sees_all(actor),
        "may_mint": tokens.may_mint(actor).allowed,
        "missing": MISSING,
        "explain_url": EXPLAINED,
    }
    return render(request, "registration/joining/tokens.html", context)


def _require_sight(actor: Actor) -> None:
    """Who may neither mint nor see any has no such page, but for those who have minted a repair token."""
    may = tokens.may_mint(actor).allowed or bootstrap_terms.sees_all(actor)
    if not may and not bootstrap_terms.tokens_for(actor).exists():
        raise Http404("There are no tokens that you may see.")


def _narrowed(found: BootstrapTokenQuerySet, wanted: str) -> BootstrapTokenQuerySet:
    return found.usable(clock.now()) if wanted == "usable" else found


def _rows(actor: Actor, found: Iterable[BootstrapToken]) -> list[TokenRow]:
    """With three queries however many tokens there are."""
    now, wanted = clock.now(), list(found)
    uses = list(BootstrapTokenUse.objects.filter(token__in=wanted).order_by("since"))
    visible = _visible(actor, {use.cluster for use in uses})
    revokes_all = bootstrap_terms.may_revoke_all(actor)
    rows = []
    for token in wanted:
        own = [use for use in uses if use.token_id == token.pk]
        shown = [use.cluster for use in own if use.cluster in visible]
        problems = [f"{use.cluster}: {use.wish_failure}" for use in own if use.wish_failure and use.cluster in visible]
        rows.append(
            TokenRow(
                token=token,
                state=str(token.state(now)),
                clusters=shown[:CLUSTERS_SHOWN],
                more=max(len(shown) - CLUSTERS_SHOWN, 0),
                others=len(own) - len(shown),
                problems=problems[:CLUSTERS_SHOWN],
                may_revoke=revokes_all or token.created_by == actor.user,
            )
        )
    return rows


def _visible(actor: Actor, names: set[str]) -> set[str]:
    return set(clusters.clusters_for(actor).filter(name__in=names).values_list("name", flat=True))


# ---------------------------------------------------------------- minting


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def mint(request: HttpRequest) -> HttpResponse:
    """The secret is on the page that answers, and nowhere else."""
    actor = actor_of(request)
    _require_sight(actor)
    may_mint = tokens.may_mint(actor).allowed
    form = MintForm(request.POST or None, actor=actor)
    status = 200
    if request.method == "POST":
        try:
            tokens.require_mint(actor)
            if form.is_valid():
                return _minted(request, actor, form)
            status = 400
        except gate.Waits as waits:
            return refusals.proposed(request, waits.pk)
        except errors.ApiError as error:
            messages.error(request, error.message)
            status = error.code
    context = {"form": form, "may_mint": may_mint, "missing": MISSING, "explain_url": EXPLAINED}
    return render(request, "registration/joining/token_form.html", context, status=status)


def _minted(request: HttpRequest, actor: Actor, form: MintForm) -> HttpResponse:
    secret = tokens.issue_bootstrap_token(actor, **form.terms)
    token = BootstrapToken.objects.get(pk=secret.partition(".")[0])
    reach = Reach(join_guide.addresses()[0])
    context = {
        "token": token,
        "secret": secret,
        "command": join_guide.join_command(secret, token.cluster, reach),
        "problems": join_guide.address_problems(reach.server),
        "download": ReachForm(
            initial={"token": secret, "name": token.cluster, "server": reach.server}, auto_id="download_%s"
        ),
        "audit_url": audit_url(bootstrap_terms.PLURAL, token.pk),
    }
    return render(request, "registration/joining/token_minted.html", context)


# ---------------------------------------------------------------- revoking


@login_required
@require_http_methods(["GET", "POST"])
def revoke(request: HttpRequest, token_id: str) -> HttpResponse:
    """What ends with it, then the end."""
    actor = actor_of(request)
    token = bootstrap_terms.tokens_for(actor).filter(pk=token_id).first()
    if token is None:
        raise Http404(f"There is no token {token_id} that you may see.")
    may_revoke = bootstrap_terms.may_revoke(actor, token)
    if request.method == "POST":
        try:
            tokens.revoke_as(actor, token)
        except errors.Forbidden as error:
            return _revoke_page(request, actor, token, may_revoke=may_revoke, status=error.code)
        messages.success(request, f"The token {token} is revoked; it opens nothing from now on.")
        return redirect("registration:tokens")
    return _revoke_page(request, actor, token, may_revoke=may_revoke)


def _revoke_page(request: HttpRequest, actor: Actor, token: BootstrapToken, *, may_revoke: bool,
                 status: int = 200) -> HttpResponse:  # fmt: skip
    waiting = CertificateSigningRequest.objects.filter(
        username=f"system:bootstrap:{token.pk}",
        state=CertificateSigningRequest.State.PENDING,
        signer=agent_names.SIGNER,
    )
    asking = list(waiting.values_list("cluster", flat=True))
    named = set(ManagedCluster.objects.filter(name__in=set(asking)).values_list("name", flat=True))
    waiting_names = _visible(actor, named)
    brought = set(token.brought.values_list("cluster", flat=True)) - waiting_names
    joined = clusters.clusters_for(actor).filter(name__in=brought, hub_accepts_client=True)
    naming = [policy.name for policy in ApprovalPolicy.objects.filter(enabled=True) if token.pk in policy.tokens]
    context = {
        "token": token,
        "state": str(token.state(clock.now())),
        "requests": len(asking),
        "waiting": sorted(waiting_names),
        "unseen": sum(name in named - waiting_names for name in asking),
        "nameless": sum(name not in named for name in asking),
        "joined": list(joined.values_list("name", flat=True)),
        "policies": naming if request.user.has_perm(PolicyPermission.VIEW) else [],
        "may_revoke": may_revoke,
        "missing": f"You need the permission {TokenPermission.DELETE} to revoke tokens of others.",
        "explain_url": explain_url("delete", f"{bootstrap_terms.PLURAL}.{bootstrap_terms.GROUP}", name=token.pk),
        "list_url": reverse("registration:tokens"),
    }
    return render(request, "registration/joining/token_revoke.html", context, status=status)
