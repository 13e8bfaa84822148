"""Patches of the four kinds on objects, their status and the approval of requests (W4, W15, W23)."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import strategies as st

from tests.fuzz import mutations, world
from tests.fuzz.cases import ANY, BAD, DONE, INVALID, MISSING, OK, WRONG, Case, Doc, fresh, send_json
from tests.fuzz.texts import JSON_VALUES, LABEL_KEYS, LABEL_VALUES, LABELS, PLAIN, WILD, Draw, mixed, nested
from tests.fuzz.world import APPROVED, DENIED, PENDING, STANDING, Site

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
CONFLICT = frozenset({409})
# An object of each kind that no other theme needs.
SITES = [site for site in world.SITES if site is not world.NEW_EVENTS]
BUILT_IN = [site for site in SITES if not site.served.kind.custom]
CUSTOM = [site for site in SITES if site.served.kind.custom]
CONDITION = {
    "type": "example.com/Checked",
    "status": "True",
    "reason": "Checked",
    "message": "It was checked.",
    "lastTransitionTime": world.MOMENT,
}
STATUS_PATHS = [
    f"{site.path}/{STANDING}/status"
    for site in CUSTOM
    if "conditions" in site.served.version.schema.root["properties"].get("status", {}).get("properties", {})
]


def _target(draw: Draw, sites: list[Site] = SITES) -> tuple[Site, str]:
    site: Site = draw(st.sampled_from(sites))
    return site, f"{site.path}/{STANDING}"


def _patch(path: str, body: Any, codes: frozenset[int], media: str = MERGE, **more: Any) -> Case:
    return send_json("PATCH", path, body, codes, as_=media, **more)


# ---------------------------------------------------------------- must succeed


def _merge(draw: Draw) -> Case:
    _, path = _target(draw)
    labels = draw(st.dictionaries(LABEL_KEYS, LABEL_VALUES | st.none(), max_size=3)) | {"a": "b"}
    notes = {"example.com/a": draw(PLAIN)}
    return _patch(path, {"metadata": {"labels": labels, "annotations": notes}}, OK)


def _merge_strategic(draw: Draw) -> Case:
    _, path = _target(draw, BUILT_IN)
    return _patch(
        path, {"metadata": {"labels": draw(LABELS) | {"a": "b"}, "annotations": {"b": draw(PLAIN)}}}, OK, STRATEGIC
    )


def _operations(draw: Draw) -> Case:
    _, path = _target(draw)
    key = draw(LABEL_KEYS)
    pointer = f"/metadata/labels/{key.replace('~', '~0').replace('/', '~1')}"
    ops = [
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},  # an earlier case may have deleted the metadata
        {"op": "test", "path": "/metadata/labels/a", "value": "b"},
        {"op": "add", "path": pointer, "value": draw(LABEL_VALUES) if key != "a" else "b"},
        {"op": "copy", "from": "/metadata/labels", "path": "/metadata/labels"},
    ]
    return _patch(path, ops[: draw(st.integers(0, 4))], OK, JSON_PATCH)


def _spec(draw: Draw) -> Case:
    # A taint that stays the same must keep its time, so each is another one.
    taints = [{"key": draw(LABEL_KEYS), "value": fresh(), "effect": "NoSelect"}]
    spec = {"leaseDurationSeconds": draw(st.integers(1, 2**31 - 1)), "taints": taints}
    return _patch(f"{world.CLUSTERS.path}/{STANDING}", {"spec": spec}, OK, query="fieldValidation=Strict")


def _status(draw: Draw) -> Case:
    condition = CONDITION | {"message": draw(PLAIN), "status": draw(st.sampled_from(["True", "False", "Unknown"]))}
    return _patch(draw(st.sampled_from(STATUS_PATHS)), {"status": {"conditions": [condition]}}, OK)


def _agent_says(draw: Draw) -> Case:
    """The agent's own status, as a certificate of the hub lets it."""
    status = {
        "capacity": {"cpu": draw(st.sampled_from(["4", 4, "500m", "1.5"])), "memory": "16Gi"},
        "version": {"kubernetes": draw(PLAIN)},
        "clusterClaims": [{"name": "id.k8s.io", "value": draw(PLAIN) + "x"}],
    }
    return _patch(f"{world.CLUSTERS.path}/{world.CLUSTER}/status", {"status": status}, OK, actor="agent")


def _renew(draw: Draw) -> Case:
    path = world.LEASES.path.replace(f"/{world.NAMESPACE}/", f"/{world.CLUSTER}/")
    moment = f"{draw(st.datetimes()).replace(microsecond=1).isoformat()}Z"
    return _patch(f"{path}/managed-cluster-lease", {"spec": {"renewTime": moment}}, OK)


def _decide(draw: Draw) -> Case:
    name, type_ = draw(st.sampled_from([(APPROVED, "Approved"), (DENIED, "Denied")]))
    condition = {"type": type_, "status": "True", "reason": "Fuzz", "message": draw(PLAIN)}
    media = draw(st.sampled_from([MERGE, STRATEGIC]))
    return _patch(f"{world.REQUESTS.path}/{name}/approval", {"status": {"conditions": [condition]}}, OK, media)


def _apply(draw: Draw) -> Case:
    site, path = _target(draw)
    if site is world.CLUSTERS or draw(st.booleans()):  # a taint that stays must keep its time
        path = f"{site.path}/{fresh()}"
    doc = site.document(path.rpartition("/")[2])
    doc["metadata"]["labels"] = draw(LABELS) | {"a": "b"}
    text = yaml.safe_dump(doc, allow_unicode=True) if draw(st.booleans()) else None
    return _patch(path, text or doc, DONE, APPLY, query="fieldManager=fuzz&force=true")


def _try(draw: Draw) -> Case:
    _, path = _target(draw)
    return _patch(path, {"metadata": {"labels": draw(LABELS)}}, OK, query="dryRun=All")


# ---------------------------------------------------------------- must be refused


def _spoilt(draw: Draw) -> Case:
    """The wrong value in a place of the object that the patch sets."""
    site, path = _target(
        draw, [site for site in SITES if site in world.FILLED and site not in (world.NAMESPACES, world.REQUESTS)]
    )
    content = site.content(STANDING)
    mutate = draw(st.sampled_from(mutations.MUTATIONS))
    media = draw(st.sampled_from([MERGE, MERGE, APPLY] if site in CUSTOM else [MERGE, APPLY]))
    query = "fieldManager=fuzz&force=true" if media == APPLY else ""
    doc = site.document(STANDING) if media == APPLY else content
    # Of a patch, an object where a list was replaces it, and a text where a text was keeps its place.
    return _patch(path, mutate(draw, doc, content), WRONG, media, query=query)


def _wrong_merge(draw: Draw) -> Case:
    site, path = _target(draw)
    body, codes = draw(
        st.sampled_from(
            [
                (b"", BAD), (b"5", BAD), (b"[]", BAD), (b"null", BAD), (b'"x"', BAD), (b"{", BAD), (b"\xff", BAD),
                ({"metadata": {"name": "other"}}, BAD), ({"kind": "Other"}, BAD), ({"apiVersion": "v9"}, BAD),
                ({"metadata": {"uid": "other"}}, INVALID), ({"metadata": {"resourceVersion": "1"}}, CONFLICT),
                ({"metadata": {"labels": {"a b": "c"}}}, INVALID), ({"metadata": {"labels": {"a": 5}}}, INVALID),
                ({"metadata": {"labels": "a"}}, WRONG), ({"metadata": 5}, WRONG), ({"metadata": []}, WRONG), ({"metadata": "x"}, WRONG),
                ({"metadata": {"finalizers": ["a b"]}}, INVALID), ({"metadata": {"annotations": {"a": "\0"}}}, INVALID),
                (b'{"metadata":{"annotations":{"a":"\\ud800"}}}', INVALID), ({"metadata": {"annotations": {"a": "x" * 262_144}}}, INVALID),
                (f'{{"metadata":{{"annotations":{nested(100_000)}}}}}', WRONG), (nested(100_000, '{"a":', "}"), BAD),
                (f'{{"metadata":{{"labels":{nested(100, chr(123) + chr(34) + "a" + chr(34) + ":1," + chr(34) + "b" + chr(34) + ":", "}")}}}}}', WRONG),
                ({"kind": 5}, WRONG), ({"kind": []}, WRONG), ({"apiVersion": {"a": 1}}, WRONG), ({"metadata": {"name": {}}}, WRONG),
                ({"metadata": {"name": ["standing"]}}, WRONG), ({"metadata": {"uid": 5}}, WRONG), ({"metadata": {"resourceVersion": 5}}, WRONG | CONFLICT),
                ({"metadata": {"ownerReferences": [{"a": "b"}]}}, WRONG), ({"metadata": {"labels": {"a": "x" * 64}}}, INVALID),
            ]
        )
    )  # fmt: skip
    media = draw(st.sampled_from([MERGE] if site in CUSTOM else [MERGE, STRATEGIC]))
    return _patch(path, body, codes, media)


WRONG_OPERATIONS: list[tuple[Any, frozenset[int]]] = [
    ({}, BAD), (5, BAD), ([5], BAD), ([[]], BAD), ([{}], INVALID), ([{"op": "fly", "path": "/a"}], INVALID), ([{"op": ["add"], "path": "/a"}], WRONG),
    ([{"op": "test", "path": "/metadata/name", "value": "other"}], INVALID), ([{"op": "remove", "path": "/nothing"}], INVALID),
    ([{"op": "replace", "path": "/nothing/at/all", "value": 1}], INVALID), ([{"op": "add", "path": "no-slash", "value": 1}], WRONG),
    ([{"op": "add", "path": 5, "value": 1}], WRONG), ([{"op": "add", "path": None, "value": 1}], WRONG), ([{"op": "add", "value": 1}], WRONG),
    ([{"op": "add", "path": "/metadata/labels/a/b"}], WRONG), ([{"op": "move", "from": "/metadata", "path": "/metadata/labels"}], WRONG),
    ([{"op": "copy", "path": "/x"}], WRONG), ([{"op": "copy", "from": "/nothing/at", "path": "/x"}], WRONG),
    ([{"op": "replace", "path": "", "value": 5}], WRONG), ([{"op": "replace", "path": "", "value": []}], WRONG),
    ([{"op": "replace", "path": "", "value": {}}], WRONG), ([{"op": "remove", "path": "/metadata"}], WRONG), ([{"op": "remove", "path": ""}], WRONG),
    ([{"op": "replace", "path": "/metadata", "value": []}], WRONG), ([{"op": "replace", "path": "/metadata/name", "value": "x"}], BAD),
    ([{"op": "add", "path": "/metadata/labels/~2", "value": "x"}], WRONG), ([{"op": "add", "path": "/metadata/finalizers/99", "value": "x"}], WRONG),
    ([{"op": "add", "path": "/metadata/finalizers/-1", "value": "x"}], WRONG), ([{"op": "add", "path": "/metadata/finalizers/\u0661", "value": "x"}], WRONG),
    ([{"op": "add", "path": "/metadata/labels/x", "value": "\0"}], INVALID), ([{"op": "add", "path": "/metadata/labels/\0", "value": "x"}], INVALID),
    ([{"op": "test", "path": "/metadata/name", "value": {"a": []}}] * 10_001, frozenset({413})), ([{"op": "add", "path": "/" * 5000, "value": 1}], WRONG),
    ([{"op": "copy", "from": "/metadata", "path": "/metadata/labels"}] * 60, WRONG | {413}), ([{"op": "replace", "path": "/metadata/uid", "value": "x"}], INVALID),
]  # fmt: skip


def _wrong_operations(draw: Draw) -> Case:
    _, path = _target(draw)
    ops, codes = draw(st.sampled_from(WRONG_OPERATIONS))
    return _patch(path, mutations.text_of(ops), codes, JSON_PATCH)


def _wrong_strategic(draw: Draw) -> Case:
    path, body, codes = draw(
        st.sampled_from(
            [
                (f"{world.CLUSTERS.path}/{STANDING}", {}, frozenset({415})),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"secrets": [{"$patch": "fly", "name": "a"}]}, WRONG),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"secrets": [{"namespace": "no merge key"}]}, WRONG),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"secrets": ["x"]}, WRONG),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"secrets": {"name": "a"}}, WRONG),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"$setElementOrder/secrets": 5, "secrets": [5]}, WRONG),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"$setElementOrder/secrets": [{"name": []}], "secrets": [{"name": {}}]}, WRONG),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"$patch": "replace"}, ANY),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"$retainKeys": 5, "secrets": 5}, WRONG),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"$deleteFromPrimitiveList/secrets": {"a": 5}}, ANY),
                (f"{world.ACCOUNTS.path}/{STANDING}", {"metadata": {"$patch": "delete"}}, ANY),
                (f"{world.NAMESPACES.path}/{STANDING}/status", {"status": {"conditions": [{"type": 5}]}}, WRONG),
                (f"{world.NAMESPACES.path}/{STANDING}/status", {"status": 5}, WRONG),
                (f"{world.NAMESPACES.path}/{STANDING}/status", {"status": {"conditions": 5}}, WRONG),
            ]
        )
    )  # fmt: skip
    return _patch(path, body, codes, STRATEGIC)


WRONG_CONDITIONS: list[Any] = [
    5, "x", {"a": "b"}, [5], ["x"], [[]], [None], [{}], [{"type": "A"}], [CONDITION, CONDITION], [CONDITION | {"status": "Maybe"}],
    [CONDITION | {"type": "a b"}], [CONDITION | {"type": 5}], [CONDITION | {"type": []}], [CONDITION | {"lastTransitionTime": "now"}],
    [CONDITION | {"reason": ""}], [CONDITION | {"message": "\0"}], [CONDITION | {"observedGeneration": -1}], [CONDITION | {"message": {}}],
    [CONDITION | {"message": "x" * 32769}], [CONDITION | {"lastTransitionTime": 5}], [CONDITION | {"type": {"a": 1}}] * 2,
]  # fmt: skip


def _wrong_status(draw: Draw) -> Case:
    conditions = draw(st.sampled_from(WRONG_CONDITIONS))
    path = draw(st.sampled_from(STATUS_PATHS))
    if conditions == [CONDITION, CONDITION] and world.CLUSTERS.path not in path:
        conditions = [5]
    return _patch(path, {"status": {"conditions": conditions}}, WRONG)


def _wrong_whole_status(draw: Draw) -> Case:
    path = draw(
        st.sampled_from(
            [*STATUS_PATHS, f"{world.REQUESTS.path}/{PENDING}/status", f"{world.NAMESPACES.path}/{STANDING}/status"]
        )
    )
    return _patch(path, {"status": draw(st.sampled_from([5, "x", [], [5], True, 1.5]))}, WRONG)


DECISIONS: list[tuple[str, Any, frozenset[int]]] = [
    (PENDING, [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}], INVALID),
    (PENDING, [{"type": "Approved", "status": "False"}], INVALID), (PENDING, [{"type": "Approved"}], INVALID),
    (PENDING, [{"type": "Approved", "status": "True"}] * 2, INVALID), (PENDING, [{"type": "Approved", "status": 5}], WRONG),
    (PENDING, [{"type": "Denied", "status": "True", "message": "\0"}], INVALID), (PENDING, [{"type": "Denied", "status": "True", "lastUpdateTime": 5}], WRONG),
    (PENDING, [{"type": "Denied", "status": "True", "lastUpdateTime": "now"}], WRONG), (PENDING, [{"type": "Denied", "status": ["True"]}], WRONG),
]  # fmt: skip


def _wrong_decision(draw: Draw) -> Case:
    name, conditions, codes = draw(st.sampled_from(DECISIONS))
    return _patch(f"{world.REQUESTS.path}/{name}/approval", {"status": {"conditions": conditions}}, codes)


def _odd_decision(draw: Draw) -> Case:
    """Conditions of any form: what is none may be passed over."""
    field, sub = draw(
        st.sampled_from([("conditions", "approval"), ("conditions", "status"), ("certificate", "status")])
    )
    value = draw(
        JSON_VALUES | st.lists(st.fixed_dictionaries({"type": JSON_VALUES, "status": JSON_VALUES}), max_size=2) | WILD
    )
    name = fresh("odd") if draw(st.booleans()) else STANDING
    body = mutations.text_of({"status": {field: value}})
    return _patch(f"{world.REQUESTS.path}/{name}/{sub}", body, ANY if name == STANDING else MISSING | WRONG)


def _wrong_apply(draw: Draw) -> Case:
    site, path = _target(draw)
    doc: Doc = site.document(STANDING)
    fields = "fieldManager=fuzz"
    body, query, codes = draw(
        st.sampled_from(
            [
                (doc, "", INVALID), (doc, "fieldManager=", INVALID), ({"metadata": {}}, fields, BAD), ([], fields, BAD), (5, fields, BAD),
                (doc | {"kind": "Other"}, fields, BAD), (doc | {"apiVersion": "v9"}, fields, BAD), (doc | {"metadata": {"name": "other"}}, fields, BAD),
                (doc | {"metadata": 5}, fields, WRONG), (doc | {"metadata": []}, fields, WRONG), (b"a: [", fields, BAD), (b"", fields, BAD),
                (b"a: &a [*a]", fields, BAD), (doc | {"metadata": {"managedFields": [{"a": 1}], "name": STANDING}}, fields, WRONG | CONFLICT),
                (doc | {"metadata": {"name": STANDING, "labels": {"a b": "c"}}}, fields, WRONG | CONFLICT), (doc | {"zz": 1}, f"{fields}&fieldValidation=Strict", BAD),
                (doc | {"metadata": {"name": STANDING, "labels": 5}}, fields, WRONG | CONFLICT), (doc, f"fieldManager={'x' * 129}", INVALID),
                (doc | {"metadata": {"name": STANDING, "labels": {"a": "\0"}}}, f"{fields}&force=true", WRONG), (doc, f"{fields}&force=maybe", BAD),
                (doc | {"metadata": {"name": STANDING, "uid": "x"}}, fields, WRONG | CONFLICT), (doc | {"kind": ["a"]}, fields, WRONG),
            ]
        )
    )  # fmt: skip
    return _patch(path, body, codes, APPLY, query=query)


def _nowhere(draw: Draw) -> Case:
    site, path = _target(draw)
    media = draw(st.sampled_from([MERGE, JSON_PATCH]))
    body: Any = {} if media == MERGE else []
    path, codes, media = draw(
        st.sampled_from(
            [
                (f"{site.path}/missing", MISSING, media), (f"{path}/nothing", MISSING, media), (path, frozenset({415}), "application/json"),
                (path, frozenset({415}), "application/vnd.kubernetes.protobuf"), (path, frozenset({415}), ""), (site.path, site.nameless, media),
                (f"{path}/approval" if site is not world.REQUESTS else f"{path}/x", MISSING, media), (path, frozenset({415}), "application/yaml"),
            ]
        )
    )  # fmt: skip
    return _patch(path, body, codes, media)


def _not_allowed(draw: Draw) -> Case:
    actor, path = draw(
        st.sampled_from(
            [
                ("agent", f"{world.CLUSTERS.path}/{STANDING}/status"),
                ("agent", f"{world.REQUESTS.path}/{PENDING}/approval"),
                ("agent", f"{world.LEASES.path}/{STANDING}"),
                ("bootstrap", f"{world.CLUSTERS.path}/{world.CLUSTER}"),
                ("jane", f"{world.CONFIG_MAPS.path}/{STANDING}"),
                ("anonymous", f"{world.CLUSTERS.path}/{world.CLUSTER}/status"),
            ]
        )
    )
    return _patch(path, draw(st.binary(max_size=20)), frozenset({403}), actor=actor)


def _wrong_options(draw: Draw) -> Case:
    _, path = _target(draw)
    query, codes = draw(
        st.sampled_from(
            [
                ("force=true", INVALID), ("dryRun=Some", INVALID), ("fieldValidation=strict", INVALID), ("force=maybe", BAD),
                ("fieldManager=%00", BAD), (f"fieldManager={'é' * 65}", INVALID), ("dryRun=All&dryRun=x", INVALID),
            ]
        )
    )  # fmt: skip
    return _patch(path, {}, codes, query=query)


# ---------------------------------------------------------------- nobody knows


def _anything(draw: Draw) -> Case:
    site, path = _target(draw)
    doc = site.content(STANDING) | {"metadata": {"labels": {"a": "b"}, "finalizers": []}}
    place, _ = draw(st.sampled_from([*mutations.places(doc)]))
    body = mutations.text_of(mutations.replaced(doc, place, draw(JSON_VALUES | WILD)))
    media = draw(st.sampled_from([MERGE, STRATEGIC, APPLY]))
    return _patch(path, body, ANY, media, query="dryRun=All")


POINTERS = st.sampled_from(
    [
        "",
        "/",
        "/metadata",
        "/metadata/labels",
        "/metadata/labels/a",
        "/spec",
        "/metadata/finalizers/0",
        "/status",
        "/-",
        "/spec/-",
        "/0",
    ]
)


def _any_operations(draw: Draw) -> Case:
    _, path = _target(draw)
    op = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS | PLAIN},
        optional={"from": POINTERS, "value": JSON_VALUES},
    )
    return _patch(path, mutations.text_of(draw(st.lists(op, max_size=4))), ANY, JSON_PATCH, query="dryRun=All")


def cases() -> st.SearchStrategy[Case]:
    valid = [
        _merge, _merge, _merge_strategic, _operations, _spec, _status, _agent_says, _renew, _decide, _apply, _apply, _try,
    ]  # fmt: skip
    refused = [
        _spoilt, _spoilt, _wrong_merge, _wrong_merge, _wrong_operations, _wrong_operations, _wrong_strategic, _wrong_status,
        _wrong_whole_status, _wrong_decision, _odd_decision, _wrong_apply, _nowhere, _not_allowed, _wrong_options, _anything,
        _any_operations,
    ]  # fmt: skip
    return mixed(valid, refused)
