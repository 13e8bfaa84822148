"""The inbox: what waits, what was decided, what gave way.

It reads through ``registration.approvals.inbox`` and renders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from ocmconsole.components.cursors import Cursor
from ocmconsole.components.whole_numbers import whole_number
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.access.session import actor_of
from ocmconsole.second_approval import acts
from registration import queries
from registration.approvals import inbox, services, snooze
from registration.approvals.forms import FilterForm, query_of
from registration.evidence.evidence_items import Verdict
from registration.models import CertificateSigningRequest, PolicyPermission

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor
    from registration.approvals.inbox import Inbox

PAGE = 50  # rows
LAST_DECIDED = 5  # decisions below the inbox
VERDICTS = (Verdict.BLOCKED, Verdict.CHECK, Verdict.SAFE)


@login_required
@require_GET
def waiting(request: HttpRequest) -> HttpResponse:
    """What waits for a decision, worst and oldest first."""
    actor = actor_of(request)
    form = FilterForm(request.GET)
    wanted = form.wanted()
    found = inbox.inbox_for(actor, wanted, with_gone=True)
    total = len(found.put_off if wanted.later else found.waiting)
    counts = inbox.count_by_verdict(found.rows)
    shown = inbox.shown_rows(found.everything, wanted)
    undecided = inbox.shown_rows(found.rows, wanted)
    start = _number(request.GET.get("page", ""))
    if start >= len(shown):
        start = max(len(shown) - 1, 0) // PAGE * PAGE  # what was on the last page is decided
    context = {
        "tabs": _tabs("waiting", actor),
        "total": len(found.waiting),
        "news": "" if wanted.is_narrow or wanted.later else _news(counts),
        "put_off": [] if wanted.later else found.put_off,
        "beyond": found.beyond,
        "weighed": counts["all"],
        "rows": shown[start : start + PAGE] if total else [],
        "verdicts": [
            ("", "All", counts["all"] + found.beyond),
            *((str(v), v.capitalize(), counts[v]) for v in VERDICTS),
        ],
        "filter": form,
        "is_filtered": form.is_valid() and any(form.cleaned_data.values()),
        "is_narrowed": bool(wanted.is_narrow or wanted.verdict),
        "matching": len(undecided) + (0 if wanted.verdict else found.beyond),
        "of": total,
        "query": query_of(request.GET),
        "can_select": any(row.can_select for row in undecided),
        "safe": sum(row.can_select and row.verdict is Verdict.SAFE for row in undecided),
        "tokens": found.tokens,
        "pager": _pager(request, start, len(shown)),
        "decided": [] if found.waiting else inbox.decided_names(actor, limit=LAST_DECIDED),
        "undo": _undo(actor, found),
        "may_keep": request.user.has_perm(PolicyPermission.VIEW),
        "may_mint": tokens.may_mint(actor).allowed,
    }
    return render(request, "registration/approvals/inbox.html", context, status=200 if form.is_valid() else 400)


def _tabs(current: str, actor: Actor) -> list[dict[str, Any]]:
    """The count is that of the badge; no request is weighed for it."""
    places = (
        ("waiting", "registration:approvals"),
        *((tab, f"registration:{tab}") for tab in ("decided", "superseded")),
    )
    return [
        {
            "label": tab.capitalize(),
            "url": reverse(route),
            "count": len(snooze.in_sight(actor)) if tab == "waiting" else 0,
            "current": tab == current,
        }
        for tab, route in places
    ] + ([{"label": "Second approvals", "url": reverse("second-approval:list")}] if acts.is_on() else [])


def _news(counts: dict[str, int]) -> str:
    """6 are safe to accept together, 2 need a look, 1 is blocked."""
    safe, check, blocked = (counts[verdict] for verdict in (Verdict.SAFE, Verdict.CHECK, Verdict.BLOCKED))
    parts = [
        f"{safe} {'is' if safe == 1 else 'are'} safe to accept{' together' if safe > 1 else ''}" if safe else "",
        f"{check} need{'s' if check == 1 else ''} a look" if check else "",
        f"{blocked} {'is' if blocked == 1 else 'are'} blocked" if blocked else "",
    ]
    return ", ".join(filter(None, parts)) + "."


def _undo(actor: Actor, found: Inbox) -> dict[str, Any] | None:
    """The person's own last decline, for the ten minutes in which one click takes it back."""
    facts = inbox.own_decline(actor)
    if facts is None or facts.cluster in found.waiting or not services.may_accept(actor, facts.cluster).allowed:
        return None
    denied = queries.requests_of_all([facts.cluster]).filter(state=CertificateSigningRequest.State.DENIED).count()
    return {"name": facts.cluster, "at": facts.decided_at, "reason": facts.decision_reason, "denied": denied}


def _pager(request: HttpRequest, start: int, total: int) -> dict[str, Any]:
    return {
        "first": start + 1,
        "last": min(start + PAGE, total),
        "total": total,
        "previous": _link(request, page=max(start - PAGE, 0)) if start else "",
        "next": _link(request, page=start + PAGE) if start + PAGE < total else "",
    }


def _link(request: HttpRequest, **changes: object) -> str:
    parameters = request.GET.copy()
    for name, value in changes.items():
        parameters[name] = str(value)
    return f"?{parameters.urlencode()}"


def _number(text: str) -> int:
    return whole_number(text, 5) or 0


# ---------------------------------------------------------------- decided, superseded


@login_required
@require_GET
def decided(request: HttpRequest) -> HttpResponse:
    """The last word about each name, newest first, with the evidence it was given on."""
    actor = actor_of(request)
    found = inbox.decided_names(actor, limit=PAGE + 1, after=Cursor.read(request.GET.get("after", "")))
    rows = found[:PAGE]
    allowed = services.acceptable(actor, [facts.cluster for facts, outcome in rows if outcome.can_undo])
    context = {
        "tabs": _tabs("decided", actor),
        "rows": [
            {"name": facts.cluster, "outcome": outcome, "may": facts.cluster in allowed} for facts, outcome in rows
        ],
        "next_after": _place(rows[-1][1].at, rows[-1][0].cluster) if len(found) > PAGE else "",
    }
    return render(request, "registration/approvals/decided.html", context)


@login_required
@require_GET
def superseded(request: HttpRequest) -> HttpResponse:
    """Requests that gave way to a newer one of the same asker (K11)."""
    actor = actor_of(request)
    found = inbox.superseded_requests(actor, limit=PAGE + 1, after=Cursor.read(request.GET.get("after", "")))
    context = {
        "tabs": _tabs("superseded", actor),
        "rows": found[:PAGE],
        "next_after": _place(found[PAGE - 1].at, found[PAGE - 1].entry) if len(found) > PAGE else "",
    }
    return render(request, "registration/approvals/superseded.html", context)


def _place(moment: datetime | None, key: object) -> str:
    return str(Cursor(moment, str(key))) if moment else ""
