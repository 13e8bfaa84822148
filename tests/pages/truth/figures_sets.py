"""Figures of sets, namespaces, claims, exports and search."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter

from tests.pages.truth.demofleet import Site
from tests.pages.truth.figures import NOTHING, Compared, figure, number, numbers, table

# ---------------------------------------------------------------- sets


@figure("sets: how many, and the clusters of each", "admin", "li", "raj")
def _(site: Site, person: str) -> Compared:
    page = site.main(person, "/sets/")
    shown = {
        row.one("a", "oc-name").text: int(row.one("td", data_label="Clusters").text)
        for row in page.one("tbody").all("tr")
    }
    visible = {"stores-fr"} if person == "raj" else set(site.rows.sets)
    wanted = {name: len(site.rows.members(name, person)) for name in visible}
    return (number(r"(\d+) ManagedClusterSets?", page.text), shown), (len(visible), wanted)


@figure("sets: the states of the clusters of each", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for row in site.main(person, "/sets/").one("tbody").all("tr"):
        name = row.one("a", "oc-name").text
        links = [link.text.partition(" ") for link in row.one("td", data_label="Their state").all("a")]
        shown[name] = {word: int(count) for count, _, word in links}
        wanted[name] = dict(Counter(site.rows.word(each) for each in site.rows.members(name, person)))
    return shown, wanted


@figure("sets: into how many namespaces each is bound", "admin")
def _(site: Site, person: str) -> Compared:
    shown = {}
    for row in site.main(person, "/sets/").one("tbody").all("tr"):
        cell = row.one("td", data_label="Bound into").text
        shown[row.one("a", "oc-name").text] = 0 if cell == NOTHING else number(r"(\d+)", cell)
    bound = Counter(doc["spec"]["clusterSet"] for doc in site.rows.bindings.values())
    return shown, {name: bound[name] for name in site.rows.sets}


@figure("map of sets: a cluster is counted once in its state", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    text = table(site.text(person, "/sets/?view=map"), "Clusters by state", "The same as a table")
    shown = {word: number(rf"\b{word} (\d+)", text) for word in site.rows.words(person)}
    return shown, dict(site.rows.words(person))


@figure("map of sets: the clusters of each set", "admin")
def _(site: Site, person: str) -> Compared:
    rows = site.main(person, "/sets/?view=map").rows()
    shown = {row[0]: int(row[1]) for row in rows if row[0] in site.rows.sets}
    return shown, {name: len(site.rows.members(name, person)) for name in site.rows.sets}


@figure("set: its members", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    page = site.main(person, "/sets/stores-fr/").one(id="members")
    return {row.attributes["id"].removeprefix("member-") for row in page.one("tbody").all("tr")}, site.rows.members(
        "stores-fr", person
    )


@figure("set: the namespaces into which it is bound", "admin")
def _(site: Site, person: str) -> Compared:
    text = site.main(person, "/sets/stores-fr/bindings/").one(id="bindings")
    wanted = {
        key.partition("/")[0] for key, doc in site.rows.bindings.items() if doc["spec"]["clusterSet"] == "stores-fr"
    }
    return (
        number(r"Bound into (\d+) namespace", text.text),
        {row.one("a").text for row in text.one("tbody").all("tr")},
    ), (len(wanted), wanted)


@figure("namespaces: how many, and what is bound into each", "admin")
def _(site: Site, person: str) -> Compared:
    page = site.main(person, "/namespaces/")
    shown = {
        row.one("a", "oc-name").text: {tag.text for tag in row.all("span", "oc-tag")}
        for row in page.one("tbody").all("tr")
    }
    own = [
        name
        for name in site.rows.namespaces
        if name not in site.rows.clusters
        and "open-cluster-management.io/cluster-name"
        not in (site.rows.namespaces[name]["metadata"].get("labels") or {})
    ]
    bound = {
        name: {doc["spec"]["clusterSet"] for key, doc in site.rows.bindings.items() if key.startswith(f"{name}/")}
        for name in own
    }
    return (number(r"(\d+) namespaces?", page.text), shown), (len(own), bound)


@figure("namespace: how many clusters its placements may choose from", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    text = site.text(person, "/namespaces/shop/")
    chosen: set[str] = set()
    for key, doc in site.rows.bindings.items():
        if key.startswith("shop/"):
            chosen |= site.rows.members(doc["spec"]["clusterSet"], person)
    bindings = sum(key.startswith("shop/") for key in site.rows.bindings)
    return (number(r"choose from (\d+) clusters?", text), number(r"(\d+) bindings?", text)), (len(chosen), bindings)


# ---------------------------------------------------------------- claims, exports, search


@figure("claims: how many clusters report each claim and carry each label", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    text, seen = site.text(person, "/claims/"), site.rows.seen_by(person)
    claims = Counter(
        claim["name"] for doc in seen.values() for claim in (doc.get("status") or {}).get("clusterClaims") or ()
    )
    labels = Counter(key for doc in seen.values() for key in doc["metadata"].get("labels") or {})
    listing = table(text, "Counted over", "clusters report it")
    shown = {
        name: number(rf"{re.escape(name)}(?:Cluster ID|Kubernetes version|Platform|Product)? (\d+)", listing)
        for name in {**claims, **labels}
    }
    return (number(r"^ (\d+) clusters?", listing), shown), (len(seen), {**claims, **labels})


@figure("claims: the values of a label", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    seen = site.rows.seen_by(person)
    values = Counter((doc["metadata"].get("labels") or {}).get("env", "") for doc in seen.values())
    rows = site.main(person, "/claims/?label=env").rows()
    shown = {row[0]: int(row[1]) for row in rows if row[0] in values}
    text = site.text(person, "/claims/?label=env")
    return (shown, numbers(r"Missing (\d+) of (\d+)", text)), (dict(values), (values[""], len(seen)))


@figure("claims: the values of a claim, and who says nothing", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    seen = site.rows.seen_by(person)
    reported = {
        name: {each["name"]: each["value"] for each in (doc.get("status") or {}).get("clusterClaims") or ()}
        for name, doc in seen.items()
    }
    values = Counter(claims.get("platform.open-cluster-management.io", "says nothing") for claims in reported.values())
    path = "/claims/?claim=platform.open-cluster-management.io"
    return {row[0]: int(row[1]) for row in site.main(person, path).rows() if row[0] in values}, dict(values)


@figure("export: CSV has a line for each cluster, with its state", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    answer = site.get(person, "/clusters/_export/csv/")
    found = {row["name"]: row["status"] for row in csv.DictReader(io.StringIO(answer.html.lstrip("\ufeff")))}
    return {name: word.lower() for name, word in found.items()}, {
        name: site.rows.word(name).lower().replace(" ", "-") for name in site.rows.seen_by(person)
    }


@figure("export: JSON has every cluster", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    found = json.loads(site.get(person, "/clusters/_export/json/").html)
    rows = found if isinstance(found, list) else found.get("clusters") or found.get("items")
    return {row["name"] for row in rows}, set(site.rows.seen_by(person))


@figure("search: how many clusters have the text in their name", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    page = site.main(person, "/search/?q=store").one(id="found")
    group = page.one("section", aria_labelledby="found-clusters").text
    wanted = [name for name in site.rows.seen_by(person) if "store" in name]
    return number(r"the first 6 of (\d+)", group), len(wanted)


@figure("claims: who sees no cluster reads nothing of every cluster", "mallory")
def _(site: Site, person: str) -> Compared:
    text = site.text(person, "/claims/?label=env")
    return ("Every cluster" in text, numbers(r"Missing (\d+) of (\d+)", text)), (False, (0, 0))
