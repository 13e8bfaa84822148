"""Who may do what: people and groups, one of them, one resource, risky grants. Admins see all, others themselves."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from ocmconsole.access import people_list, risky_grants, services, who_can
from ocmconsole.access.forms import MembershipForm
from ocmconsole.access.who_can import Source
from ocmconsole.components.links import audit_url, explain_url
from ocmconsole.core.rbac import known_rights
from ocmconsole.core.rbac.rule_index import Subject
from ocmconsole.kubeapi.access.session import actor_for, actor_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

    from ocmconsole.kubeapi.access.actor import Actor

HOLDER = {"User": "access:user", "Group": "access:group"}
MOST_SUGGESTED = 500  # names that a field suggests
MOST_DIGITS = 9  # of a page's number


@login_required
@require_GET
def listed(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    if not services.sees_everyone(actor):
        return _holder(request, Subject("User", actor.user))
    query, kind, number = request.GET.get("q", "").strip(), request.GET.get("kind", ""), request.GET.get("page", "")
    page = people_list.people_page(
        int(number[:MOST_DIGITS]) if number.isascii() and number.isdigit() else 1, kind=kind, query=query[:320]
    )
    context = {
        "page": page,
        "lines": [{"line": line, "url": url_of(line.subject)} for line in page.lines],
        "query": query,
        "kind": kind,
    }
    return render(request, "access/list.html", context | frame(actor, "people"))


def url_of(subject: Subject) -> str:
    return reverse(HOLDER[subject.kind], args=[subject.name])


def frame(actor: Actor, current: str) -> dict[str, Any]:
    """Tabs and buttons of the pages that are about everybody."""
    waiting = services.waiting_requests(actor).count()
    tabs = (
        ("people", "People and groups", "access:list", 0),
        ("resource", "By resource", "access:resource", 0),
        ("risks", "Risky grants", "access:risks", 0),
        ("requests", "Requests", "access:requests", waiting),
    )
    return {
        "tabs": [
            {"label": label, "url": reverse(route), "count": count, "current": key == current}
            for key, label, route, count in tabs
        ],
        "administers": services.administers(actor),
    }


# ---------------------------------------------------------------- one person, one group


@login_required
@require_GET
def user(request: HttpRequest, name: str) -> HttpResponse:
    return _holder(request, Subject("User", name))


@login_required
@require_GET
def group(request: HttpRequest, name: str) -> HttpResponse:
    return _holder(request, Subject("Group", name))


def _holder(request: HttpRequest, subject: Subject) -> HttpResponse:
    actor = actor_of(request)
    is_self = subject == Subject("User", actor.user)
    if not is_self and not services.sees_everyone(actor):
        raise Http404("There is nobody of this name, or you may not see them.")
    person: Any = User.objects.filter(username=subject.name).first() if subject.kind == "User" else None
    team: Any = Group.objects.filter(name=subject.name).first() if subject.kind == "Group" else None
    groups = list(person.groups.order_by("name").values_list("name", flat=True)) if person else []
    held = who_can.held_by([subject, *(Subject("Group", name) for name in groups)])
    if not (person or team or held[subject] or is_self):
        raise Http404("There is nobody of this name, or you may not see them.")
    administers = services.administers(actor)
    parts = [_part(subject, held[subject], administers=administers)]
    parts += [_part(Subject("Group", name), held[Subject("Group", name)], administers=False) for name in groups]
    all_sources = [source for sources in held.values() for source in sources]
    seen = known_rights.seen_by(actor if is_self else actor_for(person)) if person and person.is_active else {}
    context = {
        "subject": subject,
        "is_self": is_self,
        "person": person,
        "team": team,
        "members": list(team.user_set.order_by("username").values_list("username", flat=True)[:100]) if team else [],
        "groups": groups,
        "parts": parts,
        "sentences": who_can.sentences(all_sources),
        "seen": seen,
        "risks": risky_grants.risks(held, {subject.name: groups}),
        "administers": administers,
        "sees_everyone": services.sees_everyone(actor),
        "membership": MembershipForm(initial={"groups": person.groups.all()}) if person else None,
        "audit_url": audit_url("users" if subject.kind == "User" else "groups", subject.name),
        "give_url": f"{reverse('access:give')}?{urlencode({'holder': written(subject)})}",
    }
    return render(request, "access/holder.html", context)


def written(subject: Subject) -> str:
    """As the form of giving reads it."""
    return subject.name if subject.kind == "User" else f"group:{subject.name}"


def _part(subject: Subject, sources: list[Source], *, administers: bool) -> dict[str, Any]:
    """What one name holds, a row a source."""
    ordered = sorted(who_can.with_givers(sources), key=lambda source: (source.sentence, source.text))
    rows = [{"source": source, "take_url": _take_url(source) if administers else ""} for source in ordered]
    return {"subject": subject, "rows": rows, "url": url_of(subject)}


def _take_url(source: Source) -> str:
    if source.given_by is who_can.GrantSource.SUPERUSER:
        return ""
    asked = {"holder": written(source.subject), "source": services.key_of(source)}
    return f"{reverse('access:take')}?{urlencode(asked)}"


# ---------------------------------------------------------------- one resource


@login_required
@require_GET
def resource(request: HttpRequest) -> HttpResponse:
    """Who can accept, join, bind, see, change, remove this."""
    actor = actor_of(request)
    _require_sight(actor)
    offered = list(dict.fromkeys(right.resource for right in known_rights.all_rights()))
    chosen, name = request.GET.get("resource", offered[0]), request.GET.get("name", "").strip()
    if chosen not in offered or len(name) > known_rights.LONGEST or not name.isprintable():
        raise Http404("This resource has no rights of its own.")
    plural, _, group_name = chosen.partition(".")
    context = {
        "offered": offered,
        "chosen": chosen,
        "name": name,
        "plural": plural,
        "rights": [_right(right, name) for right in known_rights.rights_on(group_name, plural)],
        "names": known_rights.names_seen(actor, group_name, plural, most=MOST_SUGGESTED),
    }
    return render(request, "access/resource.html", context | frame(actor, "resource"))


def _right(right: known_rights.Right, name: str) -> dict[str, Any]:
    asked = known_rights.question(right.word, right.resource, name=name)
    return {
        "word": right.word,
        "sentence": right.sentence([name] if name else [known_rights.ALL]),
        "holders": [
            {"subject": subject, "sources": list(sources), "url": url_of(subject)}
            for subject, sources in groupby(who_can.find_sources(asked), key=lambda source: source.subject)
            if who_can.is_person(subject)
        ],
        "explain_url": explain_url(right.word, right.resource, name=name),
    }


# ---------------------------------------------------------------- risks


@login_required
@require_GET
def risky(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    _require_sight(actor)
    found = risky_grants.risks(who_can.held_by(), people_list.groups_by_person())
    given = who_can.with_givers([risk.source for risk in found])
    rows = [
        {"risk": risk, "source": source, "url": url_of(risk.source.subject), "take_url": _take_url(source)}
        for risk, source in zip(found, given, strict=True)
    ]
    return render(request, "access/risks.html", {"rows": rows} | frame(actor, "risks"))


def _require_sight(actor: Actor) -> None:
    if not services.sees_everyone(actor):
        raise PermissionDenied("You may see your own access only.")


def found_or_404(holder: str, key: str) -> Source:
    """The source that an address names."""
    kind, mark, name = holder.partition(":")
    subject = Subject("Group", name) if mark and kind == "group" else Subject("User", holder)
    source = services.find_source(subject, key)
    if source is None:
        raise Http404("This is not given any more.")
    return source
