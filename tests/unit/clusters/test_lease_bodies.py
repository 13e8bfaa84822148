"""Bodies of leases read by hand: the same document as the general decoder's, or none."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from clusters.renewals import lease_bodies
from ocmconsole.core.protobuf_fields import LEASE
from ocmconsole.kubeapi import errors
from ocmconsole.kubeapi.formats import protobuf
from tests.unit.kubeapi.protobuf_encoder import encode

Doc = dict[str, Any]

# As an agent sends it back: the hub's entry, then its own.
ENTRY = {"operation": "Update", "apiVersion": "coordination.k8s.io/v1", "fieldsType": "FieldsV1"}
OF_THE_HUB: Doc = {"f:metadata": {"f:labels": {".": {}, "f:open-cluster-management.io/cluster-name": {}}}}
RENEWAL: Doc = {
    "metadata": {
        "name": "managed-cluster-lease",
        "namespace": "c1",
        "uid": "0d7c7b2e-7a5c-4d59-a5bd-9d1c7f9e0001",
        "resourceVersion": "12345",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"open-cluster-management.io/cluster-name": "c1"},
        "annotations": {"note": "ünïcode", "empty": ""},
        "managedFields": [
            {"manager": "ocmconsole", **ENTRY, "time": "2026-01-01T00:00:00Z", "fieldsV1": OF_THE_HUB},
            {
                "manager": "registration",
                **ENTRY,
                "time": "2026-02-01T00:01:00Z",
                "fieldsV1": {"f:spec": {"f:renewTime": {}}},
            },
        ],
    },
    "spec": {
        "holderIdentity": "managed-cluster-lease",
        "leaseDurationSeconds": 60,
        "acquireTime": "2026-01-01T00:00:00.000001Z",
        "renewTime": "2026-02-01T00:02:00.123456Z",
        "leaseTransitions": 300,
    },
}
BODY = encode(RENEWAL, LEASE, "coordination.k8s.io/v1", "Lease")


def read_with_care(body: bytes) -> bytes | None:
    try:
        return orjson.dumps(protobuf.decode(body, lambda *_: LEASE))
    except errors.ApiError:
        return None


def test_a_renewal_is_read_as_by_the_general_decoder() -> None:
    assert lease_bodies.decode(BODY) is not None
    assert orjson.dumps(lease_bodies.decode(BODY)) == read_with_care(BODY)


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"generation": 3}},
        {"metadata": {"finalizers": ["example.com/held"]}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"spec": {"preferredHolder": "me"}},
        {"spec": {"leaseDurationSeconds": -1}},
    ],
    ids=str,
)
def test_what_no_agent_sends_is_left_to_the_general_decoder(change: Doc) -> None:
    doc = {name: {**RENEWAL[name], **change.get(name, {})} for name in RENEWAL}
    body = encode(doc, LEASE, "coordination.k8s.io/v1", "Lease")
    assert lease_bodies.decode(body) is None
    assert read_with_care(body) is not None


def test_another_kind_is_left_to_the_general_decoder() -> None:
    assert lease_bodies.decode(encode(RENEWAL, LEASE, "coordination.k8s.io/v1", "Secret")) is None
    assert lease_bodies.decode(b"") is None


@pytest.mark.contract("W1", "W2")
def test_no_damage_is_read_otherwise_than_by_the_general_decoder() -> None:
    """Whatever happens to the bytes: one document, or none by hand."""
    chance, read = random.Random(14), 0  # noqa: S311 - a seed that finds the same again
    for _ in range(8_000):
        body = bytearray(BODY)
        for _ in range(chance.choice((1, 1, 2, 3))):
            _damage(body, chance)
        doc = lease_bodies.decode(bytes(body))
        if doc is not None:
            read += 1
            assert orjson.dumps(doc) == read_with_care(bytes(body))
    assert read > 500


def _damage(body: bytearray, chance: random.Random) -> None:
    at, what = chance.randrange(len(body)), chance.random()
    if what < 0.6:
        body[at] = chance.randrange(256)
    elif what < 0.75:
        body[at] ^= 1 << chance.randrange(8)
    elif what < 0.85:
        del body[at]
    else:
        body.insert(at, chance.randrange(256))
