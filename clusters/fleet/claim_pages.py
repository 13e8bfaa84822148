"""Claims and labels of the whole fleet: choose one and see who says what, who is alone with it, who says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clusters import claims, queries
from clusters.claims import ClaimFilter
from clusters.fleet import claim_counts
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from clusters.fleet.claim_counts import Distribution, Name

NAMES_SHOWN = 10  # clusters without the claim, as examples
IDENTIFIERS_SHOWN = 5  # values of an identifier, as examples


@login_required
@require_GET
def claims_page(request: HttpRequest) -> HttpResponse:
    """``?claim=NAME`` or ``?label=KEY``; without either, what most clusters claim."""
    clusters = queries.clusters_for(actor_of(request))
    claimed, labelled = claim_counts.claim_names(clusters), claim_counts.label_names(clusters)
    kind, name = _chosen(request, claimed, labelled)
    context: dict[str, Any] = {
        "kind": kind,
        "name": name,
        "total": clusters.count(),
        "groups": [
            {"kind": "claim", "label": "Claims", "names": [_entry("claim", each, kind, name) for each in claimed]},
            {"kind": "label", "label": "Labels", "names": [_entry("label", each, kind, name) for each in labelled]},
        ],
    }
    if name:
        context |= _shown(clusters, kind, name)
    return render(request, "clusters/fleet/claims.html", context)


def _chosen(request: HttpRequest, claimed: list[Name], labelled: list[Name]) -> tuple[str, str]:
    """What no database keeps is nothing that a cluster could say."""
    for kind in ("claim", "label"):
        if (name := request.GET.get(kind, "").strip()) and ClaimFilter(name).is_possible:
            return kind, name
    for kind, names in (("claim", claimed), ("label", labelled)):
        if names:
            telling = (each for each in names if each.values * 2 <= each.clusters)  # an identifier says little
            return kind, next(telling, names[0]).name
    return "claim", ""


def _entry(kind: str, name: Name, chosen_kind: str, chosen: str) -> dict[str, Any]:
    return {
        "name": name.name,
        "help_text": claims.RESERVED.get(name.name, "") if kind == "claim" else "",
        "clusters": name.clusters,
        "values": name.values,
        "url": f"{reverse('clusters:claims')}?{urlencode({kind: name.name})}",
        "is_chosen": (kind, name.name) == (chosen_kind, chosen),
    }


def _shown(clusters: QuerySet[Any], kind: str, name: str) -> dict[str, Any]:
    found = (claim_counts.claim if kind == "claim" else claim_counts.label)(clusters, name)
    having = (
        queries.with_claims(clusters, ClaimFilter(name)) if kind == "claim" else clusters.filter(labels__has_key=name)
    )
    silent = clusters.exclude(pk__in=having.order_by().values("pk"))
    return {
        "help_text": claims.RESERVED.get(name, "") if kind == "claim" else "",
        "found": found,
        "bars": _bars(found, kind, name),
        "outliers": [
            {"value": each.value or "(empty)", "count": each.count, "url": _list(kind, name, each.value)}
            for each in found.outliers[: claim_counts.FEW_OUTLIERS]
        ],
        "missing": list(silent.values_list("name", flat=True)[:NAMES_SHOWN]) if found.missing else [],
        "having_url": _list(kind, name, None),
    }


def _bars(found: Distribution, kind: str, name: str) -> list[dict[str, Any]]:
    """Outliers and what is missing in a tone of their own, and in words beside it."""
    shown = found.values[:IDENTIFIERS_SHOWN] if found.is_identifier else found.values
    bars = [
        {
            "label": each.value or "(empty)",
            "count": each.count,
            "tone": "caution" if each.is_outlier else "accent",
            "url": _list(kind, name, each.value),
        }
        for each in shown
    ]
    if others := found.having - sum(each.count for each in shown):
        left = found.distinct - len(shown)
        bars.append({"label": f"{left:,} other values", "count": others, "tone": "quiet"})
    if found.missing:
        bars.append(
            {"label": "says nothing" if kind == "claim" else "not set", "count": found.missing, "tone": "quiet"}
        )
    return bars


def _list(kind: str, name: str, value: str | None) -> str:
    """The clusters that a bar counts."""
    return f"{reverse('clusters:list')}?{urlencode({kind: str(ClaimFilter(name, value))})}"
