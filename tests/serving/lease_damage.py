"""Renewals with something wrong in them, the same for two leases, one of which is renewed by each path.

Called as lease_corpus is, which says what is compared.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.fuzz.mutations import places, replaced
from tests.serving.lease_corpus import SPEC, Twins, assert_alike
from tests.serving.leases import AGENTS, JSON, ORDINARY, PROTOBUF, Doc, Scene, compact, moment, protobuf, told
from tests.unit.kubeapi.protobuf_encoder import chunk, varint

NO_JSON = b": line 1 column "
VALUES: tuple[Any, ...] = (
    None,
    "",
    "x",
    0,
    1,
    True,
    1.0,
    2**63,
    [],
    {},
    [{}],
    "2031-01-01T00:00:00.000000Z",
    "managed-cluster-lease",
)


def damaged(chance: random.Random, lease: Doc) -> tuple[bytes, str]:
    """A renewal with something wrong in it, perhaps, and its media type."""
    if chance.random() < 0.5:
        found = list(places(lease))
        place, _ = chance.choice(found)
        body = compact(replaced(lease, place, chance.choice(VALUES)))
        return (body, JSON) if chance.random() < 0.7 else (_with_other_bytes(chance, body), JSON)
    # Before it is the metadata, of which other bytes would be read as tags in the body for the other lease. All of it is
    # damaged in tests/unit/clusters/test_lease_bodies.py.
    body = protobuf(lease)
    return _with_other_bytes(chance, body, body.index(SPEC(lease))), PROTOBUF


def _with_other_bytes(chance: random.Random, body: bytes, first: int = 0) -> bytes:
    spoilt = bytearray(body)
    for _ in range(chance.choice((0, 1, 1, 2))):
        at = chance.randrange(first, len(spoilt))
        match chance.randrange(3):
            case 0:
                spoilt[at] = chance.randrange(256)
            case 1:
                del spoilt[at]
            case _:
                spoilt.insert(at, chance.randrange(256))
    return bytes(spoilt)


def assert_same_damage(scene: Scene, twins: Twins, chance: random.Random, times: int) -> Iterator[int]:
    """Yields the status of each. The body for the other lease has what is its own, wherever that is whole."""
    for _ in range(times):
        fast, its_own = _alike(scene, twins)
        fast.setdefault("spec", {})["renewTime"] = moment()  # an earlier body may have left it out
        body, media = damaged(chance, fast)
        other = re.sub(b"|".join(map(re.escape, its_own)), lambda found: its_own[found[0]], body)  # noqa: B023 - called at once
        answers = [
            agent.ask("PUT", sent, Content_Type=media, **headers)
            for agent, sent, headers in zip(twins, (body, other), (AGENTS, ORDINARY), strict=True)
        ]
        if all(NO_JSON in answer.body for answer in answers):  # says where, which own bytes that are damaged may move
            assert {answer.status for answer in answers} == {400}
        else:
            assert_alike(*answers)
        assert told(scene.stored(twins[0].name)) == told(scene.stored(twins[1].name)), (body, other)
        yield answers[0].status


def _alike(scene: Scene, twins: Twins) -> tuple[Doc, dict[bytes, bytes]]:
    """The lease of the lease path, and bytes of it by what they are in the other: name, uid, version, times of entries.

    Both are renewed until they are of one length, and one thing stands for one other.
    """
    while True:
        fast, slow = (scene.lease(agent.name) for agent in twins)
        pairs = list(_own(fast, slow))
        own = dict(pairs)
        if all(len(mine) == len(its) and own[mine] == its for mine, its in pairs):
            return fast, own
        at = moment()
        for agent, lease in zip(twins, (fast, slow), strict=True):
            assert agent.renew(lease, at, **ORDINARY).status == 200


def _own(fast: Doc, slow: Doc) -> Iterator[tuple[bytes, bytes]]:
    for name in ("namespace", "uid"):
        yield fast["metadata"][name].encode(), slow["metadata"][name].encode()
    mine, its = (lease["metadata"]["resourceVersion"].encode() for lease in (fast, slow))
    yield b'"resourceVersion":"%s"' % mine, b'"resourceVersion":"%s"' % its
    yield b"\x32" + bytes([len(mine)]) + mine, b"\x32" + bytes([len(its)]) + its
    entries = (lease["metadata"].get("managedFields") or [] for lease in (fast, slow))
    for first, second in zip(*entries, strict=True):
        if "time" in first:
            for spelled in (_time_in_json, _time_in_protobuf):
                yield spelled(first["time"]), spelled(second["time"])


def _time_in_json(time: str) -> bytes:
    return b'"time":"%s"' % time.encode()


def _time_in_protobuf(time: str) -> bytes:
    return chunk(4, b"\x08" + varint(int(datetime.fromisoformat(time).timestamp())) + b"\x10\x00")
