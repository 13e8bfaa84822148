"""Protobuf bodies of the built-in kinds: as Go clients send them, and with bytes that are wrong (W1, W2)."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.fuzz import world
from tests.fuzz.cases import ANY, BAD, CREATED, INVALID, OK, WRONG, Case, Doc, fresh, send_json
from tests.fuzz.texts import LABELS, PLAIN, Draw, mixed
from tests.fuzz.world import STANDING, Site
from tests.unit.kubeapi.protobuf_encoder import chunk, encode, varint

MEDIA = "application/vnd.kubernetes.protobuf"
SITES = [site for site in world.SITES if not site.served.kind.custom]
CUSTOM = [site for site in world.SITES if site.served.kind.custom]
UNKNOWN = frozenset({415})
LONG = 2**63
# Written without knowing any table: too long, too deep, of the wrong wire type, cut short.
WRONG_MESSAGES = [
    varint(2 << 3 | 2) + varint(LONG), varint(2 << 3 | 2) + b"\xff" * 11, b"\xff" * 20, varint(1 << 3 | 3), varint(1 << 3 | 7),
    varint(1 << 3 | 2) + b"\x05abc", varint(2 << 3) + varint(5), varint(1 << 3) + varint(5), varint(1 << 3 | 1) + b"\0" * 8, b"\x80",
    chunk(2, b"\x0a\xff"), chunk(2, b"\x0a\x05ab"), chunk(1, b"\x0a\x02\xff\xff") + chunk(2, b""), chunk(2, chunk(1, chunk(1, b"\xff\xfe"))),
    chunk(2, chunk(1, varint(1 << 3) + varint(7))), chunk(2, b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
]  # fmt: skip


def _encoded(site: Site, doc: Doc) -> bytes:
    table = site.served.version.protobuf
    assert table is not None
    return encode(doc, table, site.api_version, site.served.kind.kind)


def _valid(draw: Draw) -> tuple[Site, bytes]:
    site: Site = draw(st.sampled_from(SITES))
    name = fresh()
    doc = site.document(name, labels=draw(LABELS), annotations={"a": draw(PLAIN)})
    # On the wire these are bytes, which JSON has in base64.
    return site, _encoded(site, doc)


def _create(draw: Draw) -> Case:
    site, body = _valid(draw)
    query = draw(st.sampled_from(["", "fieldManager=go", "fieldValidation=Strict", "dryRun=All"]))
    media = draw(st.sampled_from([MEDIA, f"{MEDIA};stream=watch"]))
    return send_json(
        "POST", site.path, body, CREATED, as_=media, query=query, headers=(("Accept", f"{MEDIA},application/json"),)
    )


def _replace(draw: Draw) -> Case:
    site = draw(st.sampled_from([world.CONFIG_MAPS, world.ACCOUNTS, world.ROLES, world.CLUSTER_ROLES, world.SECRETS]))
    doc = site.document(STANDING, labels=draw(LABELS))
    return send_json("PUT", f"{site.path}/{STANDING}", _encoded(site, doc), OK, as_=MEDIA)


def _unknown_fields(draw: Draw) -> Case:
    """A newer client sends fields that this hub does not know; they are passed over."""
    site, body = _valid(draw)
    extra = (
        chunk(draw(st.integers(100, 2**28)), draw(st.binary(max_size=8)))
        + varint(99 << 3)
        + varint(draw(st.integers(0, 2**64 - 1)))
    )
    return send_json("POST", site.path, body + extra, CREATED, as_=MEDIA)


def _no_envelope(draw: Draw) -> Case:
    site, body = _valid(draw)
    spoilt = draw(
        st.sampled_from(
            [b"", b"k8s", body[1:], body[4:], b"\0" + body, b"K8S\0" + body[4:], b"{}", b"k8s\1" + body[4:]]
        )
    )
    return send_json("POST", site.path, spoilt, BAD, as_=MEDIA)


def _wrong_message(draw: Draw) -> Case:
    site, body = _valid(draw)
    wrong = draw(st.sampled_from(WRONG_MESSAGES))
    head = draw(st.sampled_from([b"k8s\0", body]))
    return send_json("POST", site.path, head + wrong, WRONG, as_=MEDIA)


def _other_kind(draw: Draw) -> Case:
    site, _ = _valid(draw)
    table = site.served.version.protobuf
    assert table is not None
    api_version, kind = draw(
        st.sampled_from([("v9", site.served.kind.kind), (site.api_version, "Other"), ("\0", "\0"), ("é", "")])
    )
    return send_json("POST", site.path, encode(site.document(fresh()), table, api_version, kind), WRONG, as_=MEDIA)


def _custom(draw: Draw) -> Case:
    """W3: the kinds of OCM have no such form."""
    site: Site = draw(st.sampled_from(CUSTOM))
    _, body = _valid(draw)
    return send_json("POST", site.path, body, UNKNOWN, as_=MEDIA)


def _nul(draw: Draw) -> Case:
    site: Site = draw(st.sampled_from(SITES))
    doc = site.document(
        fresh(),
        **draw(st.sampled_from([{"annotations": {"a": "\0"}}, {"labels": {"a": "b\0"}}, {"finalizers": ["a/\0"]}])),
    )
    return send_json("POST", site.path, _encoded(site, doc), INVALID, as_=MEDIA)


def _patch(draw: Draw) -> Case:
    site, body = _valid(draw)
    return send_json("PATCH", f"{site.path}/{STANDING}", body, UNKNOWN, as_=MEDIA)


# ---------------------------------------------------------------- nobody knows


def _cut(draw: Draw) -> Case:
    site, body = _valid(draw)
    return send_json("POST", site.path, body[: draw(st.integers(4, len(body) - 1))], ANY, as_=MEDIA, query="dryRun=All")


def _flipped(draw: Draw) -> Case:
    site, whole = _valid(draw)
    body = bytearray(whole)
    for _ in range(draw(st.integers(1, 6))):
        body[draw(st.integers(4, len(body) - 1))] = draw(st.integers(0, 255))
    return send_json("POST", site.path, bytes(body), ANY, as_=MEDIA)


def _spliced(draw: Draw) -> Case:
    site, whole = _valid(draw)
    at, until = sorted((draw(st.integers(4, len(whole))), draw(st.integers(4, len(whole)))))
    body = whole[:at] + draw(st.binary(max_size=16)) + whole[until:]
    return send_json("POST", site.path, body, ANY, as_=MEDIA)


def _delete_options(draw: Draw) -> Case:
    site: Site = draw(st.sampled_from(world.SITES))
    body = b"k8s\0" + chunk(1, chunk(1, b"v1") + chunk(2, b"DeleteOptions")) + chunk(2, draw(st.binary(max_size=12)))
    return send_json("DELETE", f"{site.path}/missing", body, frozenset({400, 404, 422}), as_=MEDIA, query="dryRun=All")


def cases() -> st.SearchStrategy[Case]:
    valid = [_create, _create, _create, _replace, _unknown_fields]
    refused = [
        _no_envelope, _wrong_message, _wrong_message, _other_kind, _custom, _nul, _nul, _patch, _cut, _flipped, _flipped, _spliced, _delete_options,
    ]  # fmt: skip
    return mixed(valid, refused)
