"""Figures of the cluster list and of the pages of one cluster."""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from tests.pages.truth.demofleet import Site
from tests.pages.truth.figures import NOTHING, Compared, figure, number, numbers, words
from tests.pages.truth.rows import MISSED, Doc, Rows, day, instant, rough, span

BUCKETS = {
    "Revoked": "revoked", "Expired": "ended", "Under 7 days": "week", "7 to 30 days": "month",
    "30 days or more": "later", "None issued": "none",
}  # fmt: skip


def listed(site: Site, person: str, query: str = "") -> list[Any]:
    return site.main(person, f"/clusters/{query}").one(id="clusters").one("tbody").all("tr")


def options(site: Site, person: str, facet: str) -> dict[str, int]:
    found = {}
    for link in site.main(person, "/clusters/").one(id=f"facet-{facet}").all("a"):
        label, count = re.fullmatch(r"(.+?) ([\d,]+) clusters?", link.text).groups()  # type: ignore[union-attr]
        found[label] = int(count)
    return found


@figure("clusters: how many one may see", "admin", "ana", "li", "raj")
def _(site: Site, person: str) -> Compared:
    text = site.text(person, "/clusters/")
    shown = (number(r"([\d,]+) ManagedClusters? you may see", text), number(r"([\d,]+) clusters? of this filter", text))
    return shown, (len(site.rows.seen_by(person)),) * 2


@figure("clusters: the names of the list", "admin", "li", "raj")
def _(site: Site, person: str) -> Compared:
    return [row.one("a", "oc-name").text for row in listed(site, person)], sorted(site.rows.seen_by(person))


@figure("clusters: the status word of every row", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown = {row.one("a", "oc-name").text: row.one("td", "is-word").text for row in listed(site, person)}
    return shown, {name: site.rows.word(name) for name in site.rows.seen_by(person)}


@figure("clusters: the counts of the facet of states", "admin", "li", "raj")
def _(site: Site, person: str) -> Compared:
    return options(site, person, "status"), dict(site.rows.words(person))


@figure("clusters: the counts of the facet of sets", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    wanted = {name: len(site.rows.members(name, person)) for name in site.rows.sets}
    visible = {"stores-fr"} if person == "raj" else set(wanted) - {"global"}
    return options(site, person, "set"), {name: count for name, count in wanted.items() if count and name in visible}


@figure("clusters: the counts of the facet of certificates", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    found = Counter(site.rows.certificate_bucket(name) for name in site.rows.seen_by(person))
    return options(site, person, "certificate"), {
        label: found[bucket] for label, bucket in BUCKETS.items() if found[bucket]
    }


@figure("clusters: the counts of the facet of versions", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    found = Counter(
        ((doc.get("status") or {}).get("version") or {}).get("kubernetes", "")
        for doc in site.rows.seen_by(person).values()
    )
    return options(site, person, "version"), {version: count for version, count in found.items() if version}


@figure("clusters: filtered by state and by set", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown = [
        {row.one("a", "oc-name").text for row in listed(site, person, query)}
        for query in ("?status=silent", "?set=stores-fr", "?status=attention")
    ]
    seen = site.rows.seen_by(person)
    quiet = {"Healthy", "Maintenance", "Joining", "Unknown", "Declined"}
    return shown, [
        {name for name in seen if site.rows.word(name) == "Silent"},
        {name for name, doc in seen.items() if site.rows.set_of(doc) == "stores-fr"},
        {name for name in seen if site.rows.word(name) not in quiet},
    ]


@figure("clusters: the total of a filter", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    found = site.main(person, "/clusters/?status=silent").one(id="found").one("div", "oc-pager").text
    return number(r"(\d+) clusters?", found), site.rows.words(person)["Silent"]


@figure("clusters: the days that each certificate has left", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for row in listed(site, person):
        name = row.one("a", "oc-name").text
        shown[name] = row.one("td", data_label="Certificate").text
        bucket = site.rows.certificate_bucket(name)
        left = site.rows.days_left(name) if bucket != "none" else 0
        wanted[name] = {"none": NOTHING, "ended": "ended", "revoked": "revoked"}.get(bucket, f"{left} d")
    return shown, wanted


@figure("clusters: when each was heard last", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for row in listed(site, person):
        name = row.one("a", "oc-name").text
        shown[name] = row.one("td", data_label="Last heard").text
        heard = site.rows.received(name)
        wanted[name] = rough(site.now - heard) if heard else NOTHING
    return shown, wanted


@figure("clusters: the sets of each", "admin")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for row in listed(site, person):
        name = row.one("a", "oc-name").text
        cell = row.one("td", data_label="Set")
        more = cell.all("span")
        shown[name] = 1 + number(r"\+(\d+)", more[0].text) if more else 1
        # Everything is in the set global, which goes without saying.
        wanted[name] = sum(name in site.rows.members(each, person) for each in site.rows.sets if each != "global")
    return shown, wanted


# ---------------------------------------------------------------- one cluster


def named(site: Site, *states: str, person: str = "admin") -> dict[str, str]:
    """One cluster that the person sees for each of the states."""
    found: dict[str, str] = {}
    for name in sorted(site.rows.seen_by(person)):
        found.setdefault(site.rows.word(name), name)
    return {state: found[state] for state in states or sorted(found) if state in found}


def facts(site: Site, person: str, name: str) -> dict[str, str]:
    return site.main(person, f"/clusters/{name}/").one("dl", "oc-facts").definitions()


@figure("cluster: its status word on its page", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown = {
        name: site.main(person, f"/clusters/{name}/").one(id="headline").one("span").text
        for name in named(site, person=person).values()
    }
    return shown, {name: word for word, name in named(site, person=person).items()}


@figure("cluster: what is said of the silent, the healthy, the late and the expired", "admin")
def _(site: Site, person: str) -> Compared:
    rows, shown, wanted = site.rows, {}, {}
    for word, name in named(site, "Silent", "Healthy", "Late", "Credential expired").items():
        shown[word] = words(
            r"State (.+?\.)(?: |$)",
            site.text(person, f"/clusters/{name}/").replace("\xa0", " ").partition("Undo possible")[2]
            or site.text(person, f"/clusters/{name}/").replace("\xa0", " "),
        )
        heard = rows.heard(name)
        assert heard is not None
        limit = timedelta(seconds=5 * rows.clusters[name]["spec"].get("leaseDurationSeconds", 60))
        passed = span(site.now - heard)
        wanted[word] = {
            "Silent": f"Last heard {passed} ago (limit {span(limit)}).",
            "Healthy": f"Heard {passed} ago.",
            "Late": f"Last heard {passed} ago; Unknown in {span(heard + limit - site.now)}.",
            "Credential expired": f"Its certificate ended {span(site.now - rows.facts[name]['certificate_not_after'])} ago; the agent cannot speak.",
        }[word]
    return shown, wanted


def _sentence(word: str, doc: Doc, known: Doc, now: datetime) -> str:
    if word == "Removing":
        return f"Removing for {span(now - instant(doc['metadata']['deletionTimestamp']))}."
    if word == "Needs review":
        return f"Asked to join {span(now - instant(doc['metadata']['creationTimestamp']))} ago."
    if word == "Credential revoked":
        by, ago = known["certificate_revoked_by"], span(now - known["certificate_revoked_at"])
        reason = known["certificate_revocation_reason"].rstrip(".")
        return f"Its certificate was revoked by {by} {ago} ago: {reason}. The agent cannot speak."
    by, ago = known["decided_by"], span(now - known["decided_at"])
    if word == "Declined":
        return f"Declined by {by}, {ago} ago: {known['decision_reason']}"
    return f"Disconnected by {by} {ago} ago. Agent rights withdrawn."


@figure("cluster: what is said of the removed, the declined, the disconnected and the revoked", "admin")
def _(site: Site, person: str) -> Compared:
    rows, shown, wanted = site.rows, {}, {}
    for word, name in named(site, "Removing", "Declined", "Disconnected", "Credential revoked", "Needs review").items():
        doc, known = rows.clusters[name], rows.facts.get(name, {})
        text = site.main(person, f"/clusters/{name}/").one(id="state").text.replace("\xa0", " ")
        sentence = _sentence(word, doc, known, site.now)
        shown[word], wanted[word] = sentence if sentence in text else text, sentence
    return shown, wanted


SINCE = {
    "Silent": "ManagedClusterConditionAvailable", "Healthy": "ManagedClusterConditionAvailable",
    "Clock skew": "ManagedClusterConditionClockSynced", "Removing": "deletionTimestamp",
    "Needs review": "creationTimestamp", "Declined": "decided_at", "Disconnected": "decided_at",
    "Credential expired": "certificate_not_after", "Credential revoked": "certificate_revoked_at",
}  # fmt: skip


def _since(rows: Rows, word: str, name: str) -> datetime:
    """A condition's last transition, a time of the metadata, or a column of what the hub knows."""
    where, doc = SINCE[word], rows.clusters[name]
    if where.startswith("Managed"):
        return instant(rows.condition(doc, where)["lastTransitionTime"])
    if where.endswith("Timestamp"):
        return instant(doc["metadata"][where])
    found: datetime = rows.facts[name][where]
    return found


@figure("cluster: since when it has been in its state", "admin")
def _(site: Site, person: str) -> Compared:
    rows, shown, wanted = site.rows, {}, {}
    for word, name in named(site, *SINCE).items():
        at = _since(rows, word, name)
        shown[word] = (
            site.main(person, f"/clusters/{name}/").one(id="state").one("b").one("time").attributes["datetime"]
        )
        wanted[word] = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return shown, wanted


@figure("cluster: certificate, last heard and who accepted it", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    rows, shown, wanted = site.rows, {}, {}
    for name in named(site, person=person).values():
        found, known, doc = facts(site, person, name), rows.facts.get(name, {}), rows.clusters[name]
        shown[name] = (found["Certificate"], found["Last heard"], found["Accepted"])
        bucket, heard = rows.certificate_bucket(name), rows.received(name)
        certificate = {
            "none": "None issued",
            "revoked": f"Revoked {rough(site.now - known['certificate_revoked_at'])} ago" if known.get("certificate_revoked_at") else "",
            "ended": f"Ended {rough(site.now - known['certificate_not_after'])} ago" if known.get("certificate_not_after") else "",
        }.get(bucket) or f"{rows.days_left(name)} d"  # fmt: skip
        accepted = "No"
        if doc["spec"].get("hubAcceptsClient"):
            condition = rows.condition(doc, "HubAcceptedManagedCluster")
            by = f" by {known['decided_by']}" if known.get("decision") == "accepted" else ""
            accepted = f"{day(instant(condition['lastTransitionTime']))}{by}"
        passed = site.now - heard if heard else None
        spoken = "Never" if passed is None else "just now" if passed < timedelta(seconds=1) else f"{rough(passed)} ago"
        wanted[name] = (certificate, spoken, accepted)
    return shown, wanted


@figure("cluster: its taints", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    rows, shown, wanted = site.rows, {}, {}
    for name in named(site, "Silent", "Healthy", person=person).values():
        page = site.main(person, f"/clusters/{name}/taints/").one(id="taints")
        shown[name] = [row[0].split()[0] for row in page.rows()]
        wanted[name] = [taint["key"] for taint in rows.taints(rows.clusters[name])]
    return shown, wanted


@figure("cluster: its labels and its claims", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    rows, shown, wanted = site.rows, [], []
    for name in named(site, "Silent", "Healthy", person=person).values():
        page, doc = site.main(person, f"/clusters/{name}/claims/"), rows.clusters[name]
        shown.append(
            {
                row.attributes["id"].removeprefix("label-"): row.all("td")[1].text
                for row in page.one(id="labels").one("tbody").all("tr")
            }
        )
        wanted.append(doc["metadata"]["labels"])
        shown.append(page.one(id="claims").one("dl").definitions())
        wanted.append({each["name"]: each["value"] for each in doc["status"]["clusterClaims"]})
    return shown, wanted


@figure("cluster: its sets, and of how many it is none", "admin")
def _(site: Site, person: str) -> Compared:
    rows, name = site.rows, site.rows.named("Healthy")
    page = site.main(person, f"/clusters/{name}/sets/").one(id="sets")
    mine = {each for each in rows.sets if name in rows.members(each, person)}
    shown = (
        {row.attributes["id"].removeprefix("set-") for row in page.one("tbody").all("tr")},
        numbers(r"(\d+) sets?, not of (\d+) others?", page.text),
    )
    return shown, (mine, (len(mine), len(rows.sets) - len(mine)))


@figure("cluster: the certificate that it uses", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown, wanted = [], []
    for name in named(site, "Silent", "Healthy", "Late", person=person).values():
        page = site.main(person, f"/clusters/{name}/identity/").one(id="current")
        found = page.one("dl").definitions()
        row = next(
            each for each in site.rows.issued if each["fingerprint"] == site.rows.facts[name]["certificate_fingerprint"]
        )
        shown.append(
            (
                found["Serial"],
                found["Fingerprint"],
                found["Speaks as"],
                words(r"^(\d+ \w+ \d+)", found["Ends"]),
                number(r"(\d+) d left", page.text),
            )
        )
        wanted.append(
            (
                row["serial"],
                row["fingerprint"],
                row["common_name"],
                day(row["not_after"]),
                (row["not_after"] - site.now).days,
            )
        )
    return shown, wanted


@figure("cluster: all certificates that were issued for it", "admin")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for name in named(site, "Silent", "Healthy", "Credential expired", "Credential revoked").values():
        table_ = site.main(person, f"/clusters/{name}/identity/").one(id="lives").one("tbody")
        shown[name] = {row.attributes["id"].removeprefix("life-"): row.one("td").text for row in table_.all("tr")}
        wanted[name] = {
            each["serial"]: "Revoked" if each["revoked_at"] else "Ended" if each["not_after"] <= site.now else "Current"
            for each in site.rows.issued
            if each["cluster"] == name
        }
    return shown, wanted


@figure("cluster: how often it was silent in 30 days, and the share in which it was not", "admin")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for name in named(site, "Silent", "Healthy", "Credential expired", "Maintenance").values():
        text = site.main(person, f"/clusters/{name}/health/").one(id="availability").text
        found = re.search(r"(\d+) times? silent", text)
        cells = site.rows.cells(name)
        known = [cell for cell in cells if cell]
        silent = sum(cell == MISSED for cell in known)
        share = words(r"([\d.]+ %) \d+ \w{3} ", text.partition("90 %")[2])
        shown[name] = (int(found[1]) if found else 0, share)
        exact = 100 * (len(known) - silent) / len(known)
        wanted[name] = (site.rows.silences(name), "100 %" if not silent else f"{min(exact, 99.99):.2f} %")
    return shown, wanted
