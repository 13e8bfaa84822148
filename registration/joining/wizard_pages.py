"""Adding a cluster in four plain pages: name and place, token, run, watch.

What was entered travels in the address, which holds no secret; the secret is on the page that minted it, which sends it
back when the person changes how the cluster reaches the hub. The server keeps only its hash.
"""

from __future__ import annotations

import uuid
from shlex import quote
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from clusters import queries as clusters
from ocmconsole.components import refusals
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.core.models import BootstrapToken, BootstrapTokenUse
from ocmconsole.core.tokens import bootstrap_terms, token_formats, tokens
from ocmconsole.environment.installation import PROGRAM
from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.second_approval import gate
from registration import hub_setup, join_guide, queries
from registration.approvals import services
from registration.joining.joining_forms import AddressField, PlaceForm, ReachForm, TokenForm
from registration.joining.token_pages import EXPLAINED, MISSING
from registration.keys import key_history
from registration.models import ApprovalPolicy, HubAddress
from registration.pki import ca
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput

if TYPE_CHECKING:
    from django.http import HttpRequest

    from ocmconsole.kubeapi.access.actor import Actor

STEPS = ("Name & place", "Token", "Run", "Watch")
MINTED = "add-cluster-minted"  # in the session: which form made which token, so that a form sent twice makes one
REMEMBERED = 20  # tokens in a session, so that it stays small


def _page(
    request: HttpRequest, template: str, step: int, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    steps = [{"title": title, "number": index, "is_done": index < step} for index, title in enumerate(STEPS, start=1)]
    return render(request, template, {**context, "steps": steps, "step": step}, status=status)


def _minting(actor: Actor) -> dict[str, Any]:
    return {"may_mint": tokens.may_mint(actor).allowed, "missing": MISSING, "explain_url": EXPLAINED}


# ---------------------------------------------------------------- 1 name and place


@login_required
@require_http_methods(["GET", "POST"])
def place(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if request.method == "POST":
        form = PlaceForm(request.POST, actor=actor)
        if form.is_valid():
            return redirect(f"{reverse('registration:add-token')}?{_carried(form)}")
        return _place(request, actor, form, status=400)
    initial = {key: request.GET.get(key, "") for key in ("name", "set", "labels", "server")}
    initial["server"] = initial["server"] or join_guide.addresses()[0]
    return _place(request, actor, PlaceForm(initial=initial, actor=actor))


def _place(request: HttpRequest, actor: Actor, form: PlaceForm, *, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "added": HubAddress.objects.order_by("-added_at") if actor.is_master else [],
        **_address(actor, join_guide.addresses()[0]),
        **_minting(actor),
    }
    return _page(request, "registration/joining/wizard_place.html", 1, context, status=status)


def _address(actor: Actor, url: str) -> dict[str, Any]:
    """What is known of an address before anything is given to the cluster; an admin may have it named."""
    is_named = join_guide.is_named(url)
    return {
        "server": url,
        "server_host": urlsplit(url).hostname or "",
        "is_named": is_named,
        "problems": join_guide.address_problems(url),
        "can_name": actor.is_master and not is_named,
        "must_ask": not actor.is_master and not is_named,
    }


def _carried(form: PlaceForm) -> str:
    data = form.cleaned_data
    labels = ",".join(f"{key}={value}" for key, value in data["labels"].items())
    return urlencode({key: value for key, value in {**data, "labels": labels}.items() if value})


@login_required
@require_POST
def address(request: HttpRequest) -> HttpResponse:
    """Name the address in the hub's certificate, then on with the step that asked for it."""
    actor = actor_of(request)
    where = PlaceForm(request.GET, actor=actor)
    if not where.is_valid() or not where.cleaned_data["server"]:
        return redirect(f"{reverse('registration:add')}?{request.GET.urlencode()}")
    _add_address(request, actor, where.cleaned_data["server"])
    return redirect(f"{reverse('registration:add-token')}?{_carried(where)}")


def _add_address(request: HttpRequest, actor: Actor, url: str) -> None:
    try:
        hub_setup.add_address(actor, url)
    except (errors.ApiError, ca.AuthorityError) as error:
        text = error.message if isinstance(error, errors.ApiError) else str(error)
        messages.error(request, f"The certificate is as it was: {text}.")
        return
    messages.success(
        request, f"The hub's certificate names {urlsplit(url).hostname} from now on; nothing was restarted."
    )


@login_required
@require_POST
def address_removal(request: HttpRequest) -> HttpResponse:
    """Take an added address out of the hub's certificate again."""
    try:
        url = AddressField().clean(request.POST.get("url", ""))
    except ValidationError as error:
        raise Http404("There is no such address.") from error
    host = urlsplit(url).hostname or ""
    try:
        hub_setup.remove_address(actor_of(request), url)
    except (errors.ApiError, ca.AuthorityError) as error:
        text = error.message if isinstance(error, errors.ApiError) else str(error)
        messages.error(request, f"The certificate is as it was: {text}.")
    else:
        stays = f" Another address keeps {host} in the certificate." if host in join_guide.named_hosts() else ""
        messages.success(request, f"{url} is removed: agents are given it no more.{stays}")
    return redirect("registration:add")


# ---------------------------------------------------------------- 2 token


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def token(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    where = PlaceForm(request.GET, actor=actor)
    if not where.is_valid():
        return redirect(f"{reverse('registration:add')}?{request.GET.urlencode()}")
    name = where.cleaned_data["name"]
    form = TokenForm(request.POST or None, actor=actor, name=name, initial={"once": uuid.uuid4()})
    status = 200
    if request.method == "POST" and form.is_valid():
        if earlier := request.session.get(MINTED, {}).get(str(form.cleaned_data["once"])):
            messages.info(request, "This token was minted already; its secret was shown once.")
            return redirect(join_guide.watch_url(earlier, name, where.cleaned_data["server"]))
        try:
            return _minted(request, actor, where, form)
        except gate.Waits as waits:
            return refusals.proposed(request, waits.pk)
        except errors.ApiError as error:
            messages.error(request, error.message)
            status = error.code
    elif request.method == "POST":
        status = 400
    context = {
        "form": form,
        "place": where.cleaned_data,
        "notes": _notes(actor, name),
        "command": _command(actor, where, form),
        "has_default_set": settings.OCMCONSOLE_FEATURE_GATES["DefaultClusterSet"],
        "back": f"{reverse('registration:add')}?{_carried(where)}",
        "carried": _carried(where),
        **_address(actor, where.cleaned_data["server"] or join_guide.addresses()[0]),
        "may_accept": form.may_accept,
        "accept_missing": services.MISSING.format(name=name),
        "accept_explain_url": explain_url(
            "update", "managedclusters/accept.register.open-cluster-management.io", name=name
        ),
        **_minting(actor),
    }
    return _page(request, "registration/joining/wizard_token.html", 2, context, status=status)


def _command(actor: Actor, where: PlaceForm, form: TokenForm) -> str:
    """What mints the token that the fields as they are shown would mint."""
    place = where.cleaned_data
    said = {key: form[key].value() for key in ("lifetime", "uses", "bind", "addresses")}
    flags = [("name", f"for {place['name']}"), ("ttl", said["lifetime"]), ("uses", said["uses"])]
    flags += [("cluster", place["name"])] if said["bind"] else []
    flags += [("from", each) for each in str(said["addresses"] or "").replace(",", " ").split()]
    flags += [("set", place["set"])] if place["set"] else []
    flags += [("label", f"{key}={value}") for key, value in place["labels"].items()]
    text = " ".join(f"--{flag} {quote(str(value))}" for flag, value in (*flags, ("as", actor.user)))
    return f"{PROGRAM} bootstrap_token create {text}"


def _notes(actor: Actor, name: str) -> list[str]:
    """What the hub remembers of the name, for users who may see the cluster."""
    if not clusters.may_see(actor, name):
        return []
    notes = []
    if key_history.keys_of(name).exists():
        notes.append("The hub remembers keys of an earlier cluster of this name. Somebody must vouch for a new one.")
    if decline := key_history.declines_of(name).first():
        notes.append(f"It was declined by {decline.declined_by}: {decline.reason or 'no reason was given'}.")
    if queries.is_foreign_namespace(name):
        notes.append("A namespace of this name exists and is not a cluster's; its agent would get rights inside it.")
    return notes


def _minted(request: HttpRequest, actor: Actor, where: PlaceForm, form: TokenForm) -> HttpResponse:
    tokens.require_mint(actor)
    wishes, terms = where.cleaned_data, form.cleaned_data
    name = wishes["name"]
    if terms["accept"]:  # refused now is better than a token whose promise is not kept
        services.require_accept(actor, name)
    secret = tokens.issue_bootstrap_token(
        actor,
        name=f"for {name}",
        ttl=form.ttl,
        cluster=name if terms["bind"] else "",
        max_uses=terms["uses"],
        addresses=terms["addresses"],
        clusterset=wishes["set"],
        labels=wishes["labels"],
    )
    made = BootstrapToken.objects.get(pk=secret.partition(".")[0])
    if terms["accept"]:
        try:
            policy_services.create_policy(actor, _accepting(made, name))
        except gate.Waits as waits:  # the token is minted, and shown this once
            messages.info(request, f"It is not accepted by itself until another person agrees: {waits.message}.")
        except gate.NotProposed as refusal:
            messages.warning(request, f"It is not accepted by itself: {refusal.message}.")
    minted = {**request.session.get(MINTED, {}), str(terms["once"]): made.pk}
    request.session[MINTED] = dict(list(minted.items())[-REMEMBERED:])
    server = wishes["server"] or join_guide.addresses()[0]
    reach = ReachForm({"token": secret, "name": name, "server": server})
    return _run(request, reach, made, secret, name, is_new=True)


def _accepting(made: BootstrapToken, name: str) -> PolicyInput:
    """Once, exactly this name with exactly this token, as long as the token lives."""
    return PolicyInput(
        name=f"{name[:56].rstrip('-')}-{made.pk}",
        expires=made.expires,
        reason=f"Asked for when {name} was added.",
        tokens=[made.pk],
        pattern=name,
        addresses=made.addresses,
        clusterset=made.clusterset,
        max_accepts=1,
    )


# ---------------------------------------------------------------- 3 run


@login_required
@never_cache
@require_POST
def run(request: HttpRequest) -> HttpResponse:
    """The same page again with another way to the hub, or with its address in the hub's certificate."""
    form, made, secret, name = _held(request)
    if form.is_valid() and "name_it" in request.POST:
        _add_address(request, actor_of(request), form.reach.server)
    return _run(request, form, made, secret, name, status=200 if form.is_valid() else 400)


@login_required
@never_cache
@require_POST
def download(request: HttpRequest, what: str) -> HttpResponse:
    """The kubeconfig or the manifest as a file."""
    form, _, secret, name = _held(request)
    if not form.is_valid():
        return redirect("registration:add")
    files = {
        "bootstrap.kubeconfig": lambda: join_guide.bootstrap_kubeconfig(secret, form.reach),
        "klusterlet.yaml": lambda: join_guide.manifest(secret, name, form.reach),
    }
    if what not in files:
        raise Http404(f"There is no file {what}.")
    answer = HttpResponse(files[what](), content_type="application/yaml")
    answer["Content-Disposition"] = f'attachment; filename="{what}"'
    return answer


def _held(request: HttpRequest) -> tuple[ReachForm, BootstrapToken, str, str]:
    """The token that the user's page holds, if it is complete and was made by that user."""
    form = ReachForm(request.POST)
    secret = request.POST.get("token", "")
    parts = token_formats.split_bootstrap_token(secret)
    made = bootstrap_terms.tokens_for(actor_of(request)).filter(pk=parts[0]).first() if parts else None
    if made is None or parts is None or not token_formats.secret_matches(parts[1], made.hash):
        raise Http404("The secret of a token is shown once, when it is minted.")
    name = request.POST.get("name", "")
    return form, made, secret, made.cluster or name


def _run(request: HttpRequest, form: ReachForm, made: BootstrapToken, secret: str, name: str, *, status: int = 200,
         is_new: bool = False) -> HttpResponse:  # fmt: skip
    reach = form.reach
    context = {
        "form": form,
        "token": made,
        "secret": secret,
        "name": name,
        "is_new": is_new,
        "way": form.data.get("way") or "clusteradm",
        "reach": reach,
        "addresses": join_guide.addresses(),
        **_address(actor_of(request), reach.server),
        "command": join_guide.join_command(secret, name, reach),
        "flags": list(join_guide.flags(reach)),
        "manifest": join_guide.manifest(secret, name, reach),
        "policy": ApprovalPolicy.objects.filter(tokens=[made.pk]).first(),
        "watch_url": join_guide.watch_url(made.pk, name, reach.server),
        "audit_url": audit_url(bootstrap_terms.PLURAL, made.pk),
    }
    return _page(request, "registration/joining/wizard_run.html", 3, context, status=status)


# ---------------------------------------------------------------- 4 watch


@login_required
@require_GET
def watch(request: HttpRequest, token_id: str) -> HttpResponse:
    """Six steps, each with its time; what a token did not bring is for those who may see the cluster."""
    actor, now = actor_of(request), clock.now()
    made = bootstrap_terms.tokens_for(actor).filter(pk=token_id).first()
    if made is None:
        raise Http404(f"There is no token {token_id} that you may see.")
    name = made.cluster or request.GET.get("name", "")
    use = BootstrapTokenUse.objects.filter(token=made, cluster=name).first()
    shown = name if use is not None or clusters.may_see(actor, name) else ""
    found = join_guide.steps(made, shown, now)
    context = {
        "token": made,
        "name": name,
        "progress": found,
        "is_joined": all(step.is_done for step in found),
        "state": str(made.state(now)),
        "wish_failure": use.wish_failure if use else "",
        "policy": ApprovalPolicy.objects.filter(tokens=[made.pk]).first(),
        "may_open": bool(shown) and clusters.clusters_for(actor).filter(name=name).exists(),
        "waits": found[join_guide.ACCEPTING].is_next and clusters.may_see(actor, name),
        "probe": join_guide.probe(join_guide.Reach(_server_of(request))),
    }
    return _page(request, "registration/joining/wizard_watch.html", 4, context)


def _server_of(request: HttpRequest) -> str:
    """The address that the agent was given; only one that could have been entered is put into a command."""
    asked = request.GET.get("server", "")
    try:
        return AddressField(required=False).clean(asked) or join_guide.addresses()[0]
    except ValidationError:
        return join_guide.addresses()[0]
