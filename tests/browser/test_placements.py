"""Placements as people use them: why a cluster is not chosen, and a console for rights in one namespace."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Response, expect

from tests.browser.people import Console
from tests.fleet import MERGE, Doc, Fleet, NotYet, eventually

GROUP = "cluster.open-cluster-management.io"
RBAC = "rbac.authorization.k8s.io"
SETS = f"/apis/{GROUP}/v1beta2/managedclustersets"
TEAM = "tills"
PLACEMENTS = f"/apis/{GROUP}/v1beta1/namespaces/{TEAM}/placements"
DECISIONS = f"/apis/{GROUP}/v1beta1/namespaces/{TEAM}/placementdecisions"
AUTHOR, PASSWORD = "paula", "places-in-one-namespace"
MISTAKE: list[Doc] = [{"operator": "Equal", "value": "true"}]  # an operator that needs a key
KNOWS = f"""
from django.contrib.auth.models import User
User.objects.create_user({AUTHOR!r}, password={PASSWORD!r})
"""


def make(fleet: Fleet, path: str, version: str, kind: str, doc: Doc) -> None:
    fleet.admin.post(path, json={"apiVersion": version, "kind": kind, **doc}).raise_for_status()


@pytest.fixture(scope="module", autouse=True)
def scene(fleet: Fleet) -> None:
    """A set with two clusters, bound into a namespace in which paula writes placements and holds nothing else."""
    make(fleet, SETS, f"{GROUP}/v1beta2", "ManagedClusterSet", {"metadata": {"name": "registers"}})
    for name, env in (("register-1", "prod"), ("register-2", "test")):
        fleet.join(name, labels={f"{GROUP}/clusterset": "registers", "env": env})
        fleet.patch(name, {"spec": {"leaseDurationSeconds": 3600}})  # heard once: not silent before the tests are over
    make(fleet, "/api/v1/namespaces", "v1", "Namespace", {"metadata": {"name": TEAM}})
    binding = {"metadata": {"name": "registers"}, "spec": {"clusterSet": "registers"}}
    path = f"/apis/{GROUP}/v1beta2/namespaces/{TEAM}/managedclustersetbindings"
    make(fleet, path, f"{GROUP}/v1beta2", "ManagedClusterSetBinding", binding)
    rules = [
        {"apiGroups": [GROUP], "resources": ["placements"], "verbs": ["*"]},
        {
            "apiGroups": [GROUP],
            "resources": ["placementdecisions", "managedclustersetbindings"],
            "verbs": ["get", "list", "watch"],
        },
    ]
    home = f"/apis/{RBAC}/v1/namespaces/{TEAM}"
    make(fleet, f"{home}/roles", f"{RBAC}/v1", "Role", {"metadata": {"name": "author"}, "rules": rules})
    bound = {
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "author"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": AUTHOR}],
    }
    make(fleet, f"{home}/rolebindings", f"{RBAC}/v1", "RoleBinding", bound)
    fleet.hub.manage("shell", "-c", KNOWS)


def place(fleet: Fleet, name: str, spec: Doc) -> None:
    make(fleet, PLACEMENTS, f"{GROUP}/v1beta1", "Placement", {"metadata": {"name": name}, "spec": spec})


def chosen(fleet: Fleet, name: str) -> list[str]:
    found = fleet.admin.get(DECISIONS, params={"labelSelector": f"{GROUP}/placement={name}"}).json()["items"]
    return sorted(each["clusterName"] for part in found for each in (part.get("status") or {}).get("decisions") or ())


def wait_for(fleet: Fleet, name: str, clusters: list[str]) -> None:
    def look() -> None:
        if (found := chosen(fleet, name)) != clusters:
            raise NotYet(f"{name} has chosen {found}")

    eventually(look)


def tolerate(fleet: Fleet, name: str, tolerations: list[Doc] | None) -> None:
    change = {"spec": {"tolerations": tolerations}}
    fleet.admin.patch(f"{PLACEMENTS}/{name}", json=change, headers=MERGE).raise_for_status()


def env_is(*values: str) -> list[Doc]:
    expression = {"key": "env", "operator": "In", "values": [*values]}
    return [{"requiredClusterSelector": {"labelSelector": {"matchExpressions": [expression]}}}]


def test_from_why_not_over_the_smallest_change_to_chosen(console: Console, fleet: Fleet) -> None:
    place(fleet, "receipts", {"predicates": env_is("prod")})
    wait_for(fleet, "receipts", ["register-1"])
    console.sign_in()
    page = console.page
    console.open(f"/placements/{TEAM}/receipts/")
    page.get_by_role("link", name="Why not", exact=True).click()
    row = page.get_by_role("row", name=re.compile("register-2"))
    expect(row).to_contain_text("label env is test, needs env in (prod)")
    expect(row).to_contain_text("set env=prod")
    row.get_by_role("link", name=re.compile("^Pretend")).click()
    expect(page.get_by_role("heading", name="2 clusters would be chosen")).to_be_visible()
    expect(page.get_by_text("1 would enter")).to_be_visible()
    assert chosen(fleet, "receipts") == ["register-1"]  # pretended only
    fleet.patch("register-2", {"metadata": {"labels": {"env": "prod"}}})
    wait_for(fleet, "receipts", ["register-1", "register-2"])
    console.open(f"/placements/{TEAM}/receipts/")
    expect(page.locator("#state")).to_contain_text("2 clusters chosen")
    expect(page.locator("#decisions")).to_contain_text("register-2")
    expect(page.locator("#happened")).to_contain_text("Entered: register-2")
    fleet.patch("register-2", {"metadata": {"labels": {"env": "test"}}})


def test_maintenance_says_who_drops_the_cluster_and_its_end_brings_the_placements_back(
    console: Console, fleet: Fleet
) -> None:
    place(fleet, "shifts", {})
    wait_for(fleet, "shifts", ["register-1", "register-2"])
    console.sign_in()
    page = console.page
    console.open("/clusters/register-2/maintenance/")
    preview = page.get_by_role("listitem").filter(has_text="would drop it with the effect NoSelect")
    expect(preview.get_by_role("link", name=f"{TEAM}/shifts", exact=True)).to_be_visible()
    assert chosen(fleet, "shifts") == ["register-1", "register-2"]  # worked out only
    page.get_by_label("Reason").fill("new power supply")
    page.get_by_role("radio", name=re.compile("^Placements drop the cluster")).check()
    page.get_by_role("button", name="Start maintenance").click()
    expect(page.locator("#state")).to_contain_text("In maintenance by admin")
    wait_for(fleet, "shifts", ["register-1"])
    console.open(f"/placements/{TEAM}/shifts/")
    expect(page.locator("#decisions")).not_to_contain_text("register-2")
    expect(page.locator("#happened")).to_contain_text("Left: register-2")
    expect(page.locator("#happened")).to_contain_text("ocmconsole.io/maintenance")
    console.open("/clusters/register-2/")
    page.get_by_role("button", name="End now").click()
    expect(page.get_by_role("status").first).to_contain_text("is over")
    wait_for(fleet, "shifts", ["register-1", "register-2"])
    console.open(f"/placements/{TEAM}/shifts/")
    expect(page.locator("#decisions")).to_contain_text("register-2")
    expect(page.locator("#happened")).to_contain_text("Entered: register-2")


def test_the_change_that_broke_a_placement_is_undone_by_a_press(console: Console, fleet: Fleet) -> None:
    place(fleet, "refunds", {"predicates": env_is("prod")})
    wait_for(fleet, "refunds", ["register-1"])
    console.sign_in()
    page = console.page
    console.open(f"/placements/{TEAM}/refunds/")
    broken = page.get_by_role("region", name="The change that broke it")
    tolerate(fleet, "refunds", MISTAKE)  # from here on the page that is open shows each state by itself
    expect(broken).to_contain_text("operator: Equal")
    tolerate(fleet, "refunds", None)
    expect(page.locator("#headline")).to_contain_text("Satisfied")
    expect(broken).to_have_count(0)
    tolerate(fleet, "refunds", MISTAKE)
    fleet.patch("register-2", {"metadata": {"labels": {"env": "prod"}}})
    expect(page.locator("#headline")).to_contain_text("Misconfigured")
    expect(page.locator("#state")).to_contain_text("The last good 1 is kept")
    expect(broken).to_contain_text("operator: Equal")
    expect(broken).to_contain_text("1 cluster enters, 0 leave, 1 stays")
    assert chosen(fleet, "refunds") == ["register-1"]
    page.get_by_role("button", name="Undo the change that broke it").click()
    expect(page.get_by_role("status").first).to_contain_text("as it was before that change")
    wait_for(fleet, "refunds", ["register-1", "register-2"])
    spec = fleet.admin.get(f"{PLACEMENTS}/refunds").json()["spec"]
    assert (spec["predicates"], "tolerations" in spec) == (env_is("prod"), False)
    expect(page.locator("#headline")).to_contain_text("Satisfied")
    expect(page.locator("#state")).to_contain_text("2 clusters chosen")
    expect(broken).to_have_count(0)
    expect(page.get_by_role("status").first).to_contain_text("as it was before that change")
    expect(page.locator("#decisions")).to_contain_text("register-2")
    expect(page.locator("#happened")).to_contain_text("Entered: register-2")
    page.get_by_role("link", name="History", exact=True).click()
    drawn = page.get_by_role("table", name=re.compile("^Who was chosen since"))
    expect(drawn.get_by_role("row", name=re.compile("^register-2"))).to_contain_text("since ")
    fleet.patch("register-2", {"metadata": {"labels": {"env": "test"}}})


def test_with_rights_in_one_namespace_a_placement_is_made_and_its_reasons_are_read(
    console: Console, fleet: Fleet
) -> None:
    page = console.page
    refused: list[str] = []
    page.on("response", lambda answer: _note(answer, refused))
    console.sign_in_with_the_form(AUTHOR, PASSWORD)
    expect(page.get_by_role("heading", name="Your placements")).to_be_visible()
    _walk(page)
    page.get_by_role("link", name="Playground", exact=True).first.click()
    expect(page.get_by_label("Namespace")).to_have_value(TEAM)
    page.get_by_role("button", name="Label", exact=True).click()
    page.get_by_label("Key").fill("env")
    page.get_by_label("Values").fill("prod")
    page.get_by_role("button", name="Work it out").last.click()
    expect(page.get_by_role("heading", name="1 cluster would be chosen")).to_be_visible()
    expect(page.get_by_text("alone: 1 pass")).to_be_visible()
    expect(page.locator("#reasons")).to_contain_text("label env in (prod) does not hold")
    page.get_by_role("button", name="Review and save…").click()
    expect(page.get_by_role("heading", name="1 cluster will be chosen")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("labels")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="labels", level=1)).to_be_visible()
    wait_for(fleet, "labels", ["register-1"])
    page.reload()
    expect(page.locator("#decisions")).to_contain_text("register-1")
    page.get_by_role("link", name="Why not", exact=True).click()
    expect(page.locator("#reasons")).to_contain_text("label env in (prod) does not hold")
    expect(page.locator("main")).not_to_contain_text("register-2")
    assert refused == []


def _note(answer: Response, refused: list[str]) -> None:
    if answer.status in {401, 403, 404}:
        refused.append(f"{answer.status} {urlsplit(answer.url).path}")


def _walk(page: Page) -> None:
    """Every page of the navigation has something on it for this person, and none is about the fleet."""
    links = page.get_by_role("navigation", name="Main", exact=True).get_by_role("link").all()
    names = [link.inner_text().strip() for link in links]
    assert {"Placements", "Playground", "Namespaces & bindings"} <= {*names}
    assert not {"Approvals", "Clusters", "Certificates", "Sets"} & {*names}
    for path in [str(link.get_attribute("href")) for link in links]:
        page.goto(f"{urlsplit(page.url).scheme}://{urlsplit(page.url).netloc}{path}")
        expect(page.locator("h1")).to_be_visible()
    page.goto(f"{urlsplit(page.url).scheme}://{urlsplit(page.url).netloc}/")
