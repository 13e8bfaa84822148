"""What a page offers can be done: a walk over the console as somebody who owns sets and holds nothing else."""

from __future__ import annotations

import html
import re
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from clusters.kinds import CLUSTERSET_LABEL, GROUP
from tests import factories as make
from tests import requests
from tests.actors import grant, person, rule, signed_in
from tests.pages import joining

pytestmark = pytest.mark.django_db

OF_EACH = 2  # addresses of one shape that the walk opens
SHAPED = re.compile(r"(?<=/)(?:web|db|other|prod|shop|ops|default)(?:-\w+)?(?=/)|\?.*")
ELSEWHERE = ("/static/", "/admin/", "/activity/", "/help/", "/logout/", "/account/", "/preferences/", "/login/")
# Pages whose only purpose is an act.
ACT = re.compile(
    r"/(maintenance|remove|disconnect|reconnect|set|_add|_delete|_bind|_unbind|_new|mint|add|give|take|revoke|edit|new)/"
    r"|/sets/_move/"
)
DENIED = re.compile(r'<p class="oc-denied".*?</p>', re.DOTALL)
FORM = re.compile(r"<form([^>]*)>(.*?)</form>", re.DOTALL)


@pytest.fixture(autouse=True)
def fleet(tmp_path: Path, settings: Any) -> None:
    joining.hub(tmp_path, settings)
    for name in ("default", "web", "db", "other"):
        make.clusterset(name)
    chosen = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"env": "prod"}}}
    make.clusterset("prod", selector=chosen)
    for name, of, env in (("web-1", "web", "prod"), ("web-2", "web", "test"), ("other-1", "other", "prod")):
        make.cluster(name, accepted=True, labels={CLUSTERSET_LABEL: of, "env": env})
    make.cluster("db-new", by=requests.BOOTSTRAP)
    make.label("db-new", {CLUSTERSET_LABEL: "db"})
    for name in ("shop", "ops"):
        make.namespace(name)
    make.binding("web", namespace="shop")
    make.settle()


def owner(*names: str) -> Client:
    """li, by the preset alone."""
    boss, li = signed_in("boss", is_superuser=True), signed_in("li")
    for name in names:
        wish = {"preset": "set-owner", "holder": "li", "scope": "set", "set": name, "names": "", "namespace": ""}
        assert boss.post("/access/give/", wish).status_code == 302
    return li


def walked(client: Client) -> dict[str, Any]:
    """Answers by address, from the first page on, a few of each shape."""
    answers: dict[str, Any] = {}
    waiting, shapes = deque([("/", "the start")]), Counter[str]()
    while waiting:
        address, at = waiting.popleft()
        shape = SHAPED.sub("", address)
        if address in answers or shapes[shape] >= OF_EACH:
            continue
        shapes[shape] += 1
        answer = answers[address] = client.get(address)
        assert answer.status_code in {200, 302}, f"{address}, offered at {at}"
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
            waiting.extend((link, address) for link in links(address, answer.content.decode()))
    return {address: answer for address, answer in answers.items() if hasattr(answer, "context")}


def links(address: str, page: str) -> Iterator[str]:
    for found in re.findall(r'href="([^"#]+)', page):
        link = html.unescape(found)
        link = address.partition("?")[0] + link if link.startswith("?") else link
        if (
            link.startswith("/")
            and not link.startswith(ELSEWHERE)
            and "/_export/" not in link
            and "export=" not in link
        ):
            yield link


@pytest.mark.contract("A6", "D16")
def test_a_set_owner_is_offered_only_what_a_set_owner_may_do() -> None:
    client = owner("web", "db", "prod")
    pages = {
        address: answer.content.decode()
        for address, answer in walked(client).items()
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html")
    }
    opened = {SHAPED.sub("", address) for address in pages}
    assert {"/clusters//", "/clusters//taints/", "/sets//", "/sets//_add/", "/sets//people/"} <= opened
    assert [address for address in pages if ACT.search(address) and DENIED.search(pages[address])] == []
    for address, page in pages.items():
        for denied in DENIED.findall(page):
            assert ">Why?</a>" in denied, address
    for address, page in pages.items():
        for attributes, fields in FORM.findall(page):
            action = re.search(r'action="([^"]*)"', attributes)
            path = html.unescape(action[1]) if action and action[1] else address
            if 'method="post"' in attributes and "submit" in fields and not path.startswith(ELSEWHERE):
                assert client.post(path, values(fields)).status_code != 403, (address, path)


def values(fields: str) -> dict[str, str]:
    """What the form sends as it stands there, the first of each choice."""
    found = {
        name[1]: html.unescape(value[1]) if value else ""
        for each in re.findall(r"<input[^>]*>", fields)
        if (name := re.search(r'name="([^"]*)"', each))
        for value in [re.search(r'value="([^"]*)"', each)]
    }
    for name, options in re.findall(r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>', fields, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options) or re.search(r'value="([^"]+)"', options)
        found[name] = html.unescape(chosen[1]) if chosen else ""
    return found


def test_who_may_change_one_cluster_is_offered_its_acts_and_those_of_no_other() -> None:
    client = signed_in("li")
    grant(person("li"), rule("get list", "managedclusters", groups=GROUP))
    grant(person("li"), rule("patch", "managedclusters", groups=GROUP, names="web-1"))
    shown = client.get("/clusters/")
    offered = {row["name"]: [action["label"] for action in row["actions"]] for row in shown.context["clusters"]}
    assert offered["web-1"] == ["Open", "Maintenance…", "Taints"]
    assert offered["web-2"] == ["Open", "Taints"]
    assert [act.name for act in shown.context["acts"]] == ["maintenance", "end", "label", "taint"]


def test_who_only_looks_is_offered_nothing_to_select() -> None:
    client = signed_in("li")
    grant(person("li"), rule("get list", "managedclusters", groups=GROUP))
    page = client.get("/clusters/").content.decode()
    assert 'id="bulk"' not in page
    assert 'name="cluster"' not in page
    assert "Add cluster" not in page
