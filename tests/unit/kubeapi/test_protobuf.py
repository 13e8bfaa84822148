"""Protobuf bodies: what typed Go clients send becomes the JSON that everybody else sends."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.core import protobuf_fields
from ocmconsole.kubeapi.errors import ApiError, BadRequest, Doc, UnsupportedMediaType
from ocmconsole.kubeapi.formats import protobuf
from ocmconsole.kubeapi.formats.protobuf import Field, Message
from tests.unit.kubeapi.protobuf_encoder import chunk, encode, encode_message, varint

TABLES = {
    name: value for name, value in vars(protobuf_fields).items() if name[0].isalpha() and isinstance(value, Message)
}
NUMBERS = Message(
    "Numbers",
    {
        1: Field("small", "int32"),
        2: Field("large", "int64"),
        3: Field("kept", "int64", pointer=True),
        4: Field("many", "int64", repeated=True),
        5: Field("yes", "bool"),
        6: Field("flags", "bool", map=True),
        7: Field("at", "time"),
        8: Field("exactly", "micro-time"),
        9: Field("counts", "int32", map=True),
        10: Field("things", Message("Thing", {1: Field("name")}), map=True),
    },
)


def decoded(body: bytes, message: Message) -> Doc:
    return protobuf.decode(body, lambda *_: message)


# Bodies of real clients


@pytest.mark.contract("W1")
def test_the_question_of_kubectl_auth_can_i_is_read() -> None:
    # A body that kubectl 1.32 sent.
    raw = (
        bytes.fromhex("0a10 0a00 1200 1a00 2200 2a00 3200 3800 4200".replace(" ", ""))
        + b"\x12\x11\x12\x0f\x0a\x08/healthz\x12\x03get"
        + bytes.fromhex("1a08 0800 1200 1a00 2000".replace(" ", ""))
    )
    type_meta = chunk(1, b"authorization.k8s.io/v1") + chunk(2, b"SelfSubjectAccessReview")
    body = b"k8s\0" + chunk(1, type_meta) + chunk(2, raw) + b"\x1a\x00\x22\x00"
    asked: list[tuple[str, str]] = []

    def find(api_version: str, kind: str) -> Message:
        asked.append((api_version, kind))
        return protobuf_fields.SELF_SUBJECT_ACCESS_REVIEW

    assert protobuf.decode(body, find) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
        "status": {},
    }
    assert asked == [("authorization.k8s.io/v1", "SelfSubjectAccessReview")]


@pytest.mark.contract("W1", "W29", "W104")
def test_a_lease_renewal_has_microseconds_and_only_the_pointers_that_were_sent() -> None:
    lease = {
        "metadata": {"name": "managed-cluster-lease", "namespace": "c1", "resourceVersion": "476"},
        "spec": {"leaseDurationSeconds": 60, "renewTime": "2026-11-21T02:23:31.500000+00:00"},
    }
    assert decoded(encode(lease, protobuf_fields.LEASE, "coordination.k8s.io/v1", "Lease"), protobuf_fields.LEASE) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "managed-cluster-lease", "namespace": "c1", "resourceVersion": "476"},
        "spec": {"leaseDurationSeconds": 60, "renewTime": "2026-11-21T02:23:31.500000Z"},
    }


@pytest.mark.contract("W1", "W23", "W103")
def test_a_signing_request_keeps_its_bytes_and_extras() -> None:
    pem = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\n\xff\x00").decode()
    spec = {
        "request": pem,
        "signerName": "example.com/s",
        "usages": ["client auth"],
        "extra": {"scope": ["a", "b"], "none": []},
    }
    body = encode(
        {"metadata": {"generateName": "c1-"}, "spec": spec},
        protobuf_fields.CERTIFICATE_SIGNING_REQUEST,
        "certificates.k8s.io/v1",
        "X",
    )
    assert decoded(body, protobuf_fields.CERTIFICATE_SIGNING_REQUEST)["spec"] == spec


@pytest.mark.contract("W170")
def test_delete_options_are_read_whatever_group_their_envelope_names() -> None:
    options = {"gracePeriodSeconds": 0, "orphanDependents": False, "preconditions": {"uid": ""}, "dryRun": ["All"]}
    body = encode(options, protobuf_fields.DELETE_OPTIONS, "cluster.open-cluster-management.io/v1", "DeleteOptions")
    assert decoded(body, protobuf_fields.DELETE_OPTIONS) == {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "DeleteOptions",
        **options,
    }


# What typed Go clients write that JSON leaves out


@pytest.mark.contract("W108")
def test_empty_scalars_that_are_no_pointers_are_dropped_and_empty_messages_stay() -> None:
    read = protobuf.decode_message(encode_message({}, protobuf_fields.EVENT_CORE), protobuf_fields.EVENT_CORE)
    assert read == {"metadata": {}, "involvedObject": {}, "source": {}}


def test_empty_strings_in_lists_and_maps_are_values() -> None:
    role: Doc = {"metadata": {"labels": {"a": "", "": "b"}}, "rules": [{"apiGroups": [""]}, {}]}
    assert protobuf.decode_message(encode_message(role, protobuf_fields.ROLE), protobuf_fields.ROLE) == role


def test_a_map_entry_may_leave_out_what_is_zero() -> None:
    raw = chunk(6, chunk(1, b"a")) + chunk(9, b"") + chunk(10, chunk(1, b"t"))
    assert protobuf.decode_message(raw, NUMBERS) == {"flags": {"a": False}, "counts": {"": 0}, "things": {"t": {}}}
    assert protobuf.decode_message(chunk(2, chunk(1, b"k")), protobuf_fields.SECRET) == {"data": {"k": ""}}
    assert protobuf.decode_message(chunk(4, chunk(1, b"k")), protobuf_fields.SELF_SUBJECT_REVIEW.fields[2].type) == {}  # type: ignore[arg-type] # a table


def test_an_empty_time_is_no_time_and_zero_seconds_are_1970() -> None:
    assert protobuf.decode_message(chunk(7, b"") + chunk(8, b""), NUMBERS) == {}
    assert protobuf.decode_message(chunk(7, b"\x08\x00\x10\x00") + chunk(8, b"\x10\x05"), NUMBERS) == {
        "at": "1970-01-01T00:00:00Z",
        "exactly": "1970-01-01T00:00:00.000000Z",
    }
    before = chunk(7, b"\x08" + varint(-62135596800))
    assert protobuf.decode_message(before, NUMBERS) == {"at": "0001-01-01T00:00:00Z"}


def test_numbers_are_signed_and_zero_is_kept_only_for_pointers() -> None:
    raw = b"\x08" + varint(-5) + b"\x10" + varint(-(2**63)) + b"\x18\x00" + b"\x28\x00"
    assert protobuf.decode_message(raw, NUMBERS) == {"small": -5, "large": -(2**63), "kept": 0}


def test_repeated_numbers_may_be_packed() -> None:
    raw = b"\x20\x01" + chunk(4, varint(2) + varint(-3)) + b"\x20\x04"
    assert protobuf.decode_message(raw, NUMBERS) == {"many": [1, 2, -3, 4]}


def test_the_last_scalar_counts_and_messages_are_joined() -> None:
    raw = chunk(1, chunk(1, b"old") + chunk(3, b"ns")) + chunk(1, chunk(1, b"new")) + chunk(1, chunk(3, b""))
    assert protobuf.decode_message(raw, protobuf_fields.CONFIG_MAP) == {"metadata": {"name": "new"}}


def test_managed_fields_hold_json_and_not_text() -> None:
    meta = {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {".": {}}}}]}
    body = encode({"metadata": meta}, protobuf_fields.CONFIG_MAP, "v1", "ConfigMap")
    assert decoded(body, protobuf_fields.CONFIG_MAP)["metadata"] == meta


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    unknown = b"\xf8\x06\x01" + b"\xf9\x06" + b"8" * 8 + chunk(111, b"x") + b"\xfd\x06" + b"4" * 4
    assert protobuf.decode_message(unknown + b"\x08\x01" + unknown, NUMBERS) == {"small": 1}


def test_an_envelope_without_raw_bytes_is_an_empty_object() -> None:
    body = b"k8s\0" + chunk(1, chunk(1, b"v1") + chunk(2, b"ConfigMap"))
    assert decoded(body, protobuf_fields.CONFIG_MAP) == {"apiVersion": "v1", "kind": "ConfigMap"}


@pytest.mark.contract("W2")
def test_a_body_of_the_magic_bytes_alone_is_empty() -> None:
    with pytest.raises(BadRequest, match=r"^empty body$"):
        decoded(b"k8s\0", protobuf_fields.CONFIG_MAP)
    with pytest.raises(BadRequest, match=r"^empty data$"):
        decoded(b"", protobuf_fields.CONFIG_MAP)


# Refusals


@pytest.mark.contract("W2")
def test_an_unknown_type_is_415_with_the_list_of_forms() -> None:
    with pytest.raises(UnsupportedMediaType) as refused:
        protobuf.decode(b"k8s\0" + chunk(2, b""), lambda *_: None)
    assert refused.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"\x08",
        b"\x08" + b"\xff" * 11,
        b"\x0a\x05ab",
        b"\x09\x01",
        b"\x0b",
        b"\x0a\x00",
        chunk(7, b"\x08" + varint(2**62)),
        chunk(7, b"\x10" + varint(-1)),
        chunk(7, chunk(1, b"x")),
        chunk(4, b"\xff"),
        b"\x30\x01",
        b"\x38\x01",
        chunk(10, b"\x10\x01"),
    ],
)
def test_malformed_bytes_are_a_bad_request(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="the body is malformed protobuf"):
        protobuf.decode_message(raw, NUMBERS)


@pytest.mark.parametrize(
    "raw", [chunk(3, b"\xff"), chunk(2, chunk(1, b"\xff")), chunk(1, chunk(17, chunk(7, chunk(1, b"{"))))]
)
def test_text_that_is_none_is_a_bad_request(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        protobuf.decode_message(raw, protobuf_fields.SECRET)


@pytest.mark.parametrize("body", [b"k8s", b"{}", b"K8S\0"])
def test_a_body_without_the_magic_bytes_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest, match="6b 38 73 00"):
        decoded(body, protobuf_fields.LEASE)


def test_json_inside_is_bounded_too() -> None:
    deep = chunk(1, chunk(17, chunk(7, chunk(1, b"[" * 5000))))
    with pytest.raises(BadRequest):
        protobuf.decode_message(deep, protobuf_fields.LEASE)


# Whatever the bytes are


def outcome(read: Callable[[], Doc]) -> int:
    """The code of the refusal, or 200 for a document that can be written again."""
    try:
        orjson.dumps(read())
    except ApiError as refused:
        return refused.code
    return 200


@given(st.sampled_from(sorted(TABLES)), st.binary(max_size=400))
def test_arbitrary_bytes_never_crash(name: str, raw: bytes) -> None:
    assert outcome(lambda: protobuf.decode_message(raw, TABLES[name])) in {200, 400}


@st.composite
def documents(draw: st.DrawFn, message: Message) -> Doc:
    doc: Doc = {}
    for field in message.fields.values():
        is_struct = isinstance(field.type, Message) and not (field.map or field.repeated or field.pointer)
        if not (is_struct or draw(st.booleans())):
            continue
        one = values(field)
        if field.map:
            doc[field.name] = draw(st.dictionaries(TEXT, one, min_size=1, max_size=2))
        elif field.repeated:
            doc[field.name] = draw(st.lists(one, min_size=1, max_size=2))
        else:
            value = draw(one)
            if is_struct or field.pointer or value:
                doc[field.name] = value
    return doc


TEXT = st.text(max_size=5)
MOMENTS = st.datetimes()
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bytes": st.binary(max_size=5).map(lambda raw: base64.b64encode(raw).decode()),
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "time": MOMENTS.map(lambda at: f"{at.isoformat(timespec='seconds')}Z"),
    "micro-time": MOMENTS.map(lambda at: f"{at.isoformat(timespec='microseconds')}Z"),
    "json": st.dictionaries(TEXT, st.integers(-5, 5), max_size=2),
    "strings": st.lists(TEXT, max_size=2),
}


def values(field: Field) -> st.SearchStrategy[Any]:
    return documents(field.type) if isinstance(field.type, Message) else SCALARS[field.type]


@given(st.data(), st.sampled_from(sorted(TABLES)))
def test_what_is_encoded_comes_back(data: st.DataObject, name: str) -> None:
    doc = data.draw(documents(TABLES[name]))
    body = encode(doc, TABLES[name], "g/v1", "K")
    assert decoded(body, TABLES[name]) == {"apiVersion": "g/v1", "kind": "K", **doc}


@given(st.data(), st.sampled_from(sorted(TABLES)))
def test_a_damaged_body_never_crashes(data: st.DataObject, name: str) -> None:
    body = bytearray(encode(data.draw(documents(TABLES[name])), TABLES[name], "g/v1", "K"))
    at = data.draw(st.integers(4, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    del body[data.draw(st.integers(5, len(body))) :]
    assert outcome(lambda: decoded(bytes(body), TABLES[name])) in {200, 400}
