"""A demonstration hub in process, five people who look at it, and every address of the console that each may open.

It is built once for a module and its clock stands still, so that pages and rows speak of one moment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import time_machine
from django.contrib.auth.models import User
from django.test import Client, override_settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from clusters.fleet import bulk_acts
from ocmconsole.access import services
from ocmconsole.core.rbac import rule_index
from ocmconsole.core.rbac.known_rights import question
from ocmconsole.demo import building
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.control import workqueue
from ocmconsole.kubeapi.models import AuditEvent, BulkJob
from registration.policies import policy_services
from registration.policies.policy_matching import PolicyInput
from tests.pages.truth.dom import Node, parsed
from tests.pages.truth.rows import Rows

PEOPLE = ("admin", "ana", "raj", "li", "mallory")
# Who sees every cluster.
WHOLE = ("admin", "ana", "li")
# The fewest that are in every state with a few healthy ones beside.
CLUSTERS = 48
# Streams without an end, files of other programs, and signing in, which has tests of its own.
ELSEWHERE = re.compile(r"^(login|logout|session|account|admin|live|static)")
NO_PAGE = 405
TABS = {
    "clusters": ("summary", "health", "identity", "taints", "claims", "sets", "events", "yaml"),
    "sets": ("members", "bindings", "people", "definition"),
}


def acting(name: str) -> Actor:
    return actor_for(User.objects.get(username=name), entry_point=EntryPoint.WEB, credential=f"session:{name}")


@dataclass(frozen=True)
class Answer:
    status: int
    type: str
    html: str

    @cached_property
    def page(self) -> Node:
        return parsed(self.html)

    @cached_property
    def main(self) -> Node:
        """The page without its frame; all of a fragment."""
        found = self.page.all(id="main")
        return found[0] if found else self.page

    @property
    def text(self) -> str:
        return self.main.text


@dataclass
class Site:
    """The hub, seen by five people. Nothing changes it, so each page is asked for once."""

    now: datetime
    rows: Rows
    job: BulkJob
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    clients: dict[str, Client] = field(default_factory=dict)

    def get(self, person: str, path: str) -> Answer:
        if (person, path) not in self.answers:
            if person not in self.clients:
                self.clients[person] = Client()
                self.clients[person].force_login(User.objects.get(username=person))
            found: Any = self.clients[person].get(path)
            body = b"".join(found.streaming_content) if found.streaming else found.content
            kind = found.headers.get("Content-Type", "")
            self.answers[person, path] = Answer(found.status_code, kind, body.decode(errors="replace"))
        return self.answers[person, path]

    def main(self, person: str, path: str) -> Node:
        answer = self.get(person, path)
        assert answer.status == 200, (person, path, answer.status)
        return answer.main

    def text(self, person: str, path: str) -> str:
        return self.main(person, path).text


@contextmanager
def standing(home: Path) -> Iterator[Site]:
    """Filled; the database of the test takes it away again."""
    with override_settings(OCMCONSOLE_HOME=home):
        rule_index.index.forget()
        building.build(CLUSTERS, seed=1, password="shown-to-everybody")
        with time_machine.travel(timezone.now(), tick=False):
            yield _finished()


def _finished() -> Site:
    """What nobody of the demonstration has done: a policy, a wish, something refused, an act on several."""
    now = timezone.now()
    rule = PolicyInput(
        name="shops", pattern="store-fr-*", reason="New shops of this month.", expires=now + timedelta(days=9)
    )
    policy_services.create_policy(acting("admin"), rule)
    asked = question("accept", "managedclusters.cluster.open-cluster-management.io", name="")
    services.request_access(acting("li"), asked, "I look after the shops this week.")
    rows = Rows.read(now)
    names = [rows.named("Healthy"), rows.named("Silent"), rows.named("Removing")]
    job = bulk_acts.start_act(acting("admin"), bulk_acts.LABEL, names, {"key": "cost-centre", "value": "4711"})
    workqueue.drain()
    return Site(now, Rows.read(now), job)


# ---------------------------------------------------------------- every address


def routes(resolver: URLResolver | None = None, before: str = "") -> Iterator[str]:
    for entry in (resolver or get_resolver()).url_patterns:
        route = before + str(entry.pattern)
        if ELSEWHERE.match(route):
            continue
        if isinstance(entry, URLPattern):
            yield route
        else:
            yield from routes(entry, route)


def addresses(site: Site, person: str) -> list[str]:
    """Each route for some objects that it can be about, and lists filtered in each way.

    Pages of clusters and requests are opened in every state by the admin and by the owner of a set alone, for cost.
    """
    found: set[str] = set()
    for route in routes():
        filled = [route]
        if "<str:tab>" in route:
            filled = [route.replace("<str:tab>", tab) for tab in TABS[route.partition("/")[0]]]
        for each in filled:
            found.update(_filled(site, person, each))
    paths = sorted(f"/{each}" for each in found | set(QUERIES))
    # What only takes a POST answers everybody alike.
    return [path for path in paths if person == "admin" or site.get("admin", path).status != NO_PAGE]


def _filled(site: Site, person: str, route: str) -> Iterator[str]:
    names = sorted(set(re.findall(r"<\w+:(\w+)>", route)))
    if not names:
        yield route
        return
    for choice in _choices(site, person, route, names):
        yield re.sub(r"<\w+:(\w+)>", lambda match: str(choice[match[1]]), route)  # noqa: B023 - used at once


def _choices(site: Site, person: str, route: str, names: list[str]) -> Iterator[dict[str, Any]]:
    rows, head = site.rows, route.partition("/")[0]
    words: dict[str, str] = {}
    for name in sorted(rows.seen_by(person) or rows.clusters):
        words.setdefault(rows.word(name), name)
    is_deep = person in {"admin", "raj"}
    deep = is_deep and route in {"clusters/<str:name>/", "clusters/<str:name>/health/", "clusters/<str:name>/identity/"}
    clusters = [*words.values()] if deep else [words["Healthy"], words["Silent"]][: 1 + is_deep]
    waiting = sorted(rows.waiting("admin"))
    fixed: dict[str, list[Any]] = {
        "cluster": clusters[:1],
        "namespace": ["shop", "payments"],
        "fingerprint": [rows.issued[0]["fingerprint"], rows.issued[-1]["fingerprint"]],
        "token_id": [rows.tokens[0]["id"], rows.tokens[-1]["id"]],
        "form": ["csv", "json"],
        "what": ["klusterlet.yaml", "bootstrap.kubeconfig"],
        "view": [1],
        "number": [1],
        "entry": [AuditEvent.objects.filter(user="ana").latest("pk").pk],
        "pk": [site.job.pk],
    }
    named = {
        "sets": ["stores-fr", "production", "global", "default"],
        "policies": ["shops"],
        "approvals": waiting if is_deep and route == "approvals/<str:name>/" else waiting[:1],
        "access": ["raj"] if "users" in route else ["operators"],
        "namespaces": ["web"],
    }  # fmt: skip
    values = {name: named.get(head, clusters) if name == "name" else fixed[name] for name in names}
    most = max(len(each) for each in values.values())
    for index in range(most):
        if index == 0 or is_deep:
            yield {name: each[min(index, len(each) - 1)] for name, each in values.items()}


QUERIES = (
    "search/?q=store",
    "search/?q=nothing-like-it",
    "clusters/?status=attention",
    "clusters/?status=silent",
    "clusters/?set=stores-fr",
    "clusters/?q=nothing-like-it",
    "clusters/?certificate=expired&certificate=week&certificate=soon",
    "claims/?label=env",
    "claims/?claim=platform.open-cluster-management.io",
    "activity/?source=audit",
    "activity/?actor=ana",
    "activity/?denied=1",
    "activity/?export=jsonl",
    "activity/report/?from=2020-01-01&to=2099-01-01",
    "certificates/?bucket=removed",
    "certificates/?bucket=revoked",
    "certificates/?bucket=ended",
    "certificates/-/fallen/?trouble=ended",
    "approvals/?verdict=safe",
    "approvals/?verdict=blocked",
    "approvals/-/selected/?all=safe",
    "approvals/-/together/?act=accept&all=safe",
    "tokens/?state=usable",
    "namespaces/?of=clusters",
    "sets/?view=map",
    "access/?kind=group",
    "access/explain/?verb=accept&resource=managedclusters.cluster.open-cluster-management.io&name=payments-eu",
    "access/resources/?resource=managedclusters.cluster.open-cluster-management.io",
)
