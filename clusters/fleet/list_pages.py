"""The list of clusters: it reads what is asked from the URL, lets ``listing`` and ``facets`` answer, and renders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.auth.decorators import login_required
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_GET

from clusters.fleet import columns, facets, listing, saved_views
from clusters.fleet.bulk_acts import ACTS, allowed_acts
from clusters.fleet.filters import NAMES, NO_SET, Filters
from clusters.health.certificate_expiry import ExpiryBucket, bucket_of, tone_of
from clusters.health.status import Word
from clusters.models import ManagedCluster
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import clock
from ocmconsole.kubeapi.access.session import actor_of

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpRequest, HttpResponse

    from clusters.fleet.columns import Chosen
    from clusters.fleet.facets import Census
    from clusters.fleet.listing import ClusterPage, Listing, Order, PageCursor
    from clusters.models import ClusterFacts
    from clusters.queries import Observed

EXACT_UP_TO = 10_000  # clusters; above it a count is rounded to hundreds
LOOKED_UP = 1_000  # clusters of a filter, to find out which acts to offer
OPTIONS = 8  # of a facet, before the rest is folded away
# Acts offered in a row, and the bulk act whose right each needs; none: the right to see the cluster is enough.
MARK = "_name_"  # no cluster is called so
ACTIONS = (
    ("Open", "server", "clusters:detail", (), ""),
    ("Maintenance…", "wrench", "clusters:maintenance", (), "maintenance"),
    ("Taints", "tag", "clusters:tab", ("taints",), ""),
    ("Move to another set…", "boxes", "clustersets:move", (), "move"),
    ("Disconnect…", "unplug", "registration:disconnect", (), "disconnect"),
    ("Remove…", "trash-2", "clusters:remove", (), "remove"),
)


@login_required
@require_GET
def cluster_list(request: HttpRequest) -> HttpResponse:
    """Every cluster the person may see, fifty at a time, in any order and narrowed by any of its columns."""
    filters = Filters.read(request.GET)
    sort, order = listing.order_of(request.GET.get("sort", ""))
    asked = listing.Listing(actor_of(request), filters, clock.now())
    chosen = columns.chosen_by(request.user)
    counts = facets.census(asked)
    page = _page(request, asked, order, chosen)
    query, actions = Query(filters, "" if sort == "name" else sort), _actions()
    is_small = counts.matching <= LOOKED_UP
    allowed = allowed_acts(asked.actor, asked.names() if is_small else [each.row.name for each in page.rows])
    context = {
        "clusters": [_row(each, asked, chosen, actions, allowed) for each in page.rows],
        "columns": [
            _heading(column, query) for column in (columns.ListColumn("name", "Name", "name"), *chosen.columns)
        ],
        "choices": _choices(chosen),
        "is_comfortable": chosen.is_comfortable,
        "counts": counts,
        "total": _about(counts.total),
        "matching": _about(counts.matching),
        "filters": filters,
        "name": " ".join(filters.of("q")[:1]),
        "chips": [
            {"text": chip.text, "clear_url": query.url(filters.without(chip.name, chip.value))}
            for chip in filters.chips()
        ],
        "clear_url": query.url(Filters()),
        "tabs": _tabs(request, counts, query),
        "facets": _facets(counts, query),
        "kept": [(name, value) for name in NAMES for value in filters.of(name)],
        "sort": query.sort,
        "query": query.text,
        "previous_url": query.at("before", page.previous),
        "next_url": query.at("after", page.next),
        "relaxed": _relaxed(asked, query) if filters and not counts.matching else [],
    }
    context["may_mint"] = tokens.may_mint(asked.actor).allowed
    acts = sorted(ACTS.values(), key=lambda act: act.is_final)
    # Of very many clusters only those of the page are looked up: another page may have one that the act is for.
    context["acts"] = [act for act in acts if allowed[act.name] or (not is_small and any(allowed.values()))]
    return render(request, "clusters/fleet/list.html", context)


def _page(request: HttpRequest, asked: Listing, order: Order, chosen: Chosen) -> ClusterPage:
    """From the place that the URL names; when nothing is there any more, from the start."""
    before, after = (request.GET.get(name, "") for name in ("before", "after"))
    place = listing.PageCursor.read(before or after, order, back=bool(before))
    page = asked.page(order, place, claims=chosen.claims)
    return page if page.rows or place is None else asked.page(order, claims=chosen.claims)


# ---------------------------------------------------------------- addresses


class Query(NamedTuple):
    """What the page shows now, to make the addresses of what lies beside it."""

    filters: Filters
    sort: str

    @property
    def text(self) -> str:
        return self.filters.query(sort=self.sort)

    def url(self, filters: Filters) -> str:
        return f"?{filters.query(sort=self.sort)}"

    def sorted(self, sort: str) -> str:
        return f"?{self.filters.query(sort='' if sort == 'name' else sort)}"

    def at(self, side: str, place: PageCursor | None) -> str:
        return f"?{self.filters.query(sort=self.sort, **{side: str(place)})}" if place is not None else ""


def _heading(column: columns.ListColumn, query: Query) -> dict[str, Any]:
    """``direction`` is what the reader sees: ages rise while instants fall."""
    sort = query.sort or "name"
    direction = {column.order: "ascending", f"-{column.order}": "descending"}.get(sort, "") if column.order else ""
    other = f"-{column.order}" if direction == "ascending" else column.order
    return {"column": column, "direction": direction, "url": query.sorted(other) if column.order else ""}


def _tabs(request: HttpRequest, counts: Census, query: Query) -> list[dict[str, Any]]:
    return [
        {
            "label": view.label,
            "url": f"?{view.query}",
            "count": _about(getattr(counts, view.counts)) if view.counts else "",
            "current": view.query == query.text,
            "id": view.id,
        }
        for view in saved_views.views_of(request.user)
    ]


# ---------------------------------------------------------------- facets


@dataclass(frozen=True, slots=True)
class Option:
    label: str
    count: int
    is_on: bool
    url: str
    word: Word | None = None


def _facets(counts: Census, query: Query) -> list[dict[str, Any]]:
    """Each with what is on and the first of the others; the rest is folded away."""
    found: dict[str, list[Option]] = {
        "status": [_option(query, "status", word, word.label, count, word) for word, count in counts.words()],
        "set": [
            _option(query, "set", name, "No set" if name == NO_SET else name, count)
            for name, count in counts.clustersets()
        ],
        "certificate": [
            _option(query, "certificate", bucket, bucket.label, count) for bucket, count in counts.buckets()
        ],
        "version": [_option(query, "version", version, version, count) for version, count in counts.versions()],
    }
    return [
        {
            "name": name,
            "label": NAMES[name],
            "options": options[:OPTIONS] + [option for option in options[OPTIONS:] if option.is_on],
            "more": [option for option in options[OPTIONS:] if not option.is_on],
            "is_open": name != "version" or bool(query.filters.of(name)),
        }
        for name, options in found.items()
        if options
    ]


def _option(query: Query, name: str, value: str, label: str, count: int, word: Word | None = None) -> Option:
    is_on = query.filters.has(name, value)
    return Option(label, count, is_on, query.url(query.filters.toggled(name, value)), word)


def _relaxed(asked: Listing, query: Query) -> list[dict[str, Any]]:
    """What each filter keeps out, when nothing is left."""
    return [
        {"label": NAMES[name].lower(), "count": count, "url": query.url(query.filters.without(name))}
        for name, count in facets.relaxed(asked)
    ]


# ---------------------------------------------------------------- rows


def _row(
    found: Observed, asked: Listing, chosen: Chosen, actions: list[dict[str, str]], allowed: dict[str, set[str]]
) -> dict[str, Any]:
    row = found.row
    known = row.facts
    claims = {claim.name: claim.value for claim in row.claims.all()} if chosen.claims else {}
    taints = list(row.taints.all())
    return {
        "name": row.name,
        "url": actions[0]["url"].replace(MARK, row.name),
        "word": found.status.word,
        "since": found.status.since,
        "why": found.status.sentence,
        "heard": found.last_heard,
        "sets": asked.sets_of(row),
        "version": row.kubernetes_version,
        "certificate": _certificate(known, asked.now) if known else None,
        "taints": taints,
        "accepted": row.hub_accepts_client,
        "age": row.created,
        "cells": [(column, claims.get(column.id.removeprefix(columns.CLAIM), "")) for column in chosen.columns],
        "kubectl": f"kubectl get managedcluster {row.name} -o yaml",
        "actions": _acts_on(row, actions, allowed),
    }


def _certificate(known: ClusterFacts, now: datetime) -> dict[str, Any] | None:
    ends = known.certificate_not_after
    if ends is None:
        return None
    bucket = bucket_of(known, now)
    return {
        "begins": known.certificate_not_before,
        "ends": ends,
        "day": f"{ends:%d %b %Y}".lstrip("0"),
        "tone": tone_of(known, now),
        "over": {ExpiryBucket.REVOKED: "revoked", ExpiryBucket.EXPIRED: "ended"}.get(bucket, ""),
    }


def _actions() -> list[dict[str, str]]:
    """As of a cluster named ``MARK``: one address to fill in is cheaper than hundreds to make."""
    found = []
    for label, icon, route, more, act in ACTIONS:
        try:
            url = reverse(route, args=[MARK, *more])
            found.append({"label": label, "icon": icon, "route": route, "url": url, "act": act})
        except NoReverseMatch:
            continue
    return found


def _acts_on(row: ManagedCluster, actions: list[dict[str, str]], allowed: dict[str, set[str]]) -> list[dict[str, str]]:
    return [
        {**action, "url": action["url"].replace(MARK, row.name)}
        for action in actions
        if (row.hub_accepts_client or action["route"] != "registration:disconnect")
        and (not action["act"] or row.name in allowed.get(action["act"], ()))
    ]


def _choices(chosen: Chosen) -> dict[str, Any]:
    return {
        "columns": [(column, column.id in chosen.ids) for column in columns.COLUMNS.values()],
        "claims": "\n".join(chosen.claims),
    }


# ---------------------------------------------------------------- counts


def _about(count: int) -> str:
    """Exact up to ten thousand: beyond it nobody counts on the last figure."""
    return f"{count:,}" if count <= EXACT_UP_TO else f"about {round(count, -2):,}"
