"""The same act on many objects in one transaction: who is too late or odd is left out, the others are written (D12)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from ocmconsole.core.kinds import CONFIG_MAP, NAMESPACE
from ocmconsole.kubeapi import errors, many_writes, verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent, Change, Revision
from ocmconsole.kubeapi.verbs import Batch
from tests import factories as make

pytestmark = pytest.mark.django_db

TEAM = "team"
KEYS = [Key(TEAM, f"m{number}") for number in range(6)]


@pytest.fixture(autouse=True)
def maps(db: None) -> None:
    make.namespace(TEAM)
    for key in KEYS:
        make.create(CONFIG_MAP, make.document(CONFIG_MAP, key.name) | {"data": {"n": "0"}}, namespace=TEAM)
    make.settle()


def read(batch: Batch, keys: Collection[Key]) -> None:
    batch.read(CONFIG_MAP, keys)


def count_up(batch: Batch, key: Key) -> None:
    batch.edit(CONFIG_MAP, key, lambda doc: doc["data"].update(n=str(int(doc["data"]["n"]) + 1)))


def numbers() -> list[str]:
    return [row.doc["data"]["n"] for row in CONFIG_MAP.model.objects.filter(name__startswith="m").order_by("name")]


def test_all_are_written_by_one_commit_without_gaps() -> None:
    before = Revision.objects.get().value
    assert many_writes.write_each(make.ADMIN, KEYS, read, count_up) == []
    assert numbers() == ["1"] * 6
    after = Change.objects.filter(revision__gt=before).order_by("revision")
    assert list(after.values_list("revision", flat=True)) == list(range(before + 1, before + 7))
    assert len(set(after.values_list("time", flat=True))) == 1
    assert len(set(AuditEvent.objects.filter(revision__gt=before).values_list("request_id", flat=True))) == 6


def test_who_was_written_meanwhile_is_left_out() -> None:
    late = {KEYS[2], KEYS[4]}

    def compose(batch: Batch, key: Key) -> None:
        count_up(batch, key)
        if key in late:
            make.edit(CONFIG_MAP, key.name, lambda doc: doc["data"].update(n="7"), namespace=TEAM)

    assert set(many_writes.write_each(make.ADMIN, KEYS, read, compose)) == late
    assert numbers() == ["1", "1", "7", "1", "7", "1"]


def test_what_continues_a_write_that_came_too_late_is_left_out_with_it() -> None:
    def compose(batch: Batch, key: Key) -> None:
        count_up(batch, key)
        if key in KEYS[:2]:
            count_up(batch, KEYS[0])
        if key == KEYS[5]:
            make.edit(CONFIG_MAP, "m0", lambda doc: doc["data"].update(n="7"), namespace=TEAM)

    assert many_writes.write_each(make.ADMIN, KEYS, read, compose) == KEYS[:2]
    assert numbers() == ["7", "0", "1", "1", "1", "1"]


@pytest.mark.parametrize("error", [many_writes.LeftOut(), errors.BadRequest("odd"), KeyError("odd")])
def test_who_is_odd_is_left_out_with_what_it_had_written(error: Exception) -> None:
    def compose(batch: Batch, key: Key) -> None:
        count_up(batch, key)
        if key == KEYS[1]:
            raise error

    assert many_writes.write_each(make.ADMIN, KEYS, read, compose) == [KEYS[1]]
    assert numbers() == ["1", "0", "1", "1", "1", "1"]


def test_a_commit_that_fails_leaves_all_of_it_out_and_none_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them creates what is there already, which the database finds."""
    monkeypatch.setattr(many_writes, "AT_ONCE", 3)

    def compose(batch: Batch, key: Key) -> None:
        count_up(batch, key)
        if key == KEYS[1]:
            batch.create(CONFIG_MAP, make.document(CONFIG_MAP, "m5"), namespace=TEAM)

    assert many_writes.write_each(make.ADMIN, KEYS, read, compose) == KEYS[:3]
    assert numbers() == ["0", "0", "0", "1", "1", "1"]


# ---------------------------------------------------------------- rows of one commit


def test_an_object_that_comes_changes_and_goes_in_one_commit_leaves_no_row() -> None:
    def act() -> None:
        with verbs.batch(make.ADMIN) as batch:
            batch.create(CONFIG_MAP, make.document(CONFIG_MAP, "brief") | {"data": {"n": "0"}}, namespace=TEAM)
            count_up(batch, Key(TEAM, "brief"))
            batch.delete(CONFIG_MAP, Key(TEAM, "brief"))

    assert [line.partition(" ")[0] for line in make.writes_of(act)] == ["ADDED", "MODIFIED", "DELETED"]
    assert not CONFIG_MAP.model.objects.filter(name="brief").exists()


def test_an_object_takes_the_place_of_one_that_goes_in_the_same_commit() -> None:
    before = CONFIG_MAP.model.objects.get(name="m0").uid
    with verbs.batch(make.ADMIN) as batch:
        batch.create(CONFIG_MAP, make.document(CONFIG_MAP, "other"), namespace=TEAM)
        batch.delete(CONFIG_MAP, KEYS[0])
        batch.create(CONFIG_MAP, make.document(CONFIG_MAP, "m0") | {"data": {"n": "9"}}, namespace=TEAM)
    assert numbers()[0] == "9"
    assert CONFIG_MAP.model.objects.get(name="m0").uid != before


def test_of_many_that_are_created_the_one_whose_place_is_taken_is_named() -> None:
    batch = Batch(make.ADMIN)
    for name in ("x", "m3", "y"):
        batch.create(CONFIG_MAP, make.document(CONFIG_MAP, name), namespace=TEAM)
    with pytest.raises(errors.AlreadyExists, match="m3"):
        batch.commit()
    assert not CONFIG_MAP.model.objects.filter(name__in=("x", "y")).exists()


def test_a_create_sees_the_namespace_that_was_read_with_the_batch() -> None:
    make.edit(NAMESPACE, TEAM, lambda doc: doc["metadata"].update(finalizers=["example.com/hold"]))
    verbs.delete(make.ADMIN, NAMESPACE, Key("", TEAM))
    batch = Batch(make.ADMIN)
    batch.read(NAMESPACE, [Key("", TEAM)])
    with pytest.raises(errors.Forbidden, match="being terminated"):
        batch.create(CONFIG_MAP, make.document(CONFIG_MAP, "x"), namespace=TEAM)
