"""The list of clusters: it reads through ``queries``, names states by ``status`` and renders."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from clusters import queries
from clusters.claims import Wanted
from clusters.kinds import spec_of
from clusters.models import ManagedCluster
from clusters.status import Word
from ocmconsole.kubeapi.session import actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

PAGE = 100
NOTHING = "Ask an admin for the permission clusters.view_managedcluster, or to see a set that holds what you look for."
ALARMING = frozenset({"danger", "caution"})


@login_required
@require_GET
def cluster_list(request: HttpRequest) -> HttpResponse:
    """Every cluster the person may see, by name; filtered by name, by state and by claims."""
    actor, now = actor_of(request), timezone.now()
    query, wanted = request.GET.get("q", "").strip(), request.GET.get("status", "")
    wanted_claims = [Wanted.read(text) for text in request.GET.getlist("claim") if text.strip()]
    visible = queries.clusters_for(actor)
    found = queries.observe(visible, now)
    saying = set(queries.with_claims(visible, *wanted_claims).values_list("name", flat=True)) if wanted_claims else None
    words = Counter(each.status.word for each in found)
    matching = [
        each
        for each in found
        if each.row.name.startswith(query)
        and wanted in {"", each.status.word}
        and (saying is None or each.row.name in saying)
    ]
    start = max(_number(request.GET.get("page", "")), 0)
    context = {
        "clusters": [_row(each) for each in matching[start : start + PAGE]],
        "query": query,
        "status": wanted,
        "claims": [{"text": str(claim), "clear_url": _without_claim(request, claim)} for claim in wanted_claims],
        "words": [(word, words[word]) for word in Word],
        "total": len(found),
        "troubled": sum(count for word, count in words.items() if word.tone in ALARMING),
        "undecided": sum(count for word, count in words.items() if word.tone == "accent"),
        "page": {
            "previous_url": _page_url(request, start - PAGE) if start else "",
            "next_url": _page_url(request, start + PAGE) if start + PAGE < len(matching) else "",
        },
        "denied": NOTHING if not found and ManagedCluster.objects.exists() else "",
    }
    return render(request, "clusters/list.html", context)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0  # noqa: PLR2004 - far beyond any list


def _without_claim(request: HttpRequest, dropped: Wanted) -> str:
    parameters = request.GET.copy()
    parameters.setlist("claim", [text for text in parameters.getlist("claim") if Wanted.read(text) != dropped])
    parameters.pop("page", None)
    return f"?{parameters.urlencode()}"


def _page_url(request: HttpRequest, start: int) -> str:
    parameters = request.GET.copy()
    parameters["page"] = str(max(start, 0))
    return f"?{parameters.urlencode()}"


def _row(found: queries.Observed) -> dict[str, Any]:
    row, doc = found.row, found.row.doc
    return {
        "name": row.name,
        "url": reverse("clusters:detail", args=[row.name]),
        "word": found.status.word,
        "since": found.status.since,
        "why": found.status.sentence,
        "sets": [row.clusterset] if row.clusterset else [],
        "version": row.kubernetes_version,
        "last_heard": found.last_heard,
        "taints": spec_of(doc).get("taints") or [],
        "age": row.created,
    }
