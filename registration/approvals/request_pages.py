"""The page of one request: what is known about it, and what accepting it would do. It reads and renders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clusters.cluster_rights import ACCEPT_RESOURCE
from clusters.kinds import MANAGED_CLUSTER, accept_command
from ocmconsole.components import document_display
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.core.tokens import bootstrap_terms
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.second_approval import acts
from ocmconsole.second_approval.rules import ActName
from registration import queries
from registration.approvals import accept_preview, inbox, services, snooze, stale_decision
from registration.approvals.forms import DeclineForm, LaterForm, OverrideForm, packed_requests, query_of
from registration.evidence import assessment
from registration.evidence.evidence_items import Verdict
from registration.keys import key_lines
from registration.kinds import CERTIFICATE_SIGNING_REQUEST as CSR
from registration.pki import agent_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.forms import Form
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor
    from registration.evidence.assessment import Asked, Evidence
    from registration.models import AcceptedKey

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@login_required
@require_GET
def detail(request: HttpRequest, name: str) -> HttpResponse:
    return page(request, name)


@login_required
@require_GET
def effects_of(request: HttpRequest, name: str) -> HttpResponse:
    """The consequences again, for another set: a fragment of the page for htmx."""
    request.is_fragment = True  # type: ignore[attr-defined] # the frame is not shown
    return page(request, name, template="registration/approvals/request.html#effects")


def page(
    request: HttpRequest,
    name: str,
    *,
    forms: dict[str, Form] | None = None,
    status: int = 200,
    refusal: str = "",
    template: str = "registration/approvals/request.html",
) -> HttpResponse:
    """``forms`` are those that were refused, with what the person had typed; ``refusal`` says why nothing was done."""
    actor = actor_of(request)
    found = assessment.evidence_of(name)
    if not (found.cluster or found.asked) or not clusters.may_see(actor, name):
        raise Http404(f"Nothing called {name} asks to join.")
    if refusal:
        messages.error(request, refusal)
    may_accept = name in services.acceptable(actor, [name])
    chosen = accept_preview.set_choice(
        actor, found.cluster, request.POST.get("clusterset") or request.GET.get("set", "")
    )
    seen, compared, on_record = stale_decision.seen_of(found), _compared(found), _on_record(found)
    columns = [*compared, *(on_record["columns"] if on_record else [])]
    context = {
        "req": found,
        "verdict": str(found.verdict),
        "verdict_text": _verdict_text(found),
        "csrs": compared,
        "on_record": on_record,
        "columns": columns,
        "asked_of": [column["asked"] for column in columns],
        "recorded": _recorded(found),
        "reported": _reported(found),
        "choice": chosen,
        "effects": accept_preview.accept_effects(actor, found, chosen),
        "can_accept": may_accept,
        "undeniable": services.undeniable(actor, name, found.waiting) if may_accept else "",
        "deny_explain_url": explain_url("approve", f"signers.{CSR.group}", name=agent_names.SIGNER),
        "missing": "" if may_accept else services.MISSING.format(name=name),
        "explain_url": explain_url("update", ACCEPT_RESOURCE, name=name),
        "audit_url": audit_url(MANAGED_CLUSTER.resource, name),
        "cluster_rv": seen.cluster,
        "csr_rvs": packed_requests(seen),
        "decline_form": DeclineForm(may_revoke=may_revoke(actor, found)),
        "later_form": LaterForm(),
        "override_form": OverrideForm(),
        "takes": acts.rule_of(ActName.KEY_OVERRIDE),
        "valid_certificates": lambda: key_lines.certificates_of(name, clock.now()).count(),  # of an override alone
        "keys": found.fitting if found.cluster else [],
        "commands": _commands(found, chosen),
        "decision": _decision(found),
        "list": query_of(QueryDict(request.POST.get("list") or request.GET.get("list", ""))),
        "put_off": snooze.put_off_by(actor, {*queries.waiting(actor), name}).get(name),
        "raw": _raw(found),
        "wizard": wizard_of(request),
        **(forms or {}),
    }
    if template.endswith(".html"):
        context["place"] = _place(actor, name)
    return render(request, template, context, status=status)


def wizard_of(request: HttpRequest) -> str:
    """The token of the wizard from whose last step the user came, if it is one that the user may see; else empty."""
    token_id = request.POST.get("wizard") or request.GET.get("wizard", "")
    if not token_id or "\0" in token_id:
        return ""
    return token_id if bootstrap_terms.tokens_for(actor_of(request)).filter(pk=token_id).exists() else ""


def may_revoke(actor: Actor, found: Evidence) -> bool:
    token = found.recorded.token
    return token is not None and token.revoked_at is None and bootstrap_terms.may_revoke(actor, token)


# ---------------------------------------------------------------- parts of the page


def _verdict_text(found: Evidence) -> str:
    """``Blocked: 2 problems``."""
    failed = [fact for fact in found.failed if fact.weight is found.verdict]
    if not failed:
        return f"Safe: all {len(found.checked)} checks hold"
    word = "problem" if found.verdict is Verdict.BLOCKED else "thing to look at"
    many = "problems" if found.verdict is Verdict.BLOCKED else "things to look at"
    return f"{found.verdict.capitalize()}: {len(failed)} {word if len(failed) == 1 else many}"


def _compared(found: Evidence) -> list[dict[str, Any]]:
    """Each request with the name that the page gives its asker: A is the newest."""
    letters = {id(asked): LETTERS[i % 26] for i, each in enumerate(found.askers) for asked in each}
    is_disputed = len(found.askers) > 1
    return [
        {"asked": asked, "title": f"Asker {letters[id(asked)]}" if is_disputed and asked.is_waiting else f"Request {i}"}
        for i, asked in enumerate(found.asked, start=1)
    ]


def _on_record(found: Evidence) -> dict[str, Any] | None:
    """The key that was accepted last, and from where its request came.

    ``columns`` compares it with the requests; empty when it is that of one of them.
    """
    if not found.keys:
        return None
    newest: AcceptedKey = found.keys[0]
    event = AuditEvent.objects.filter(uid=newest.request_uid, resource=CSR.resource, verb="create").first()
    address = event.address if event else ""
    same = [asked for asked in found.waiting if address and asked.source == address]
    last_accepted = {
        "fingerprint": newest.fingerprint,
        "source": address or None,
        "client": event.user_agent if event else None,
        "requester": event.user if event else None,
    }
    is_listed = any(asked.uid == newest.request_uid for asked in found.asked)
    columns = [] if is_listed or not found.asked else [{"asked": last_accepted, "title": "On record"}]
    return {
        "key": newest,
        "address": address,
        "count": len(found.keys),
        "is_same_address": bool(same),
        "columns": columns,
    }


def _recorded(found: Evidence) -> list[tuple[str, Any]]:
    recorded = found.recorded
    rows = [
        ("Token" if recorded.token else "Credential", _credential(found)),
        ("Asked as", recorded.requester),
        ("From", recorded.source),
        ("Client", recorded.client),
        ("Asked for", _wish(found.waiting[:1])),
        ("First seen", found.cluster.created if found.cluster else recorded.asked),
    ]
    return [(label, value) for label, value in rows if value]


def _credential(found: Evidence) -> str:
    recorded = found.recorded
    if recorded.token is None:
        return recorded.credential
    token = recorded.token
    life = assessment.lifetime_text((token.expires - token.created).total_seconds())
    return f"{token.name or token.pk}, minted by {token.created_by}, lives {life}, {token.uses_text}"


def _wish(newest: Iterable[Asked]) -> str:
    return next((f"client certificate, {asked.expires}, {asked.key}" for asked in newest), "")


def _reported(found: Evidence) -> list[tuple[str, str]]:
    if found.cluster is None:
        return []
    doc = found.cluster.doc
    configs = doc["spec"].get("managedClusterClientConfigs") or []
    rows = [("API URL", config.get("url", "")) for config in configs]
    labels = {
        key: value
        for key, value in (doc["metadata"].get("labels") or {}).items()
        if not key.startswith("cluster.open-cluster-management.io/")
    }
    if labels:
        rows.append(("Labels", ", ".join(f"{key}={value}" if value else key for key, value in labels.items())))
    claims = (doc.get("status") or {}).get("clusterClaims") or []
    rows += [(claim.get("name", ""), claim.get("value", "")) for claim in claims]
    return [(label, value) for label, value in rows if value]


def _commands(found: Evidence, chosen: accept_preview.SetChoice) -> list[str]:
    """The equivalent command: to accept, or to deny where accepting is blocked."""
    if found.waiting and found.verdict is Verdict.BLOCKED:
        return [f"kubectl certificate deny {asked.name}" for asked in found.waiting]
    if found.declines and not found.waiting:
        return []  # what was declined is not let in by another command
    commands = [f"kubectl certificate approve {asked.name}" for asked in found.waiting[:1]]
    if chosen.is_move:
        label = f"cluster.open-cluster-management.io/clusterset={chosen.joined}"
        commands.append(f"kubectl label managedcluster {found.name} --overwrite {label}")
    if found.is_accepted:
        return commands
    return [*commands, accept_command(found.name)]


def _decision(found: Evidence) -> inbox.RequestOutcome | None:
    """The last word, unless something new waits, or it was said about an earlier cluster of the name."""
    decided_at, cluster = found.facts.decided_at, found.cluster
    if found.waiting or decided_at is None:
        return None
    is_of_another = cluster is not None and decided_at < cluster.created
    if is_of_another and not found.declines:
        return None
    return inbox.outcome_of(found.facts)


def _raw(found: Evidence) -> list[tuple[str, str]]:
    """The objects as stored."""
    documents = [("ManagedCluster", found.cluster.doc)] if found.cluster else []
    documents += [(f"CertificateSigningRequest {asked.name}", asked.doc) for asked in found.asked]
    return [(title, document_display.as_yaml(doc)) for title, doc in documents]


def _place(actor: Actor, name: str) -> dict[str, Any] | None:
    """Where it stands among the requests in sight, the oldest first, and its neighbours there."""
    names = inbox.oldest_first(actor)
    if name not in names:
        return None
    at = names.index(name)
    return {
        "number": at + 1,
        "total": len(names),
        "previous": names[at - 1] if at else "",
        "next": names[at + 1] if at + 1 < len(names) else "",
    }
