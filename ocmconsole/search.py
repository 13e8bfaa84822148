"""Search over everything a person may see and do (console 4.11): the palette asks, and without scripts it is a page."""

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
from ocmconsole import navigation
from ocmconsole.corekinds import access, bootstrap, tokens
from ocmconsole.kubeapi.links import EXPLAIN
from ocmconsole.kubeapi.session import actor_of
from registration.models import IssuedCertificate
from registration.queries import waiting_names

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.actor import Actor

MOST = 6
LONGEST = 200
SHORTEST_PRINT = 6  # of a serial number or fingerprint
NOUNS = {"Clusters": "cluster", "Sets": "set", "Tokens": "bootstrap token", "People": "person"}
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
class Group:
    label: str
    hits: list[Hit] = field(default_factory=list)

    @property
    def slug(self) -> str:
        return self.label.lower().replace(" ", "-")


@login_required
@require_GET
def search(request: HttpRequest) -> HttpResponse:
    """A page, or with the header ``X-Fragment`` its list alone."""
    query = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST]
    groups = found(request, query)
    context = {"query": query, "groups": groups, "total": sum(len(group.hits) for group in groups)}
    return render(request, "search.html#found" if "X-Fragment" in request.headers else "search.html", context)


def found(request: HttpRequest, query: str) -> list[Group]:
    """Groups that hold something, in the order of 4.11; everything filtered by what the person may see.

    What has exactly the name that was typed comes before all groups, so that Enter opens it; Explain comes last.
    """
    actor = actor_of(request)
    pages = _pages(request, actor)
    if not query:
        return [Group("Pages", pages)]
    groups = [
        Group("Actions", _actions(actor, query)),
        Group("Clusters", _clusters(actor, query)),
        Group("Sets", _sets(actor, query)),
        Group("Tokens", _tokens(actor, query)),
        Group("Certificates", _certificates(actor, query)),
        Group("People", _people(actor, query)),
        Group("Pages", [hit for hit in pages if query.lower() in hit.text.lower()]),
        Group("Help", [Hit(text, url, "circle-question-mark") for text, url in HELP if query.lower() in text.lower()]),
    ]
    explain = Hit(f"Explain who may do what with {query}", f"{EXPLAIN}?name={quote(query)}", "circle-question-mark")
    found = [Group("Exactly this name", _exact(groups, query)), *groups, Group("Explain", [explain])]
    return [group for group in found if group.hits]


def _exact(groups: list[Group], query: str) -> list[Hit]:
    """Takes the things of exactly this name out of their groups, with the group's name beside each."""
    exact = []
    for group in groups:
        same = [hit for hit in group.hits if hit.name == query.lower()]
        group.hits = [hit for hit in group.hits if hit not in same]
        exact += [replace(hit, detail=NOUNS[group.label]) for hit in same]
    return exact


def _best(rows: QuerySet[Any], query: str) -> list[str]:
    """Names that hold the text: the name itself first, then what begins with it."""
    query = query.lower()
    rank = Case(
        When(name=query, then=Value(0)),
        When(name__startswith=query, then=Value(1)),
        default=Value(2),
        output_field=IntegerField(),
    )
    fitting = rows.filter(name__contains=query).order_by(rank, "name")
    return list(fitting.values_list("name", flat=True)[:MOST])


def _actions(actor: Actor, query: str) -> list[Hit]:
    hits = [
        Hit(f"Decide about {name}", reverse("registration:request", args=[name]), "user-check", "waits for a decision")
        for name in waiting_names(actor)
        if query.lower() in name
    ][:MOST]
    if len(query) > 1 and "mint token".startswith(query.lower()) and tokens.may_mint(actor).allowed:
        hits.append(Hit("Mint a bootstrap token", reverse("registration:tokens"), "ticket"))
    return hits


def _clusters(actor: Actor, query: str) -> list[Hit]:
    names = _best(clusters.clusters_for(actor), query)
    return [Hit(name, reverse("clusters:detail", args=[name]), "server", name=name) for name in names]


def _sets(actor: Actor, query: str) -> list[Hit]:
    return [
        Hit(name, reverse("clustersets:set", args=[name]), "boxes", name=name)
        for name in _best(clustersets.sets_for(actor), query)
    ]


def _tokens(actor: Actor, query: str) -> list[Hit]:
    rows = bootstrap.tokens_for(actor).filter(Q(name__icontains=query) | Q(pk__startswith=query))
    listed = reverse("registration:tokens")
    return [
        Hit(row.name or row.pk, f"{listed}#token-{row.pk}", "ticket", f"minted by {row.created_by}", row.name.lower())
        for row in rows[:MOST]
    ]


def _certificates(actor: Actor, query: str) -> list[Hit]:
    """By the beginning of a fingerprint or a serial number; of the clusters that the person sees."""
    wanted = query.lower().replace(":", "").removeprefix("sha256")
    if len(wanted) < SHORTEST_PRINT or not wanted.isalnum():
        return []
    begins = (
        Q(fingerprint__startswith=wanted) | Q(serial__istartswith=wanted) | Q(serial__istartswith=wanted.lstrip("0"))
    )
    rows = IssuedCertificate.objects.filter(begins)
    if not clusters.sees_all(actor):
        rows = rows.filter(cluster__in=clusters.clusters_for(actor).values("name"))
    return [
        Hit(row.common_name, reverse("clusters:tab", args=[row.cluster, "identity"]), "file-key", row.fingerprint[:16])
        for row in rows.exclude(cluster="").order_by("-not_before")[:MOST]
    ]


def _people(actor: Actor, query: str) -> list[Hit]:
    """Whoever sees everyone looks anybody up; others find themselves."""
    rows = User.objects.filter(username__icontains=query).order_by("username")
    rows = rows if access.sees_everyone(actor) else rows.filter(username=actor.user)
    return [
        Hit(
            row.username, reverse("access:user", args=[row.username]), "user", row.get_full_name(), row.username.lower()
        )
        for row in rows[:MOST]
    ]


def _pages(request: HttpRequest, actor: Actor) -> list[Hit]:
    groups = navigation.menu(request, actor, {}).groups
    return [Hit(page.label, page.url, page.icon, group.label) for group in groups for page in group.pages]
