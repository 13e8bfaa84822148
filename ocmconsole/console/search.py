"""Search over everything a person may see and do: the palette asks, and without scripts it is a page."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import Case, IntegerField, Q, Value, When
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from clusters import queries as clusters
from clustersets import queries as clustersets
from ocmconsole.access import services
from ocmconsole.components.links import EXPLAIN
from ocmconsole.console import navigation
from ocmconsole.core.tokens import bootstrap_terms, tokens
from ocmconsole.kubeapi.access.session import actor_of
from placements import queries as placements
from registration.models import IssuedCertificate
from registration.queries import waiting_names

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

MOST = 6  # hits of each kind; a longer list is that of the kind's own page
LONGEST = 200  # characters of a question; more are cut
SHORTEST_PRINT = 6  # of a serial number or fingerprint
NOUNS = {
    "Clusters": "cluster",
    "Sets": "set",
    "Placements": "placement",
    "Tokens": "bootstrap token",
    "People": "person",
}
HELP = (
    ("What the states of a cluster mean", "/help/#states"),
    ("What Safe, Check and Blocked mean", "/help/#verdicts"),
    ("Keys of the keyboard", "/help/#keys"),
)


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that was found, with ``detail`` beside it; ``name`` is in lower case and empty for what has none."""

    text: str
    url: str
    icon: str
    detail: str = ""
    name: str = ""


@dataclass(slots=True)
class HitGroup:
    """``total`` is how many fit; ``hits`` are the first of them."""

    label: str
    hits: list[Hit] = field(default_factory=list)
    total: int = 0

    def __post_init__(self) -> None:
        self.total = max(self.total, len(self.hits))

    @property
    def slug(self) -> str:
        return self.label.lower().replace(" ", "-")


# The first that fit, and how many do.
Found = tuple[list[Hit], int]


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """A page, or with the header ``X-Fragment`` its list alone."""
    query = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST]
    groups = found(request, query)
    context = {"query": query, "groups": groups, "total": sum(group.total for group in groups)}
    return render(
        request, "console/search.html#found" if "X-Fragment" in request.headers else "console/search.html", context
    )


def found(request: HttpRequest, query: str) -> list[HitGroup]:
    """Groups that hold something, in the order of 4.11; everything filtered by what the person may see.

    What has exactly the name that was typed comes before all groups, so that Enter opens it; Explain comes last.
    """
    actor = actor_of(request)
    pages = _pages(request, actor)
    if not query:
        return [HitGroup("Pages", pages)]
    groups = [
        HitGroup("Actions", *_actions(actor, query)),
        HitGroup("Clusters", *_clusters(actor, query)),
        HitGroup("Sets", *_sets(actor, query)),
        HitGroup("Placements", *_placements(actor, query)),
        HitGroup("Tokens", *_tokens(actor, query)),
        HitGroup("Certificates", *_certificates(actor, query)),
        HitGroup("People", *_people(actor, query)),
        HitGroup("Pages", [hit for hit in pages if query.lower() in hit.text.lower()]),
        HitGroup(
            "Help", [Hit(text, url, "circle-question-mark") for text, url in HELP if query.lower() in text.lower()]
        ),
    ]
    explain = Hit(f"Explain who may do what with {query}", f"{EXPLAIN}?name={quote(query)}", "circle-question-mark")
    found = [HitGroup("Exactly this name", _exact(groups, query)), *groups, HitGroup("Explain", [explain])]
    return [group for group in found if group.hits]


def _exact(groups: list[HitGroup], query: str) -> list[Hit]:
    """Takes the things of exactly this name out of their groups, with the group's name beside each."""
    exact = []
    for group in groups:
        same = [hit for hit in group.hits if hit.name == query.lower()]
        group.hits = [hit for hit in group.hits if hit not in same]
        group.total -= len(same)
        exact += [replace(hit, detail=NOUNS[group.label]) for hit in same]
    return exact


def _best(rows: QuerySet[Any], query: str) -> tuple[list[str], int]:
    """The first names that hold the text, and how many do: the name itself first, then what begins with it."""
    query = query.lower()
    fitting = rows.filter(name__contains=query).order_by(_rank(query), "name")
    names = list(fitting.values_list("name", flat=True)[:MOST])
    return names, _count(fitting, names)


def _rank(name: str) -> Case:
    """The name itself first, then what begins with it."""
    return Case(
        When(name=name, then=Value(0)),
        When(name__startswith=name, then=Value(1)),
        default=Value(2),
        output_field=IntegerField(),
    )


def _count(rows: QuerySet[Any], found: list[Any]) -> int:
    """How many rows there are, of which the first were found; counted only where there may be more."""
    return rows.count() if len(found) == MOST else len(found)


def _actions(actor: Actor, query: str) -> Found:
    waiting = [name for name in waiting_names(actor) if query.lower() in name]
    hits = [
        Hit(f"Decide about {name}", reverse("registration:request", args=[name]), "user-check", "waits for a decision")
        for name in waiting[:MOST]
    ]
    total = len(waiting)
    if len(query) > 1 and "mint token".startswith(query.lower()) and tokens.may_mint(actor).allowed:
        hits.append(Hit("Mint a bootstrap token", reverse("registration:tokens"), "ticket"))
        total += 1
    return hits, total


def _clusters(actor: Actor, query: str) -> Found:
    names, total = _best(clusters.clusters_for(actor), query)
    return [Hit(name, reverse("clusters:detail", args=[name]), "server", name=name) for name in names], total


def _sets(actor: Actor, query: str) -> Found:
    names, total = _best(clustersets.sets_for(actor), query)
    return [Hit(name, reverse("clustersets:set", args=[name]), "boxes", name=name) for name in names], total


def _placements(actor: Actor, query: str) -> Found:
    """By a part of the name, or by namespace and name as ``shop/checkout``."""
    namespace, mark, name = query.lower().rpartition("/")
    rows = placements.placements_for(actor).filter(name__contains=name)
    rows = (rows.filter(namespace=namespace) if mark else rows).order_by(_rank(name), "namespace", "name")
    hits = [
        Hit(
            f"{row.namespace}/{row.name}",
            reverse("placements:placement", args=[row.namespace, row.name]),
            "crosshair",
            name=f"{row.namespace}/{row.name}" if mark else row.name,
        )
        for row in rows[:MOST]
    ]
    return hits, _count(rows, hits)


def _tokens(actor: Actor, query: str) -> Found:
    rows = bootstrap_terms.tokens_for(actor).filter(Q(name__icontains=query) | Q(pk__startswith=query))
    listed = reverse("registration:tokens")
    hits = [
        Hit(row.name or row.pk, f"{listed}#token-{row.pk}", "ticket", f"minted by {row.created_by}", row.name.lower())
        for row in rows[:MOST]
    ]
    return hits, _count(rows, hits)


def _certificates(actor: Actor, query: str) -> Found:
    """By the beginning of a fingerprint or a serial number; of the clusters that the person sees."""
    wanted = query.lower().replace(":", "").removeprefix("sha256")
    if len(wanted) < SHORTEST_PRINT or not wanted.isalnum():
        return [], 0
    begins = (
        Q(fingerprint__startswith=wanted) | Q(serial__istartswith=wanted) | Q(serial__istartswith=wanted.lstrip("0"))
    )
    rows = IssuedCertificate.objects.filter(begins)
    if not clusters.sees_all(actor):
        rows = rows.filter(cluster__in=clusters.clusters_for(actor).values("name"))
    rows = rows.exclude(cluster="").order_by("-not_before")
    hits = [
        Hit(row.common_name, reverse("clusters:tab", args=[row.cluster, "identity"]), "file-key", row.fingerprint[:16])
        for row in rows[:MOST]
    ]
    return hits, _count(rows, hits)


def _people(actor: Actor, query: str) -> Found:
    """Users who see everyone find all users; others find themselves."""
    rows = User.objects.filter(username__icontains=query).order_by("username")
    rows = rows if services.sees_everyone(actor) else rows.filter(username=actor.user)
    hits = [
        Hit(
            row.username, reverse("access:user", args=[row.username]), "user", row.get_full_name(), row.username.lower()
        )
        for row in rows[:MOST]
    ]
    return hits, _count(rows, hits)


def _pages(request: HttpRequest, actor: Actor) -> list[Hit]:
    groups = navigation.menu(request, actor, {}).groups
    return [Hit(page.label, page.url, page.icon, group.label) for group in groups for page in group.pages]
