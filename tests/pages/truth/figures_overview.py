"""Figures of the overview, of what needs a person, and of the inbox."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from math import floor
from typing import Any

from tests.pages.truth.demofleet import Site
from tests.pages.truth.figures import Compared, figure, number, numbers, table, words
from tests.pages.truth.rows import IN_SERVICE, QUIET, day, instant, span

DAY = timedelta(days=1)
TURNS = {"joined": "joined", "left": "left", "went silent": "silent", "recovered": "recovered"}


def clock(moment: datetime, now: datetime) -> str:
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment.day} {moment:%b %H:%M}"


def silent_since(site: Site, person: str) -> dict[str, datetime]:
    rows = site.rows
    found = {}
    for name, doc in rows.seen_by(person).items():
        if rows.word(name) == "Silent":
            found[name] = instant(rows.condition(doc, "ManagedClusterConditionAvailable")["lastTransitionTime"])
    return found


@figure("overview: healthy of those in service", "admin", "ana", "li", "raj")
def _(site: Site, person: str) -> Compared:
    found = site.rows.words(person)
    in_service = sum(found[word] for word in IN_SERVICE)
    shown = numbers(r"([\d,]+) of ([\d,]+) clusters? in service", site.text(person, "/"))
    return shown, (found["Healthy"], in_service)


@figure("overview: share of the healthy in per cent, rounded down")
def _(site: Site, person: str) -> Compared:
    found = site.rows.words(person)
    share = floor(1000 * found["Healthy"] / sum(found[word] for word in IN_SERVICE)) / 10
    return words(r"healthy, ([\d.]+) %", site.text(person, "/")), f"{share:.1f}"


@figure("overview: clusters not in service")
def _(site: Site, person: str) -> Compared:
    found = site.rows.words(person)
    return number(r"([\d,]+) not in service", site.text(person, "/")), sum(
        count for word, count in found.items() if word not in IN_SERVICE
    )


@figure("overview: how many are silent, and since when the first", "admin", "ana", "raj")
def _(site: Site, person: str) -> Compared:
    since = silent_since(site, person)
    text = site.text(person, "/")
    shown = (number(r"(\d+) clusters?(?: of set \S+)? (?:is|are) silent", text), words(r"first since ([^.]+)\.", text))
    return shown, (len(since), clock(min(since.values()), site.now))


@figure("overview: clusters of the total", "admin", "li", "raj")
def _(site: Site, person: str) -> Compared:
    return number(r"Status of (?:all|the) ([\d,]+) clusters", site.text(person, "/")), len(site.rows.seen_by(person))


@figure("overview: clusters of each state", "admin", "li", "raj")
def _(site: Site, person: str) -> Compared:
    items = site.main(person, "/").one(id="states").all("li")
    shown = {item.one("a").text: int(item.children[-1].text) for item in items if item.all("a")}  # type: ignore[union-attr]
    return shown, {word: count for word, count in site.rows.words(person).items() if word != "Healthy"}


@figure("overview: approvals that wait", "admin", "ana", "raj")
def _(site: Site, person: str) -> Compared:
    return number(r"(\d+) approvals? waits?\b", site.text(person, "/")), len(site.rows.waiting(person))


@figure("overview: clusters that joined, left, went silent and recovered in 24 hours", "admin", "li", "raj")
def _(site: Site, person: str) -> Compared:
    text, rows = site.text(person, "/"), site.rows
    shown = {word: number(rf"([\d,]+) clusters? {word} in 24 h", text) for word in TURNS}
    recent = [turn for turn in rows.turns if turn["at"] > site.now - DAY]
    seen = rows.seen_by(person)
    return shown, {
        word: len({each["cluster"] for each in recent if each["turn"] == turn and (person != "raj" or each["cluster"] in seen)})
        for word, turn in TURNS.items()
    }  # fmt: skip


@figure("overview: certificates that have ended or end within 30 days")
def _(site: Site, person: str) -> Compared:
    buckets = Counter(site.rows.certificate_bucket(name) for name in site.rows.seen_by(person))
    shown = number(r"([\d,]+) ha(?:s|ve) ended or ends? within 30 days", site.text(person, "/"))
    return shown, buckets["ended"] + buckets["week"] + buckets["month"]


@figure("overview: clusters by the days that their certificate has left")
def _(site: Site, person: str) -> Compared:
    limits, rows = (0, 7, 30, 60, 90, 120, 180, 240, 300), site.rows
    found: Counter[int] = Counter()
    for name in rows.seen_by(person):
        if rows.certificate_bucket(name) not in {"none", "revoked"}:
            left = rows.facts[name]["certificate_not_after"] - site.now
            found[sum(left >= timedelta(days=limit) for limit in limits)] += 1
    text = table(site.main(person, "/").one(id="certificates").text, "All certificates", "Agents renew")
    # Ended, then each bar: its label and its number.
    labels = ["ended", *(f"{low}\N{EN DASH}{high - 1}" for low, high in pairwise(limits)), "300 +"]
    shown = [number(rf"(?:^|\s)([\d,]+) {label.replace('+', chr(92) + '+')}(?:\s|$)", text) for label in labels]
    return shown, [found[index] for index in range(len(limits) + 1)]


@figure("overview: Kubernetes versions")
def _(site: Site, person: str) -> Compared:
    text = site.main(person, "/").one(id="versions").text
    found: Counter[str] = Counter()
    for doc in site.rows.seen_by(person).values():
        version = ((doc.get("status") or {}).get("version") or {}).get("kubernetes", "")
        found[".".join(version.removeprefix("v").split(".")[:2]) or "not reported"] += 1
    return {label: number(rf"{label} (\d+)", text) for label in found}, dict(found)


@figure("overview: heartbeats of the last minute", "admin", "li")
def _(site: Site, person: str) -> Compared:
    text = site.main(person, "/").one(id="heartbeats").text
    last = site.rows.minutes[-1]
    shown = (*numbers(r"([\d,]+) of ([\d,]+) expected", text), words(r"expected at (\d\d:\d\d)", text))
    return shown, (last["heard"], last["expected"], f"{last['minute']:%H:%M}")


@figure("overview: share of the heartbeats of 30 days that came", "admin", "ana")
def _(site: Site, person: str) -> Compared:
    month = [each for each in site.rows.minutes if each["minute"] > site.now - 30 * DAY]
    heard, due = sum(each["heard"] for each in month), sum(each["expected"] for each in month)
    text = site.main(person, "/").one(id="availability").text
    shown = words(r"([\d.]+) %", text.partition("bars begin at 90 %")[2])
    return shown, f"{floor(10_000 * heard / due) / 100:.2f}"


@figure("overview: heartbeats that came on each day", "admin")
def _(site: Site, person: str) -> Compared:
    heard: Counter[Any] = Counter()
    due: Counter[Any] = Counter()
    for each in site.rows.minutes:
        if each["minute"] > site.now - 30 * DAY:
            heard[each["minute"].date()] += each["heard"]
            due[each["minute"].date()] += each["expected"]
    shown = dict(row[:2] for row in site.main(person, "/").one(id="availability").rows())
    wanted = {f"{date.day} {date:%b}": 100 * heard[date] / due[date] for date in due}
    # A day that is not in the table began before the thirty days.
    return {label: share for label, share in shown.items() if label in wanted}, {
        label: f"{share if share == 100 else min(share, 99.99):.2f} %"  # never all of it where one is missing
        for label, share in wanted.items()
        if label in shown
    }


@figure("overview: clusters that joined on each day")
def _(site: Site, person: str) -> Compared:
    seen = site.rows.seen_by(person)
    joined = {
        (turn["at"].date(), turn["cluster"])
        for turn in site.rows.turns
        if turn["turn"] == "joined" and (person == "admin" or turn["cluster"] in seen)
    }
    counts = Counter(f"{date.day} {date:%b}" for date, _ in joined if date > (site.now - 30 * DAY).date())
    shown = {label: int(count) for label, count in site.main(person, "/").one(id="joins").rows()}
    return {label: count for label, count in shown.items() if count}, dict(counts)


@figure("overview: the last decisions, newest first")
def _(site: Site, person: str) -> Compared:
    seen = site.rows.seen_by(person)
    decided = [
        each for each in site.rows.facts.values() if each["decision"] and each["decided_at"] and each["cluster"] in seen
    ]
    newest = sorted(decided, key=lambda each: each["decided_at"], reverse=True)[:6]
    shown = [item.one("div").text for item in site.main(person, "/").one(id="decisions").all("li")]
    return shown, [
        f"{each['cluster']} {each['decision']} by {each['decided_by']}"
        + (f": {each['decision_reason']}" if each["decision_reason"] else "")
        for each in newest
    ]


# ---------------------------------------------------------------- what needs a person


def items(site: Site, person: str) -> dict[str, tuple[int, str]]:
    found = {}
    for item in site.main(person, "/attention/").one(id="items").all("li"):
        key = item.attributes["id"].removeprefix("item-")
        found[key] = (int(item.one("b").text), item.one("p").text)
    return found


@figure("needs you: as many things as the bell counts", "admin", "ana", "raj")
def _(site: Site, person: str) -> Compared:
    said = number(r"(\d+) things? that only a person", site.text(person, "/attention/"))
    return (said, len(site.main(person, "/").one(id="needs").all("li"))), (len(items(site, person)),) * 2


@figure("needs you: how long the oldest approval has waited", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    rows = site.rows
    first = min(instant(rows.clusters[name]["metadata"]["creationTimestamp"]) for name in rows.waiting(person))
    return items(site, person)["approvals"], (
        len(rows.waiting(person)),
        f"Oldest has waited {span(site.now - first)}.",
    )


@figure("needs you: the silent, with the set of most of them", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    since, rows = silent_since(site, person), site.rows
    name, count = Counter(rows.set_of(rows.clusters[each]) for each in since).most_common(1)[0]
    first = min(at for each, at in since.items() if rows.set_of(rows.clusters[each]) == name)
    text = f"{count} are in set {name}, the first since {clock(first, site.now)}."
    return items(site, person)["silent"], (len(since), text)


@figure("needs you: credentials that ended, were revoked or end within a week", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    rows = site.rows
    accepted = [name for name, doc in rows.seen_by(person).items() if doc["spec"].get("hubAcceptsClient")]
    buckets = Counter(rows.certificate_bucket(name) for name in accepted)
    revoked, ended, week = buckets["revoked"], buckets["ended"], buckets["week"]
    parts = [f"{revoked} revoked and cannot speak." * bool(revoked), f"{ended} ended and cannot speak." * bool(ended)]
    parts.append(f"{week} end{'s' if week == 1 else ''} within 7 days." * bool(week))
    return items(site, person)["credentials"], (revoked + ended + week, " ".join(filter(None, parts)))


@figure("needs you: removals that are stuck, and the longest", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    since = {
        name: instant(doc["metadata"]["deletionTimestamp"])
        for name, doc in site.rows.seen_by(person).items()
        if "deletionTimestamp" in doc["metadata"]
    }
    stuck = {name: at for name, at in since.items() if site.now - at > timedelta(minutes=10)}
    first = min(stuck, key=stuck.__getitem__)
    return items(site, person)["removals"], (len(stuck), f"Longest: {first}, {span(site.now - stuck[first])}.")


# ---------------------------------------------------------------- the inbox


@figure("inbox: clusters that ask to join", "admin", "ana", "li", "raj")
def _(site: Site, person: str) -> Compared:
    return number(r"(\d+) clusters? asks? to join", site.text(person, "/approvals/")), len(site.rows.waiting(person))


@figure("inbox: the badge of the navigation, the tab and the rows count alike", "admin", "ana", "li", "raj")
def _(site: Site, person: str) -> Compared:
    page = site.get(person, "/approvals/").page
    badge = next(link for link in page.all("a", "pf-v6-c-nav__link") if link.text.startswith("Approvals"))
    tab = page.one(id="approvals-tabs").all("a")[0]
    names = {row.attributes["data-row"] for row in page.one(id="rows").all("tr")}
    shown = (number(r"(\d+)", badge.text), number(r"(\d+)", tab.text), names)
    waiting = site.rows.waiting(person)
    return shown, (len(waiting), len(waiting), waiting)


@figure("inbox: verdicts add up", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    counts = numbers(r"All (\d+) Blocked (\d+) Check (\d+) Safe (\d+)", site.text(person, "/approvals/"))
    return (counts[0], sum(counts[1:])), (len(site.rows.waiting(person)),) * 2


@figure("inbox: the filter by verdict shows as many as it counts", "admin")
def _(site: Site, person: str) -> Compared:
    counts = numbers(r"Blocked (\d+) Check (\d+) Safe (\d+)", site.text(person, "/approvals/"))
    blocked, safe = (
        len(site.main(person, f"/approvals/?verdict={verdict}").one(id="rows").all("tr"))
        for verdict in ("blocked", "safe")
    )
    return (blocked, safe), (counts[0], counts[2])


@figure("inbox: requests that gave way are those that the audit names", "admin")
def _(site: Site, person: str) -> Compared:
    from ocmconsole.kubeapi.models import AuditEvent

    notes = AuditEvent.objects.filter(act="certificatesigningrequest:supersede").values_list("name", flat=True)
    return Counter(row[0] for row in site.main(person, "/approvals/-/superseded/").one(id="list").rows()), Counter(
        notes
    )


@figure("inbox: every decision with who decided and what", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown = {row[0]: (row[1], row[2]) for row in site.main(person, "/approvals/-/decided/").one(id="list").rows()}
    # Who sees every cluster sees decisions about those that are gone.
    seen = site.rows.facts if person == "admin" else site.rows.seen_by(person)
    decided = sorted(
        (
            each
            for each in site.rows.facts.values()
            if each["decision"] and each["decided_at"] and each["cluster"] in seen
        ),
        key=lambda each: (-each["decided_at"].timestamp(), each["cluster"]),
    )[:50]
    return shown, {each["cluster"]: (each["decision"].capitalize(), each["decided_by"]) for each in decided}


@figure("request: since when each has asked, as the list says", "admin")
def _(site: Site, person: str) -> Compared:
    shown, listed = {}, {}
    for row in site.main(person, "/approvals/").one(id="rows").all("tr"):
        name = row.attributes["data-row"]
        listed[name] = row.one("td", data_label="Asked").one("time").attributes["datetime"]
        shown[name] = site.main(person, f"/approvals/{name}/").one("div", "oc-head").one("time").attributes["datetime"]
    return shown, listed


@figure("request: the keys that ask are those of pending requests", "admin")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for name in site.rows.waiting(person):
        page = site.text(person, f"/approvals/{name}/")
        names = [
            key
            for key, doc in site.rows.requests.items()
            if name == (doc["metadata"].get("labels") or {}).get("open-cluster-management.io/cluster-name")
        ]
        pending = {key for key in names if not (site.rows.requests[key].get("status") or {}).get("conditions")}
        wanted[name] = pending
        shown[name] = {key for key in pending if key in page}
    return shown, wanted


@figure("needs you: what is quiet is not counted as needing attention", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown = number(r"([\d,]+) needs? attention", site.text(person, "/clusters/"))
    return shown, sum(count for word, count in site.rows.words(person).items() if word not in QUIET)


@figure("hub CA: the days of both certificates", "admin")
def _(site: Site, person: str) -> Compared:
    from cryptography import x509
    from django.conf import settings

    text, wanted, shown = site.text(person, "/ca/"), [], []
    for name in ("ca.crt", "serving.crt"):
        found = x509.load_pem_x509_certificate((settings.OCMCONSOLE_HOME / name).read_bytes())
        wanted.append((day(found.not_valid_after_utc), (found.not_valid_after_utc - site.now).days))
    for begin, end in (("Authority Name", "Serving certificate"), ("Serving certificate", "Certificates of people")):
        part = table(text, begin, end)
        shown.append((words(r"Ends (\d+ \w+ \d+),", part), number(r"([\d,]+) d ", part)))
    return shown, wanted
