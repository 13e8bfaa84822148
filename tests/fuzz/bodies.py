"""Documents in POST, PUT and DELETE: JSON and YAML of every kind, reviews, options (W8, W20, W174, W184)."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.fuzz import mutations, world
from tests.fuzz.cases import (
    ANY,
    BAD,
    CREATED,
    INVALID,
    JSON,
    MISSING,
    OK,
    WRONG,
    Case,
    Doc,
    fresh,
    send_json,
)
from tests.fuzz.texts import JSON_VALUES, LABELS, NAMES, PLAIN, WILD, Draw, mixed, nested
from tests.fuzz.world import STANDING, Site

YAML = "application/yaml"
FORBIDDEN = frozenset({403})
REPLACEABLE = [
    world.NAMESPACES, world.CONFIG_MAPS, world.SECRETS, world.ACCOUNTS, world.EVENTS, world.ROLES,
    world.CLUSTER_ROLES, world.ROLE_BINDINGS, world.CLUSTER_ROLE_BINDINGS, world.REQUESTS,
]  # fmt: skip
CREATED_BY_PUT = [
    world.LEASES, world.EVENTS, world.ROLES, world.CLUSTER_ROLES, world.ROLE_BINDINGS, world.CLUSTER_ROLE_BINDINGS,
]  # fmt: skip
CUSTOM = [world.CLUSTERS, world.SETS, world.SET_BINDINGS]
WITH_SPEC = [site for site in world.SITES if "spec" in site.content("x")]
UNKNOWN_VALUES: st.SearchStrategy[Any] = st.sampled_from([1, "x", "\0", None, {"a": {"b": []}}, [[[[]]]], "é☃"])


def _site(draw: Draw, sites: list[Site] = world.SITES) -> Site:
    site: Site = draw(st.sampled_from(sites))
    return site


def _document(draw: Draw, site: Site) -> Doc:
    metadata: Doc = {"labels": draw(LABELS)}
    if draw(st.booleans()):
        metadata["annotations"] = draw(st.dictionaries(st.sampled_from(["a", "example.com/b"]), PLAIN))
    return site.document(fresh(), **metadata)


# ---------------------------------------------------------------- must succeed


def _create(draw: Draw) -> Case:
    site = _site(draw)
    query = draw(st.sampled_from(["", "fieldValidation=Strict", "fieldManager=fuzz", "pretty=true", "dryRun=All"]))
    return send_json("POST", site.path, _document(draw, site), CREATED, query=query)


def _create_odd_but_good(draw: Draw) -> Case:
    """What Go clients send besides (W5), and content types with parameters."""
    site = _site(draw)
    doc = _document(draw, site)
    doc["metadata"] |= draw(
        st.sampled_from(
            [
                {"creationTimestamp": None},
                {"uid": "mine", "generation": 7, "selfLink": "/x"},
                {"managedFields": None, "ownerReferences": None, "finalizers": None},
                {"namespace": ""},
                {"finalizers": ["example.com/hold"]},
                {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u" * 90}]},
                {"deletionTimestamp": "2026-11-21T02:21:11Z", "deletionGracePeriodSeconds": 0},
            ]
        )
    )
    media = draw(st.sampled_from([JSON, "application/json; charset=utf-8", "APPLICATION/JSON;v=1"]))
    return send_json("POST", site.path, doc, CREATED, as_=media)


def _create_generated(draw: Draw) -> Case:
    site = _site(draw, [site for site in world.SITES if site is not world.SET_BINDINGS])
    doc = _document(draw, site)
    del doc["metadata"]["name"]
    doc["metadata"]["generateName"] = draw(NAMES)
    return send_json("POST", site.path, doc, CREATED)


def _create_yaml(draw: Draw) -> Case:
    site = _site(draw)
    text = yaml.safe_dump(
        _document(draw, site), allow_unicode=draw(st.booleans()), default_flow_style=draw(st.booleans())
    )
    return send_json("POST", site.path, text.encode(), CREATED, as_=YAML)


def _with_unknown(draw: Draw) -> tuple[Site, bytes]:
    site = _site(draw, draw(st.sampled_from([world.SITES, WITH_SPEC])))
    doc = _document(draw, site)
    part = doc["spec"] if "spec" in doc and draw(st.booleans()) else doc
    part[f"zz{draw(PLAIN)}"] = draw(UNKNOWN_VALUES)
    return site, mutations.text_of(doc)


def _unknown_is_pruned(draw: Draw) -> Case:
    site, body = _with_unknown(draw)
    query = draw(st.sampled_from(["fieldValidation=Warn", "fieldValidation=Ignore", ""]))
    return send_json("POST", site.path, body, CREATED, query=query)


def _with_duplicate(draw: Draw) -> tuple[Site, bytes]:
    site = _site(draw)
    doc = json.dumps(_document(draw, site))
    twice = draw(st.sampled_from(['{"kind":"X",', '{"metadata":{},', '{"spec":{},"spec":5,']))
    return site, (twice + doc[1:]).encode() if twice[2:6] != "spec" or "spec" in doc else (
        '{"kind":0,' + doc[1:]
    ).encode()


def _duplicate_is_warned_of(draw: Draw) -> Case:
    """The last one counts."""
    site, body = _with_duplicate(draw)
    query = draw(st.sampled_from(["fieldValidation=Warn", "fieldValidation=Ignore", ""]))
    return send_json("POST", site.path, body, CREATED, query=query)


def _replace(draw: Draw) -> Case:
    site = _site(draw, REPLACEABLE)
    doc = site.document(STANDING, labels={"a": "b", **draw(LABELS)}, annotations={"example.com/a": draw(PLAIN)})
    return send_json("PUT", f"{site.path}/{STANDING}", doc, OK)


def _create_by_put(draw: Draw) -> Case:
    site = _site(draw, CREATED_BY_PUT)
    doc = _document(draw, site)
    return send_json("PUT", f"{site.path}/{doc['metadata']['name']}", doc, CREATED)


def _try_delete(draw: Draw) -> Case:
    site = _site(draw)
    body = draw(
        st.sampled_from(
            [
                b"",
                b"{}",
                b'{"propagationPolicy":"Orphan"}',
                b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{}}',
                b'{"apiVersion":"example.com/v9","kind":"DeleteOptions","dryRun":["All"],"orphanDependents":null}',
            ]
        )
    )
    return send_json("DELETE", f"{site.path}/{STANDING}", body, OK, query="dryRun=All")


REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _review(draw: Draw) -> Case:
    about = {"verb": draw(PLAIN), "resource": draw(PLAIN), "name": draw(PLAIN), "namespace": draw(PLAIN)}
    actor, codes = draw(st.sampled_from([("admin", CREATED), ("agent", CREATED), ("jane", CREATED)]))
    return send_json("POST", REVIEW, {"spec": {"resourceAttributes": about}}, codes, actor=actor)


TOKEN = f"{world.ACCOUNTS.path}/{STANDING}/token"


def _token(draw: Draw) -> Case:
    seconds = draw(st.integers(600, 2**32))
    return send_json("POST", TOKEN, {"spec": {"expirationSeconds": seconds, "audiences": [draw(PLAIN) + "a"]}}, CREATED)


def _bootstrap_joins(draw: Draw) -> Case:
    """A2: what an agent sends before anybody knows it."""
    site = _site(draw, [world.CLUSTERS, world.REQUESTS])
    doc = site.document(fresh())
    return send_json("POST", site.path, doc, CREATED, actor="bootstrap")


# ---------------------------------------------------------------- must be refused


def _spoilt(draw: Draw) -> Case:
    site = _site(draw, [site for site in world.FILLED if site is not world.NAMESPACES])
    doc = _document(draw, site)
    mutate = draw(st.sampled_from(mutations.MUTATIONS))
    query = draw(
        st.sampled_from(["", "fieldValidation=Strict", "fieldValidation=Warn", "fieldValidation=Ignore", "dryRun=All"])
    )
    body = mutate(draw, doc, site.content(doc["metadata"]["name"]))
    return send_json("POST", site.path, body, WRONG, query=query)


def _spoilt_replacement(draw: Draw) -> Case:
    site = _site(draw, [site for site in REPLACEABLE if site not in (world.NAMESPACES, world.REQUESTS)])
    doc = site.document(STANDING, labels={"a": "b"})
    mutate = draw(st.sampled_from(mutations.MUTATIONS))
    return send_json("PUT", f"{site.path}/{STANDING}", mutate(draw, doc, site.content(STANDING)), WRONG)


WRONG_METADATA: list[Doc] = [
    {"name": 5}, {"name": ""}, {"name": "a/b"}, {"name": "a%2f"}, {"name": ".."}, {"name": "x" * 254}, {"name": "a\0b"},
    {"name": "x" * 70_000}, {"name": ["a"]}, {"name": "\ud800"}, {"name": None},
    {"labels": {"a b": "c"}}, {"labels": {"a": "x" * 64}}, {"labels": {"a": 5}}, {"labels": []}, {"labels": "a=b"},
    {"labels": {"": "a"}}, {"labels": {"a": "\0"}}, {"labels": {"\0": "a"}}, {"labels": {"a/b/c": "d"}},
    {"labels": {f"{'x' * 254}/a": "b"}}, {"labels": {"a": {"b": "c"}}}, {"labels": {"é": "a"}}, {"labels": {"a": "a\n"}},
    {"annotations": {"a": 5}}, {"annotations": {"a": "x" * 256 * 1024}}, {"annotations": {"bad key": "x"}},
    {"annotations": {"a": "\0"}}, {"annotations": {"\udc00": "a"}}, {"annotations": [["a", "b"]]}, {"annotations": "a"},
    {"finalizers": ["no domain!"]}, {"finalizers": "a"}, {"finalizers": [5]}, {"finalizers": ["orphan", "foregroundDeletion"]},
    {"finalizers": ["\0"]}, {"finalizers": {"a": 1}},
    {"ownerReferences": [{"kind": "ConfigMap"}]}, {"ownerReferences": ["x"]}, {"ownerReferences": "x"},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": 5}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "\0"}]},
    {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u", "controller": "yes"}]},
    {"resourceVersion": "5"}, {"namespace": 5}, {"name": None, "generateName": 5}, {"name": None, "generateName": "A/"},
    {"name": None, "generateName": "\0"}, {"name": None, "generateName": ["a"]},
]  # fmt: skip


def _wrong_metadata(draw: Draw) -> Case:
    site = _site(draw)
    found = (
        WRONG_METADATA if site.served.kind.namespaced else [each for each in WRONG_METADATA if "namespace" not in each]
    )
    spoilt = draw(st.sampled_from(found))
    doc = site.document(fresh())
    doc["metadata"] |= spoilt
    return send_json("POST", site.path, mutations.text_of(doc), WRONG)


def _no_object(draw: Draw) -> Case:
    site = _site(draw)
    body = draw(
        st.sampled_from(
            [
                b"", b"null", b"[]", b"5", b'"text"', b"true", b"{", b"{}}", b"\xff\xfe", b"\x00", b"NaN", b'{"a":NaN}',
                b'{"a":1e999}', b"{'a': 1}", b'{"metadata":null}', b'{"metadata":5}', b'{"metadata":[]}', b'{"kind":5}',
                b'{"kind":["a"],"apiVersion":{}}', b'{"apiVersion":"v9"}', b'{"kind":"Other"}', b'{"kind":"\\u0000"}',
                nested(100_000).encode(), nested(100_000, '{"a":', "}").encode(), b"[" * 1_000_000, b'{"a":' * 300_000,
            ]
        )
    )  # fmt: skip
    return send_json("POST", site.path, body, WRONG)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(9)
)
WRONG_YAML: list[str | bytes] = [
    BOMB, "a: &a [*a]", "a: [", "\t", "--- {}\n--- {}", "? [a]\n: b", "!!python/object/apply:os.system [ls]", "a: !!binary x",
    "{a: &x {b: *x}}", "[" * 5000, "- " * 5000, "a: *nothing", "kind: !!int x", "", "5", "- a", "a: 123456789012345678901234567890",
    "a: .inf", "a: .nan", '"\\uD800"', 'a: "\\0"', b"\xff\xff", b"\x00", "%YAML 9.9\n---\n{}", "&a ? *a : b", "a: !<x> b", "<<: 5",
    '{"a":' * 2000, "a: \x07", "? ? ? a", "{[a]: b}", "!!set {a, b}", "a: 0o99x: 1", "k: >\n x\n  y: |z",
]  # fmt: skip


def _wrong_yaml(draw: Draw) -> Case:
    site = _site(draw, CUSTOM)
    body = draw(st.sampled_from(WRONG_YAML))
    return send_json("POST", site.path, body, WRONG, as_=YAML)


def _unknown_is_refused(draw: Draw) -> Case:
    site, body = _with_unknown(draw)
    return send_json("POST", site.path, body, BAD, query="fieldValidation=Strict")


def _duplicate_is_refused(draw: Draw) -> Case:
    site, body = _with_duplicate(draw)
    return send_json("POST", site.path, body, BAD, query="fieldValidation=Strict")


def _in_the_way(draw: Draw) -> Case:
    """What is right by itself, and wrong for what is there or for the path."""
    site = _site(draw)
    doc = _document(draw, site)
    name = doc["metadata"]["name"]
    kind = site.served.kind
    makes: list[tuple[str, str, Doc, frozenset[int]]] = [
        ("POST", site.path, site.document(STANDING), frozenset({409})),
        ("POST", site.path, doc | {"kind": "Other"}, BAD),
        ("POST", site.path, doc | {"apiVersion": "example.com/v1"}, BAD),
        ("PUT", f"{site.path}/{STANDING}", doc, BAD),
    ]
    if kind.custom:
        makes.append(("PUT", f"{site.path}/{STANDING}", site.document(STANDING), INVALID))
        makes.append(("POST", site.path, {key: doc[key] for key in ("metadata", "spec") if key in doc}, BAD))
    if not kind.create_on_update:
        makes.append(("PUT", f"{site.path}/{name}", doc, MISSING))
    if kind.namespaced:
        elsewhere = site.path.replace(f"/{world.NAMESPACE}/", "/nowhere/")
        makes.append(("POST", elsewhere, doc, MISSING))
        makes.append(("POST", site.path, site.document(name, namespace="other"), BAD))
    stale = site.document(STANDING, resourceVersion=draw(st.sampled_from(["1", "x", "-1", "9" * 30])))
    makes.append(("PUT", f"{site.path}/{STANDING}", stale, frozenset({409})))
    other = site.document(STANDING, uid="other")
    makes.append(("PUT", f"{site.path}/{STANDING}", other, frozenset({409, 422})))
    method, path, body, codes = draw(st.sampled_from(makes))
    return send_json(method, path, body, codes)


def _too_large(draw: Draw) -> Case:
    site = _site(draw)
    doc = site.document(fresh(), annotations={"a": "x" * 3 * 1024 * 1024})
    return send_json("POST", site.path, doc, frozenset({413}))


def _media_type(draw: Draw) -> Case:
    site = _site(draw)
    media = draw(
        st.sampled_from(
            ["text/plain", "application/xml", "application/json-patch+json", "application", "é", "a/b;c=d", "*/*"]
        )
    )
    codes = frozenset({400, 405, 415})
    return send_json(draw(st.sampled_from(["POST", "PUT"])), site.path, site.document(fresh()), codes, as_=media)


def _not_allowed(draw: Draw) -> Case:
    """W20: who may not is refused so, whatever is sent."""
    site = _site(draw, [site for site in world.SITES if site not in (world.REQUESTS, world.CLUSTERS)])
    body = draw(st.binary(max_size=20) | st.just(mutations.text_of(site.document(fresh()))))
    actor = draw(st.sampled_from(["anonymous", "jane", "bootstrap"]))
    name = draw(st.sampled_from(["", f"/{STANDING}"]))
    method = draw(st.sampled_from(["PUT", "DELETE", "PATCH"] if name else ["POST", "DELETE"]))
    return send_json(method, f"{site.path}{name}", body, FORBIDDEN, actor=actor)


def _wrong_delete(draw: Draw) -> Case:
    site = _site(draw)
    body, codes = draw(
        st.sampled_from(
            [
                (b"{", WRONG), (b"[]", WRONG), (b'{"propagationPolicy":"Sideways"}', WRONG), (b'{"preconditions":5}', WRONG),
                (b'{"propagationPolicy":{}}', WRONG), (b'{"propagationPolicy":["Orphan"]}', WRONG), (b'{"dryRun":["Some"]}', WRONG),
                (b'{"dryRun":[["All"]]}', WRONG), (b'{"dryRun":[{}]}', WRONG), (b'{"dryRun":{"a":1}}', WRONG), (b'{"dryRun":5}', WRONG),
                (b'{"preconditions":{"uid":"other"}}', frozenset({409})), (b'{"preconditions":{"resourceVersion":"1"}}', frozenset({409})),
                (b'{"preconditions":{"uid":["a"]}}', WRONG | {409}), (b'{"preconditions":{"uid":{"a":"\\u0000"}}}', WRONG | {409}),
                (b'{"preconditions":{"resourceVersion":5}}', WRONG | {409}), (nested(200_000, '{"a":', "}").encode(), WRONG),
            ]
        )
    )  # fmt: skip
    return send_json("DELETE", f"{site.path}/{STANDING}", body, codes, query="dryRun=All")


def _wrong_review(draw: Draw) -> Case:
    spec = draw(
        st.sampled_from(
            [
                {}, {"spec": {}}, {"spec": 5}, {"spec": []}, {"spec": {"resourceAttributes": 5}},
                {"spec": {"resourceAttributes": {"verb": 5}}}, {"spec": {"resourceAttributes": {"verb": "\0"}}},
                {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}, {"kind": "Other"}, {"kind": []},
                {"spec": {"resourceAttributes": {"name": "\ud800"}}}, {"spec": {"nonResourceAttributes": ["x"]}}, [], 5,
            ]
        )
    )  # fmt: skip
    return send_json("POST", REVIEW, mutations.text_of(spec), WRONG)


def _wrong_token(draw: Draw) -> Case:
    spec = draw(
        st.sampled_from(
            [
                {"expirationSeconds": 599}, {"expirationSeconds": 2**32 + 1}, {"expirationSeconds": "x"}, {"audiences": "x"},
                {"audiences": [5]}, {"boundObjectRef": 5}, {"boundObjectRef": {"kind": "Pod", "name": []}}, {"audiences": ["\0"]},
                {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "\0"}}, {"expirationSeconds": 2**63},
            ]
        )
    )  # fmt: skip
    return send_json("POST", TOKEN, mutations.text_of({"spec": spec}), WRONG)


# ---------------------------------------------------------------- nobody knows


def _anything(draw: Draw) -> Case:
    """Any JSON in any place; what the hub takes, it must be able to keep."""
    site = _site(draw)
    doc: Any = site.document(fresh())
    place, _ = draw(st.sampled_from(list(mutations.places(doc))))
    value = draw(JSON_VALUES | WILD)
    return send_json("POST", site.path, mutations.text_of(mutations.replaced(doc, place, value)), ANY)


def cases() -> st.SearchStrategy[Case]:
    valid = [
        _create, _create, _create_odd_but_good, _create_generated, _create_yaml, _unknown_is_pruned, _duplicate_is_warned_of,
        _replace, _replace, _create_by_put, _try_delete, _review, _token, _bootstrap_joins,
    ]  # fmt: skip
    refused = [
        _spoilt, _spoilt, _spoilt, _spoilt_replacement, _wrong_metadata, _wrong_metadata, _no_object, _wrong_yaml,
        _unknown_is_refused, _duplicate_is_refused, _in_the_way, _in_the_way, _too_large, _media_type, _not_allowed,
        _wrong_delete, _wrong_review, _wrong_token, _anything, _anything, _anything,
    ]  # fmt: skip
    return mixed(valid, refused)
