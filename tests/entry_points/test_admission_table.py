"""Each row of the table of admission through each way: same outcome, same words, nothing left behind by a refusal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from clusters.kinds import GROUP
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.watch import change_log
from tests import factories as make
from tests.entry_points.admission import scene
from tests.entry_points.admission.row import BINDING, MUTATING, VALIDATING, Act, Allowed, Refused, Row, Stamp
from tests.entry_points.admission.scene import Caller
from tests.entry_points.admission.table import CASES, TABLE, brief
from tests.entry_points.admission.ways import WAYS, Said, Way
from tests.selection import FULL

WARNING = '299 - "{}"'
VERBS = {Act.CREATE: "create"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def ids_of(row: Row) -> list[str]:
    """A refusal has an envelope, and an act that has a name of its own is found by it in the audit."""
    more = "A0" if isinstance(row.outcome, Refused) else "D11" if row.outcome.act else ""
    return list(dict.fromkeys((*row.ids, *filter(None, (more,)))))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("row", "name"),
    [
        pytest.param(row, name, id=f"{row.title} - {name}", marks=pytest.mark.contract(*ids_of(row)))
        for row, name in (CASES if FULL else brief(CASES))
    ],
)
def test_admission(row: Row, name: str, settings: Any) -> None:
    way = WAYS[name]
    by = prepare(row)
    for setting, value in row.settings.items():
        present = getattr(settings, setting)
        setattr(settings, setting, {**present, **value} if isinstance(value, dict) else value)
    before, there, head = scene.everything(), scene.stored(row), change_log.newest_revision()
    said = way.act(row, by)
    allowed, denied = audited(head), denials(by)
    if isinstance(row.outcome, Allowed):
        is_done(row, row.outcome, said)
        expected = (by.name, way.place, row.outcome.act or f"{row.kind.kind.lower()}:{VERBS.get(row.act, way.verb)}")
        assert allowed == ([] if there == scene.stored(row) else [expected])
        assert denied == []
    else:
        text = words(row.outcome, way, by)
        assert said.text == (row.outcome.by_admin if name == "admin-form" and row.outcome.by_admin else text)
        if way.place == "api":
            assert (said.code, said.reason) == (row.outcome.code, row.outcome.reason)
            assert not row.outcome.about or said.details == {**row.outcome.about, "group": GROUP}
        assert scene.everything() == before
        assert allowed == []
        assert denied == ([(way.place, text)] if row.outcome.code == 403 else [])


def prepare(row: Row) -> Caller:
    for make_it in row.around:
        make_it()
    scene.store_old(row)
    if row.settled:
        make.settle()
    return scene.admit(row.who)


# ---------------------------------------------------------------- done


def is_done(row: Row, outcome: Allowed, said: Said) -> None:
    assert said.text == ""
    found = scene.stored(row)
    if row.act is Act.DELETE:
        assert found is None
        return
    assert found is not None
    shows(outcome.doc, found)
    if said.doc is not None:
        assert said.doc == found
        assert said.warning == (WARNING.format(outcome.warning.replace('"', '\\"')) if outcome.warning else "")


def shows(wanted: Any, found: Any, at: str = "") -> None:
    """Lists as a whole, of objects what is named; None is absent."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            shows(value, (found or {}).get(key), f"{at}.{key}")
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), at
        for index, value in enumerate(wanted):
            shows(value, found[index], f"{at}[{index}]")
    elif wanted is Stamp.NOW:
        assert TIME.fullmatch(found), at
        assert found > scene.LONG_AGO, at
    else:
        assert found == wanted, at


# ---------------------------------------------------------------- said and noted


def words(outcome: Refused, way: Way, by: Caller) -> str:
    text = (outcome.by_service if way.is_service else "") or outcome.message
    return text.replace("{user}", by.name).replace("{verb}", way.verb)


def audited(since: int) -> list[tuple[str, str, str]]:
    found = AuditEvent.objects.filter(outcome=AuditEvent.Outcome.ALLOWED, revision__gt=since).order_by("revision")
    return list(found.values_list("user", "entry_point", "act"))


def denials(by: Caller) -> list[tuple[str, str]]:
    found = AuditEvent.objects.filter(outcome=AuditEvent.Outcome.DENIED, user=by.name).order_by("pk")
    return list(found.values_list("entry_point", "reason"))


# ---------------------------------------------------------------- the table itself


def test_the_table_is_long_enough_and_says_everything_once() -> None:
    titles = [row.title for row in TABLE]
    assert len(titles) == len(set(titles)) >= 150
    assert {row.title for row, _ in CASES} == set(titles)


def test_the_ordinary_run_has_each_row_once_and_each_rule_done_and_refused_through_each_way() -> None:
    def shown(cases: list[tuple[Row, str]]) -> set[tuple[str, str, bool]]:
        return {(name, rule, isinstance(row.outcome, Refused)) for row, name in cases for rule in row.ids}

    chosen = brief(CASES)
    assert {row.title for row, _ in chosen} == {row.title for row in TABLE}
    assert shown(chosen) == shown(CASES)


CLUSTER = re.escape(VALIDATING)
# The texts of the rules of admission (A0 to A12, under D1 to D6), with anything in the place of names.
TEXTS = {
    "A1": rf'{re.escape(MUTATING)}It is not allowed to set TimeAdded of Taint "\w+"\.',
    "A1, several": rf'{re.escape(MUTATING)}It is not allowed to set TimeAdded of Taint "\w+,\w+"\.',
    "A3, url": rf'{CLUSTER}url ".+" is invalid in client configs',
    "A3, several": rf'{CLUSTER}metadata\.name .+\nurl ".+"(.|\n)+\nurl ".+" is invalid in client configs',
    "A4a": rf'{CLUSTER}managedclusters/accept\.cluster\.open-cluster-management\.io "(.+)" is forbidden: cluster namespace "\1" is terminating',
    "A4b": rf'{CLUSTER}managedclusters/accept\.cluster\.open-cluster-management\.io ".+" is forbidden: user ".+" cannot update the HubAcceptsClient field',
    "A6": rf'{CLUSTER}managedclustersets/join\.cluster\.open-cluster-management\.io "(.+)" is forbidden: user ".+" cannot add/remove a ManagedCluster to/from ManagedClusterSet "\1"',
    "A7d, long": rf"{CLUSTER}metadata\.name format is not correct: must be no more than 63 characters",
    "A7d, dots": rf"{CLUSTER}metadata\.name format is not correct: must not contain dots",
    "A7d, both": rf"{CLUSTER}metadata\.name format is not correct: must be no more than 63 characters,must not contain dots",
    "A7d, no name": r'ManagedCluster\.cluster\.open-cluster-management\.io "(.+)" is invalid: metadata\.name: Invalid value: "\1": a lowercase RFC 1123 subdomain must consist of .+',
    "A8": rf"{re.escape(BINDING)}The ManagedClusterSetBinding must have the same name as the target ManagedClusterSet",
    "A9": rf'{re.escape(BINDING)}managedclustersets/bind\.cluster\.open-cluster-management\.io "(.+)" is forbidden: user ".+" is not allowed to bind cluster set "\1"',
    "A11, enum": r'\w+\.cluster\.open-cluster-management\.io ".+" is invalid: .+: Unsupported value: ".+": supported values: ".+"',
    "A11, pattern": r'\w+\.cluster\.open-cluster-management\.io ".+" is invalid: (.+): Invalid value: ".+": \1 in body should match \'.+\'',
    "A11, required": r'\w+\.cluster\.open-cluster-management\.io ".+" is invalid: .+: Required value',
    "D4": rf'{re.escape(BINDING)}ManagedClusterSetBinding\..+ is invalid: metadata\.namespace: Forbidden: namespace ".+" is the cluster namespace of .+',
    "D18, system": rf'{CLUSTER}ManagedCluster\..+ is invalid: spec\.hubAcceptsClient: Forbidden: namespace ".+" belongs to the system .+',
    "D18, binding": rf'{CLUSTER}ManagedCluster\..+ is invalid: spec\.hubAcceptsClient: Forbidden: namespace ".+" holds a ManagedClusterSetBinding .+',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_denial_of_the_contract_is_in_the_table(text: str) -> None:
    said = [row.outcome.message for row in TABLE if isinstance(row.outcome, Refused)]
    assert any(re.fullmatch(text, message) for message in said)


@pytest.mark.contract("A7d")
def test_the_third_text_about_names_is_behind_another_that_refuses_first() -> None:
    """What is a subdomain is a label, but for length and dots; the rule knows the text nevertheless."""
    from clusters.admission import _name_flaws

    text = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character "
        "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )
    assert _name_flaws("-a") == [text]
