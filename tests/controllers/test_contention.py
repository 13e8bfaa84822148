"""Many writers at one object: who named no resourceVersion is never refused because others write it (W14, W15)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import count

import pytest
from django.db import connection

from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.kubeapi import admission, errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.errors import Doc
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.writes import batches
from tests import factories as make
from tests.api import entry
from tests.api.entry import APPLY, JSON_PATCH, MERGE, Answer, Entry

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/api/v1/namespaces/n/configmaps/c"
KEY = Key("n", "c")
RIVAL = Actor.controller("rival")
PATIENCE = 60.0  # for a rival's write, where rivals can write
IN_VAIN = 0.3  # for one that waits until it may


def _rival(number: int, doc: Doc) -> None:
    doc["data"]["rival"] = str(number)


class Rivals:
    """Write the object whenever somebody else is about to decide about it."""

    def __init__(self) -> None:
        self.met = 0
        self._wanted = threading.Event()
        self._written = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run)

    def rule(self, actor: Actor, *_: Doc | None) -> None:
        """An admission rule that takes as long as a rival needs for a write."""
        if actor.user == RIVAL.user:
            return
        self.met += 1
        self._written.clear()
        self._wanted.set()
        self._written.wait(PATIENCE if self.met <= batches.OPTIMISTIC_TRIES else IN_VAIN)

    def _run(self) -> None:
        with closing(connection):
            for number in count():
                self._wanted.wait()
                self._wanted.clear()
                if self._stopping:
                    return
                with suppress(errors.NotFound):
                    verbs.edit(RIVAL, CONFIG_MAP, KEY, partial(_rival, number))
                self._written.set()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        rules = (admission._validators[CONFIG_MAP.resource, ""], admission._delete_validators[CONFIG_MAP.resource])
        self._thread.start()
        for collected in rules:
            collected.append(self.rule)
        try:
            yield
        finally:
            for collected in rules:
                collected.remove(self.rule)
            self._stopping = True
            self._wanted.set()
            self._thread.join()


def put(root: Entry) -> Answer:
    return root.put(PATH, {"metadata": {"name": "c"}, "data": {"mine": "yes"}})


def put_of_a_version(root: Entry) -> Answer:
    return root.put(PATH, root.get(PATH).doc | {"data": {"mine": "yes"}})


def delete_of_a_version(root: Entry) -> Answer:
    return root.delete(PATH, {"preconditions": {"resourceVersion": root.get(PATH).doc["metadata"]["resourceVersion"]}})


def apply(root: Entry) -> Answer:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"mine": "yes"}}
    return root.patch(f"{PATH}?fieldManager=me", body, APPLY)


WAYS: dict[str, Callable[[Entry], Answer]] = {
    "merge patch": lambda root: root.patch(PATH, {"data": {"mine": "yes"}}, MERGE),
    "JSON patch": lambda root: root.patch(PATH, [{"op": "add", "path": "/data/mine", "value": "yes"}], JSON_PATCH),
    "apply": apply,
    "PUT": put,
    "DELETE": lambda root: root.delete(PATH),
}


@pytest.fixture
def root() -> Entry:
    make.namespace("n")
    make.create(CONFIG_MAP, make.document(CONFIG_MAP, "c") | {"data": {"first": "yes"}}, namespace="n")
    return entry.root()


@pytest.mark.contract("W14", "W15")
@pytest.mark.parametrize("way", WAYS)
def test_a_write_without_a_version_is_done_however_many_others_write_the_object(root: Entry, way: str) -> None:
    rivals = Rivals()
    with rivals.at_work():
        answer = WAYS[way](root)
    assert answer.code == 200, answer.body
    assert rivals.met > 1, "nobody else has written in between"
    stored = verbs.find(CONFIG_MAP, KEY)
    if way == "DELETE":
        assert stored is None
        return
    assert stored is not None
    assert stored["data"]["mine"] == "yes"
    assert stored["data"]["rival"] == str(rivals.met - 1), "the rival that waited has not written after it"


@pytest.mark.contract("W14", "W15")
@pytest.mark.parametrize("way", [put_of_a_version, delete_of_a_version])
def test_a_write_that_names_a_version_is_refused_when_others_were_first(
    root: Entry, way: Callable[[Entry], Answer]
) -> None:
    with Rivals().at_work():
        answer = way(root)
    assert answer.said == (409, "Conflict")
    stored = verbs.find(CONFIG_MAP, KEY)
    assert stored is not None
    assert stored["data"] == {"first": "yes", "rival": "0"}


@pytest.mark.contract("D11", "W14")
def test_a_refusal_that_was_decided_while_nobody_else_could_write_is_audited_once(root: Entry) -> None:
    def refuse(actor: Actor, *_: Doc | None) -> None:
        if actor.user != RIVAL.user and rivals.met == batches.OPTIMISTIC_TRIES:
            raise errors.Forbidden("not now")

    rivals = Rivals()
    rules = admission._validators[CONFIG_MAP.resource, ""]
    rules.append(refuse)
    try:
        with rivals.at_work():
            answer = WAYS["merge patch"](root)
    finally:
        rules.remove(refuse)
    assert answer.said == (403, "Forbidden")
    assert [each.reason for each in AuditEvent.objects.filter(outcome="denied", name="c")] == ["not now"]
