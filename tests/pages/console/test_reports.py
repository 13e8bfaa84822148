"""Reports: who decided what in a time, on which evidence, and what the chain says of it. Figures are recomputed from rows."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from clusters.models import ManagedCluster
from clustersets.kinds import MANAGED_CLUSTER_SET_BINDING
from ocmconsole.accounts import people, permissions
from ocmconsole.console.reports import decisions
from ocmconsole.core.kinds import CLUSTER_ROLE
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, AuditSeal
from ocmconsole.kubeapi.storage import audit, audit_chain
from registration.approvals import services
from tests import factories as make
from tests import requests
from tests.actors import ROOT, signed_in
from tests.security.test_audit_seals import TABLE, execute

pytestmark = [pytest.mark.django_db, pytest.mark.contract("D11", "D16")]

FORMULA = '=HYPERLINK("http://evil")'


@pytest.fixture
def auditor() -> Client:
    client = signed_in("rita")
    permissions.grant_permission(ROOT, "kubeapi.view_auditevent", to=User.objects.get(username="rita"))
    return client


def age() -> None:
    """As if all that has happened were five minutes old, and sealed."""
    AuditEvent.objects.update(time=timezone.now() - timedelta(minutes=5))
    audit_chain.seal_entries()


@pytest.fixture
def decided(db: None, settings: Any) -> None:
    """Two clusters accepted by people, one declined with a reason that is a formula, one sent away."""
    make.started(settings.OCMCONSOLE_HOME)
    for name in ("asks-1", "asks-2", "asks-3"):
        make.cluster(name)
        requests.ask(f"{name}-request", requests.agent_pem(name), cluster=name)
    make.settle()
    ana = Actor(user="ana", groups=ROOT.groups, entry_point=EntryPoint.WEB, address="10.0.0.7", request_id="r-1")
    services.accept_cluster(ana, "asks-1")
    services.accept_cluster(ROOT, "asks-2")
    services.decline_cluster(ana, "asks-3", reason=FORMULA)
    services.disconnect_cluster(ROOT, "asks-2")
    age()


def period() -> tuple[str, str]:
    now = timezone.now()
    return f"{now - timedelta(days=1):%Y-%m-%d}", f"{now:%Y-%m-%d}"


def written(path: Path, *options: str, form: str = "csv") -> str:
    since, until = period()
    call_command(
        "audit", "report", "--from", since, "--to", until, "--format", form, *options, str(path), stdout=io.StringIO()
    )
    return path.read_text()


def rows_of(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """What stands above, and the rows by their names."""
    lines = text.splitlines()
    above = [next(csv.reader([line]))[0] for line in lines if line.startswith(("#", '"#'))]
    rows = csv.DictReader(line for line in lines if not line.startswith(("#", '"#')))
    return dict(each.removeprefix("# ").split(": ", 1) for each in above), list(rows)


class Cells(HTMLParser):
    """The text of each row's cells, by the heading above the table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.tags: set[str] = set()
        self._table, self._in = "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "h2":
            self._table = dict(attributes)["id"] or ""
            self.tables[self._table] = []
        elif tag == "tr" and self._table:
            self.tables[self._table].append([])
        elif tag == "td":
            self.tables[self._table][-1].append("")
        self._in = tag if tag in {"td", "th"} else self._in

    def handle_data(self, data: str) -> None:
        if self._in == "td" and self._table and self.tables[self._table] and self.tables[self._table][-1]:
            self.tables[self._table][-1][-1] += data


def test_a_report_says_who_decided_what_by_which_way_and_on_which_evidence(decided: None, tmp_path: Path) -> None:
    _, rows = rows_of(written(tmp_path / "r.csv", "--kind", "acceptances"))
    found = {(row["name"], row["act"]): row for row in rows}
    accepted = found["asks-1", "managedcluster:accept"]
    assert (accepted["user"], accepted["way"], accepted["address"]) == ("ana", "console", "10.0.0.7")
    note = AuditEvent.objects.get(act="managedcluster:evidence", name="asks-1")
    kept = {part["path"]: part["new"] for part in note.diff}
    assert accepted["verdict"] == kept["evidence.verdict"]
    assert accepted["evidence"] == "; ".join(kept["evidence.facts"])
    assert accepted["keys"].startswith(kept["evidence.keys"][0])
    assert found["asks-2", "managedcluster:accept"]["user"] == "root"
    assert found["asks-2", "managedcluster:disconnect"]["way"] == "Kubernetes API"
    assert found["asks-3", "managedcluster:decline"]["user"] == "ana"
    assert not [row for row in rows if row["act"].startswith("managedcluster:evidence")]


def test_bindings_and_rights_are_reported_with_what_was_given_and_taken(tmp_path: Path) -> None:
    make.clusterset("web")
    make.namespace("team")
    make.binding("web", namespace="team")
    verbs.delete(ROOT, MANAGED_CLUSTER_SET_BINDING, Key("team", "web"))
    user = User.objects.create_user("tom")
    permissions.grant_permission(ROOT, "clusters.view_managedcluster", to=user)
    permissions.revoke_permission(ROOT, "clusters.view_managedcluster", to=user)
    _, rows = rows_of(written(tmp_path / "r.csv", "--kind", "bindings"))
    assert [(row["decision"], row["namespace"], row["name"]) for row in rows if row["act"].endswith((":create", ":delete"))] == [
        ("Created: ManagedClusterSetBinding", "team", "web"), ("Deleted: ManagedClusterSetBinding", "team", "web"),
    ]  # fmt: skip
    assert {row["kind"] for row in rows} == {"ManagedClusterSetBinding"}
    _, rows = rows_of(written(tmp_path / "r.csv", "--kind", "rights"))
    given = [(row["decision"], row["changes"]) for row in rows if row["act"].startswith("permission:")]
    assert [title for title, _ in given] == ["Permission granted", "Permission taken back"]
    assert given[0][1] == 'clusters.view_managedcluster: user "tom"'
    assert given[1][1] == 'clusters.view_managedcluster: user "tom" taken away'
    assert {row["seal"] for row in rows} == {""}, "younger than two minutes"


def test_superusers_memberships_and_roles_are_reported_as_rights(auditor: Client, tmp_path: Path) -> None:
    tom, group = User(username="tom"), Group.objects.create(name="approvers")
    people.save_user(ROOT, tom)
    people.save_user(ROOT, tom, groups=[group])
    tom.email = "tom@example.com"
    people.save_user(ROOT, tom)
    tom.is_superuser = True
    people.save_user(ROOT, tom, groups=[])
    people.save_user(ROOT, User(username="boss", is_superuser=True))
    people.delete_account(ROOT, tom)
    make.create(CLUSTER_ROLE, make.document(CLUSTER_ROLE, "reader", rules=[]), by=ROOT)
    _, rows = rows_of(written(tmp_path / "r.csv", "--kind", "rights"))
    assert [(row["act"], row["name"], row["changes"]) for row in rows if not row["act"].startswith("permission:")] == [
        ("user:update", "tom", "groups: approvers"),
        ("user:update", "tom", "is_superuser: False → True; groups: approvers taken away"),
        ("user:create", "boss", "is_superuser: True"),
        ("user:delete", "tom", "is_superuser: True taken away"),
        ("clusterrole:create", "reader", ""),
    ]
    assert "groups: approvers" in page(auditor, kind="rights", format="html")
    assert "No such decision in this time." in page(auditor, kind="bindings")


def test_second_approvals_are_among_all_decisions(db: None, tmp_path: Path) -> None:
    acts = ["second-approval:approve", "second-approval:decline", "second-approval:done", "second-approval:break-glass"]
    for act in ("second-approval:propose", *acts):
        audit.entry_of(ROOT, act, resource="second-approvals", name="1", diff=[]).save()
    _, rows = rows_of(written(tmp_path / "r.csv"))
    assert [row["act"] for row in rows] == acts


def test_what_a_spreadsheet_would_run_is_text(decided: None, tmp_path: Path) -> None:
    text = written(tmp_path / "r.csv")
    _, rows = rows_of(text)
    assert {row["reason"] for row in rows if row["act"] == "managedcluster:decline"} == {f"'{FORMULA}"}
    for line in csv.reader(io.StringIO(text)):
        assert not [cell for cell in line if cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))]


def test_figures_are_those_of_the_rows_and_of_the_audit(decided: None, tmp_path: Path) -> None:
    above, rows = rows_of(written(tmp_path / "r.csv"))
    html = Cells(written(tmp_path / "r.html", form="html"))
    entries = list(AuditEvent.objects.filter(pk__in=[int(row["entry"]) for row in rows]).order_by("pk"))
    assert above["decisions"] == str(len(rows)) == str(len(entries))
    assert above["audit entries in this time"] == str(AuditEvent.objects.count())
    assert above["SHA-256 of the entries"] == hashlib.sha256(b"\n".join(map(audit_chain.line, entries))).hexdigest()
    by_act = Counter(row["decision"] for row in rows)
    assert {name: int(count) for name, count in filter(None, html.tables["acts"])} == by_act
    by_user = Counter(row["user"] for row in rows)
    assert {name: int(count) for name, count in filter(None, html.tables["users"])} == by_user
    assert len([*filter(None, html.tables["rows"])]) == len(rows)
    kind = decisions.KINDS["decisions"]
    asked = [
        entry.pk
        for entry in AuditEvent.objects.order_by("pk")
        if entry.outcome == "allowed"
        and (
            entry.act in kind.acts
            or (entry.act in kind.by_people and entry.entry_point != EntryPoint.CONTROLLER)
            or (entry.act in kind.of_accounts and decisions.account_rights(entry))
        )
    ]
    assert [int(row["entry"]) for row in rows] == asked


def test_a_report_names_the_seals_that_hold_it_and_the_head_of_the_chain(
    decided: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AuditSeal.objects.all().delete()
    monkeypatch.setattr(audit_chain, "SEGMENT", 4)
    audit_chain.seal_entries()
    above, rows = rows_of(written(tmp_path / "r.csv"))
    for row in rows:
        seal = AuditSeal.objects.get(number=int(row["seal"]))
        assert seal.first <= int(row["entry"]) <= seal.last
        assert row["sealDigest"] == seal.digest
    newest = AuditSeal.objects.order_by("-number")[0]
    assert above["head of the chain"] == f"seal {newest.number}: {newest.digest}"
    assert newest.digest in above["seal that covers the period"]
    assert above["chain"].startswith(f"verified: the whole chain, {AuditEvent.objects.count()} entries")


def test_a_report_of_an_audit_that_was_tampered_with_says_so_and_fails(
    decided: None, tmp_path: Path, auditor: Client
) -> None:
    execute(f'UPDATE {TABLE} SET "user" = %s WHERE act = %s', "nobody", "managedcluster:accept")  # noqa: S608 - our own table
    with pytest.raises(CommandError, match="THE AUDIT IS NOT AS IT WAS SEALED: seal 1"):
        written(tmp_path / "r.csv")
    assert "THE AUDIT IS NOT AS IT WAS SEALED" in (tmp_path / "r.csv").read_text()
    assert "THE AUDIT IS NOT AS IT WAS SEALED" in page(auditor)


def test_seals_of_a_period_that_were_taken_out_are_missed(
    decided: None, auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    AuditSeal.objects.all().delete()
    monkeypatch.setattr(audit_chain, "SEGMENT", 4)
    audit_chain.seal_entries()
    first, last = AuditSeal.objects.get(number=2).first, AuditSeal.objects.get(number=2).last
    assert audit_chain.verify_between(first, last).flaws == ()
    AuditSeal.objects.filter(number=2).delete()
    assert audit_chain.verify_between(first, last).flaws


def test_html_stands_alone_and_shows_no_markup_of_others(decided: None, tmp_path: Path) -> None:
    reason = "<script>alert(1)</script><img src=x>"
    actor = Actor(user="<b>eve</b>", groups=ROOT.groups, entry_point=EntryPoint.CLI)
    place = {"resource": "managedclusters.x", "name": "n"}
    audit.entry_of(actor, "managedcluster:decline", reason=reason, diff=[], **place).save()
    text = written(tmp_path / "r.html", form="html")
    assert not {*Cells(text).tags} & {"script", "img", "link", "iframe", "b "}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert not re.search(r"<[^>]*(src|href)=|url\(|@import", text)
    assert "@media print" in text
    assert "default-src &#x27;none&#x27;" in text
    assert (tmp_path / "r.html").stat().st_mode & 0o777 == 0o600


def page(client: Client, **query: str) -> str:
    since, until = period()
    answer = client.get("/activity/report/", {"from": since, "to": until, **query})
    assert answer.status_code == 200
    return (b"".join(answer.streaming_content) if answer.streaming else answer.content).decode()  # type: ignore[attr-defined]


def test_an_auditor_reads_the_same_in_the_console_and_in_its_files(
    decided: None, auditor: Client, tmp_path: Path
) -> None:
    _, rows = rows_of(written(tmp_path / "r.csv"))
    above, downloaded = rows_of(page(auditor, format="csv"))
    assert downloaded == rows
    assert above["chain"].startswith("verified: the seals of this period")
    shown = page(auditor)
    for row in rows:
        assert f'<td data-label="Entry" class="oc-nowrap">{row["entry"]}<br>' in shown
    assert len(Cells(page(auditor, format="html")).tables["rows"]) == len(rows) + 1


def test_a_period_without_entries_has_no_seal_that_was_verified(decided: None, auditor: Client) -> None:
    text = page(auditor, **{"from": "2020-01-01", "to": "2020-01-31"})
    assert "there is no entry of this period, and so no seal" in text
    assert "verified:" not in text


def test_an_auditor_whose_period_makes_no_sense_is_not_told_to_be_limited(auditor: Client) -> None:
    text = page(auditor, **{"from": "2020-02-01", "to": "2020-01-01"})
    assert "The last day lies before the first one." in text
    assert "Limited to what you may see" not in text


def test_who_acted_as_somebody_else_is_named_on_the_page_as_in_the_files(auditor: Client) -> None:
    audit.entry_of(
        Actor(user="ana", impersonator="mallory", entry_point=EntryPoint.API),
        "managedcluster:accept",
        resource="managedclusters",
        name="edge",
        diff=[],
    ).save()
    assert 'ana<br><span class="oc-xs">really mallory</span>' in page(auditor)
    assert "ana, really mallory" in page(auditor, format="html")


def test_others_read_what_they_see_and_nothing_of_the_chain(decided: None) -> None:
    client = signed_in("sam")
    assert "asks-" not in page(client)
    cluster = ManagedCluster.objects.get(name="asks-1")
    permissions.grant_permission(ROOT, "clusters.view_managedcluster", to=User.objects.get(username="sam"), obj=cluster)
    above, rows = rows_of(page(client, format="csv"))
    assert {row["name"] for row in rows if row["kind"] == "ManagedCluster"} == {"asks-1"}
    assert [row["verdict"] for row in rows if row["act"] == "managedcluster:accept"] != [""]
    text = page(client) + page(client, format="html") + page(client, format="csv")
    assert "asks-1" in text
    assert not re.search(r"asks-[23]", text)
    assert "head of the chain" not in above
    assert int(above["audit entries in this time"]) < AuditEvent.objects.count()


def test_days_are_whole_and_the_last_one_counts(tmp_path: Path) -> None:
    for text in ("2026-09-30T23:59:59", "2026-10-01T00:00:00", "2026-10-31T23:59:59", "2026-11-01T00:00:00"):
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
        audit.entry_of(ROOT, "managedcluster:accept", time=at, resource="managedclusters", name=text, diff=[]).save()
    path = tmp_path / "october.csv"
    call_command(
        "audit",
        "report",
        "--from",
        "2026-10-01",
        "--to",
        "2026-10-31",
        "--format",
        "csv",
        str(path),
        stdout=io.StringIO(),
    )
    above, rows = rows_of(path.read_text())
    assert [row["name"] for row in rows] == ["2026-10-01T00:00:00", "2026-10-31T23:59:59"]
    assert (above["from"], above["before"]) == ("2026-10-01 00:00:00 UTC", "2026-11-01 00:00:00 UTC")


@pytest.mark.parametrize("until", ["2026-10-31T14:00:00Z", "2026-10-31 14:00:00Z"])
def test_a_time_of_day_counts_up_to_it_however_it_is_written(until: str, db: None, tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    options = ("--from", "2026-10-01", "--to", until, "--format", "csv", str(path))
    call_command("audit", "report", *options, stdout=io.StringIO())
    assert rows_of(path.read_text())[0]["before"] == "2026-10-31 14:00:00 UTC"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--from", "2026-10-02", "--to", "2026-09-01", "x"), "--to lies before --from"),
        (("--from", "soon", "--to", "2026-09-01", "x"), "'soon' must be like"),
        (("--from", "2026-10-02", "--to", "9999-12-31", "x"), "'9999-12-31' is no such time"),
        (("--from", "0001-01-01T00:00:00+14:00", "--to", "2026-10-31", "x"), "is no such time"),
        (("--from", "2026-10-02", "--to", "2026-10-02", "--kind", "gossip", "x"), "'gossip' must be one of"),
        (("--from", "2026-10-02", "--to", "2026-10-02", "/nowhere/x"), "cannot be written"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(options: Any, said: str) -> None:
    with pytest.raises(CommandError, match=re.escape(said)):
        call_command("audit", "report", *options, stdout=io.StringIO())


def test_odd_periods_in_the_address_do_no_harm(auditor: Client) -> None:
    for query in (
        {"from": "x", "to": "31"},
        {"from": "2026-13-40"},
        {"from": "0001-01-01", "to": "9999-12-31"},
        {"kind": "x"},
    ):
        assert auditor.get("/activity/report/", query).status_code == 200
    assert (
        "lies before" in auditor.get("/activity/report/", {"from": "2026-10-02", "to": "2026-10-01"}).content.decode()
    )


def test_too_many_decisions_are_refused_and_not_cut(
    decided: None, auditor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MOST", 2)
    assert "There are more than 2 decisions in this time" in page(auditor)
