"""Figures of certificates, tokens, policies, access, activity and the hub itself."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from itertools import pairwise

from django.contrib.auth.models import User
from django.utils import timezone

from ocmconsole.core.models import AccessRequest, BootstrapTokenUse
from ocmconsole.kubeapi.models import AuditEvent, Change, Revision, WorkItem
from registration.models import ApprovalPolicy, ApprovalPolicyUse
from tests.pages.truth.demofleet import Site
from tests.pages.truth.figures import NOTHING, Compared, figure, number, numbers, words
from tests.pages.truth.rows import day

BUCKETS = (
    "In use",
    "Ended",
    "Within 7 days",
    "Within 30 days",
    "Replaced, still honoured",
    "Of removed clusters",
    "Revoked",
    "Over",
)


def buckets(site: Site, person: str) -> dict[str, int]:
    """Each certificate of an agent in its bucket; those within 7 and 30 days are in use too."""
    found: Counter[str] = Counter()
    for each in site.rows.certificates_of(person):
        current = site.rows.facts[each["cluster"]]["certificate_fingerprint"] == each["fingerprint"]
        left = each["not_after"] - site.now
        if each["revoked_at"]:
            found["Revoked" if left > timedelta() else "Over"] += 1
        elif each["cluster"] not in site.rows.clusters:
            found["Of removed clusters" if left > timedelta() else "Over"] += 1
        elif not current:
            found["Replaced, still honoured" if left > timedelta() else "Over"] += 1
        elif left <= timedelta():
            found["Ended"] += 1
        else:
            found["In use"] += 1
            found["Within 7 days"] += left <= timedelta(days=7)
            found["Within 30 days"] += left <= timedelta(days=30)
    return {label: found[label] for label in BUCKETS if label != "Of removed clusters" or person != "raj"}


@figure("certificates: the counts of all buckets", "admin", "li", "raj")
def _(site: Site, person: str) -> Compared:
    bar = site.main(person, "/certificates/").one("div", "oc-buckets")
    shown = {label: int(count) for label, _, count in (link.text.rpartition(" ") for link in bar.all("a"))}
    return shown, buckets(site, person)


@figure("certificates: in use, ended and ending, in a sentence", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    text, found = site.text(person, "/certificates/"), buckets(site, person)
    shown = (
        number(r"([\d,]+) client certificates? in use", text),
        number(r"([\d,]+) ha(?:s|ve) ended", text),
        0 if "None ends within 30 days" in text else number(r"([\d,]+) ends? within 30 days", text),
    )
    return shown, (found["In use"], found["Ended"], found["Within 30 days"])


@figure("certificates: names, ends and serials of those in use", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    rows = site.main(person, "/certificates/").one(id="certificates").all("tr")
    shown = {
        row.attributes["id"].removeprefix("certificate-"): (
            row.one("a").text,
            row.one("td", data_label="Ends").text,
            row.one("td", data_label="Left").text,
        )
        for row in rows
    }
    return shown, {
        each["fingerprint"]: (each["cluster"], day(each["not_after"]), f"{(each['not_after'] - site.now).days} d")
        for each in site.rows.certificates_of(person)
        if each["cluster"] in site.rows.clusters
        and each["revoked_at"] is None
        and each["not_after"] > site.now
        and site.rows.facts[each["cluster"]]["certificate_fingerprint"] == each["fingerprint"]
    }


@figure("agents that fell off: which have an ended or revoked certificate", "admin", "raj")
def _(site: Site, person: str) -> Compared:
    shown = {}
    for trouble in ("ended", "revoked"):
        main = site.main(person, f"/certificates/-/fallen/?trouble={trouble}")
        rows = main.one(id="fallen").all("tr") if main.all(id="fallen") else []
        shown[trouble] = {row.attributes["id"].removeprefix("fallen-") for row in rows}
    inside = {
        name
        for name, doc in site.rows.seen_by(person).items()
        if doc["spec"].get("hubAcceptsClient") and "deletionTimestamp" not in doc["metadata"]
    }
    facts = {name: site.rows.facts[name] for name in inside if name in site.rows.facts}
    revoked = {name for name, each in facts.items() if each["certificate_revoked_at"] is not None}
    ended = {
        name
        for name, each in facts.items()
        if each["certificate_not_after"] and each["certificate_not_after"] <= site.now
    }
    return shown, {"ended": ended - revoked, "revoked": revoked}


@figure("hub CA: how many certificates of agents are honoured", "admin")
def _(site: Site, person: str) -> Compared:
    found = buckets(site, person)
    three = (found["In use"], found["Replaced, still honoured"], found["Of removed clusters"])
    shown = numbers(
        r"([\d,]+) certificates? of agents (?:is|are) honoured now: ([\d,]+) in use , ([\d,]+) replaced , ([\d,]+) of removed",
        site.text(person, "/ca/"),
    )
    alive = [
        each
        for each in site.rows.certificates_of(person)
        if each["revoked_at"] is None and each["not_after"] > site.now
    ]
    return shown, (len(alive), *three)


@figure("hub CA: certificates that were revoked", "admin")
def _(site: Site, person: str) -> Compared:
    revoked = [each for each in site.rows.issued if each["revoked_at"]]
    page = site.main(person, "/ca/").one(id="revoked")
    return (number(r"Revoked \((\d+)\)", page.text), {(row[0], row[2]) for row in page.rows()}), (
        len(revoked),
        {(each["cluster"] or each["common_name"], each["revoked_by"]) for each in revoked},
    )


# ---------------------------------------------------------------- tokens


def state(token: dict[str, object]) -> str:
    if token["revoked_at"]:
        return "Revoked"
    return "Usable" if token["expires"] > timezone.now() else "Expired"  # type: ignore[operator]


@figure("tokens: the state of each, and how many are usable", "admin")
def _(site: Site, person: str) -> Compared:
    page = site.main(person, "/tokens/")
    shown = {
        row.attributes["id"].removeprefix("token-"): row.one("td", "is-word").text
        for row in page.one(id="tokens").all("tr")
    }
    wanted = {token["id"]: state(token) for token in site.rows.tokens}
    usable = Counter(wanted.values())["Usable"]
    return (shown, numbers(r"(\d+) usable.*All (\d+)", page.text)), (wanted, (usable, len(wanted)))


@figure("tokens: uses of each, and who is named adds up to them", "admin")
def _(site: Site, person: str) -> Compared:
    uses = Counter(BootstrapTokenUse.objects.values_list("token", flat=True))
    shown, wanted = {}, {}
    for row in site.main(person, "/tokens/").one(id="tokens").all("tr"):
        key = row.attributes["id"].removeprefix("token-")
        cell = row.one("td", data_label="Clusters").text
        named = 0 if cell == "none" else cell.partition(" and ")[0].partition(" is no")[0].count(",") + 1
        more = number(r"and (\d+) more", cell) if " more" in cell else 0
        gone = number(r"(\d+) (?:is|are) no cluster now", cell) if "no cluster now" in cell else 0
        shown[key] = (number(r"(\d+) uses?", row.one("td", data_label="Uses").text), named + more + gone)
        wanted[key] = (uses[key], uses[key])
    return shown, wanted


@figure("tokens: which end when", "admin")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for row in site.main(person, "/tokens/").one(id="tokens").all("tr"):
        shown[row.attributes["id"].removeprefix("token-")] = (
            row.one("td", data_label="Ends").one("time").attributes["datetime"]
        )
    for token in site.rows.tokens:
        wanted[token["id"]] = f"{token['revoked_at'] or token['expires']:%Y-%m-%dT%H:%M:%SZ}"
    return shown, wanted


# ---------------------------------------------------------------- policies


@figure("policies: how many clusters each has let in", "admin")
def _(site: Site, person: str) -> Compared:
    page = site.main(person, "/policies/")
    policy = ApprovalPolicy.objects.get(name="shops")
    uses = ApprovalPolicyUse.objects.filter(policy=policy).count()
    shown = (int(page.rows()[0][4]), number(r"let in (\d+) clusters?", site.text(person, "/policies/shops/")))
    return shown, (uses, uses)


@figure("policies: the dry run names what would have fitted", "admin")
def _(site: Site, person: str) -> Compared:
    month = timezone.now() - timedelta(days=30)
    asked = AuditEvent.objects.filter(
        resource="managedclusters.cluster.open-cluster-management.io", verb="create", outcome="allowed", time__gte=month
    )
    # A policy leaves to a person those who chose sets by labels of its own; every shop does so.
    chose = {event.name for event in asked if any("clusterset" in json.dumps(part) for part in event.diff)}
    fitting = [event.name for event in asked if event.name.startswith("store-fr-") and event.name not in chose]
    text = site.text(person, "/policies/shops/")
    return number(r"in 30 days (\d+) requests?", text), len(fitting)


# ---------------------------------------------------------------- access


@figure("access: what each person sees in numbers", "admin")
def _(site: Site, person: str) -> Compared:
    shown, wanted = {}, {}
    for name in ("raj", "li", "ana"):
        site_text = site.text("admin", f"/access/users/{name}/")
        shown[name] = numbers(r"Sees ([\d,]+) clusters? and ([\d,]+) sets?", site_text)
        sets = 1 if name == "raj" else len(site.rows.sets)
        wanted[name] = (len(site.rows.seen_by(name)), sets)
    return shown, wanted


@figure("access: everybody is listed with the groups of each", "admin")
def _(site: Site, person: str) -> Compared:
    rows = site.main(person, "/access/").one(id="everybody")
    shown = {row[0].split()[0]: row[3] for row in rows.rows() if row[1].startswith(("Person", "Superuser"))}
    wanted = {
        user.username: ", ".join(sorted(group.name for group in user.groups.all())) or NOTHING
        for user in User.objects.all()
    }
    return {name: set(groups.replace(",", "").split()) for name, groups in shown.items()}, {
        name: set(groups.replace(",", "").split()) for name, groups in wanted.items()
    }


@figure("access: who may accept clusters", "admin")
def _(site: Site, person: str) -> Compared:
    text = site.main(person, "/access/resources/").one("section", aria_labelledby="right-accept")
    return {row[0].split()[0] for row in text.rows()}, {"admin", "reviewers"}


@figure("access: requests that wait for an answer", "admin")
def _(site: Site, person: str) -> Compared:
    return number(r"Requests (\d+)", site.text(person, "/access/")), AccessRequest.objects.filter(answer="").count()


# ---------------------------------------------------------------- activity, the hub


@figure("activity: what ana did, newest first", "admin")
def _(site: Site, person: str) -> Compared:
    entries = site.main(person, "/activity/?actor=ana").one(id="stream").all("span", "oc-entry__who")
    return {entry.text for entry in entries if entry.text}, {"ana"}


@figure("activity: an owner reads of own clusters and acts alone", "raj")
def _(site: Site, person: str) -> Compared:
    text = site.get(person, "/activity/").main.text
    hidden = [name for name in site.rows.clusters if name not in site.rows.seen_by(person) and name in text]
    return hidden, []


@figure("activity: the export has every entry of the audit", "admin")
def _(site: Site, person: str) -> Compared:
    lines = [json.loads(line) for line in site.get(person, "/activity/?export=jsonl").html.splitlines() if line]
    return len(lines), AuditEvent.objects.count()


@figure("hub: newest revision, changes, audit entries and work", "admin")
def _(site: Site, person: str) -> Compared:
    text = site.text(person, "/hub/")
    shown = (
        number(r"Newest revision ([\d,]+)", text),
        number(r"Changes kept ([\d,]+)", text),
        number(r"Audit entries ([\d,]+)", text),
        number(r"owe ([\d,]+) items?", text),
    )
    head = Revision.objects.values_list("value", flat=True).first()
    # Looking is not written down: the audit is as it was when the page was made.
    return shown, (head, Change.objects.count(), AuditEvent.objects.count(), WorkItem.objects.count())


@figure("hub: as many checks fail as are marked so", "admin")
def _(site: Site, person: str) -> Compared:
    page = site.main(person, "/hub/")
    checks = page.one(id="checks").all("li")
    failing = [item for item in checks if item.text.startswith("Fails:")]
    said = 0 if "Everything works" in page.text else number(r"(\d+) of \d+ checks", page.text)
    return said, len(failing)


@figure("hub: since when it serves is when it was away last", "admin")
def _(site: Site, person: str) -> Compared:
    minutes = [each["minute"] for each in site.rows.minutes]
    holes = [late for early, late in pairwise(minutes) if late - early > timedelta(minutes=2)]
    since = words(r"without a gap since (\d+ \w+ \d+, \d\d:\d\d) UTC", site.text(person, "/hub/"))
    # The first look is in the minute in which it came back, or at the beginning of the next.
    return since in {f"{day(at)}, {at:%H:%M}" for at in (holes[-1], holes[-1] - timedelta(minutes=1))}, True


@figure("bulk: how many of an act were done", "admin")
def _(site: Site, person: str) -> Compared:
    done = site.job.items.filter(state="done").count()
    return numbers(r"(\d+) of (\d+) clusters? labelled", site.text(person, "/bulk/")), (done, site.job.items.count())
