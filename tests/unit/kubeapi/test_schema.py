"""Structural schemas: prune, default, validate, publish; and the rules for metadata."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.kubeapi.errors import Doc, is_invalid
from ocmconsole.kubeapi.schema import compiled_schema
from ocmconsole.kubeapi.schema.compiled_schema import Schema

QUALIFIED = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
CONDITION: Doc = {
    "type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316, "pattern": QUALIFIED},
    },
}
WIDGET: Doc = {
    "type": "object",
    "description": "A thing to test with.",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "accepts": {"type": "boolean"},
                "period": {"type": "integer", "format": "int32", "default": 60},
                "weight": {"type": "integer", "minimum": -10, "maximum": 10},
                "ratio": {"type": "number"},
                "bundle": {"type": "string", "format": "byte"},
                "mode": {"type": "string", "default": "Additive", "nullable": True},
                "share": {"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+%?$"},
                "quantities": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
                "selector": {
                    "type": "object",
                    "default": {},
                    "properties": {"type": {"type": "string", "default": "Exclusive"}},
                },
                "constraints": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
                "names": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "taints": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["effect", "key"],
                        "properties": {
                            "effect": {"type": "string", "enum": ["NoSelect", "PreferNoSelect", "NoSelectIfNew"]},
                            "key": {"type": "string", "maxLength": 316, "pattern": QUALIFIED},
                            "timeAdded": {"type": "string", "format": "date-time", "nullable": True},
                        },
                    },
                },
                "open": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"closed": {"type": "object", "properties": {"a": {"type": "string"}}}},
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": CONDITION,
                },
                "managed": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["set", "name"],
                    "items": {"type": "object", "properties": {"set": {"type": "string"}, "name": {"type": "string"}}},
                },
            },
        },
    },
}
WIDGETS = Schema(WIDGET, name="io.example.v1.Widget")

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=8)
)
NAMES = st.sampled_from(
    [*WIDGET["properties"], *WIDGET["properties"]["spec"]["properties"], "metadata", "key", "x", "labels"]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(NAMES | st.text(st.characters(exclude_categories=()), max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)
SPECS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys([*WIDGET["properties"]["spec"]["properties"], "unknown"], JSON)
)
WIDGET_DOCS = st.fixed_dictionaries({}, optional={"metadata": JSON, "spec": SPECS | JSON, "status": JSON, "junk": JSON})
ANY_DOCS = WIDGET_DOCS | st.dictionaries(st.text(max_size=4), JSON, max_size=5)


def widget(**spec: Any) -> Doc:
    return {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def problems(doc: Doc) -> list[str]:
    return [str(cause) for cause in WIDGETS.validate(doc)]


def containers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        yield id(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def nested(depth: int) -> Doc:
    doc: Doc = {}
    for _ in range(depth):
        doc = {"a": doc}
    return doc


class TestPruning:
    @pytest.mark.contract("T1", "W8")
    def test_unknown_fields_go_and_are_named_with_their_paths(self) -> None:
        doc = widget(bar=1, taints=[{"key": "a", "effect": "NoSelect", "foo": 1}]) | {"baz": 1}
        pruned, unknown = WIDGETS.prune(doc)
        assert unknown == ["baz", "spec.bar", "spec.taints[0].foo"]
        assert pruned == widget(taints=[{"key": "a", "effect": "NoSelect"}])

    @pytest.mark.contract("W8")
    def test_metadata_is_pruned_by_its_own_schema(self) -> None:
        doc = widget() | {
            "metadata": {
                "name": "w",
                "foo": 1,
                "labels": {"any": "thing"},
                "managedFields": [{"fieldsV1": {"f:x": {}}}],
            }
        }
        pruned, unknown = WIDGETS.prune(doc)
        assert unknown == ["metadata.foo"]
        assert pruned["metadata"] == {
            "name": "w",
            "labels": {"any": "thing"},
            "managedFields": [{"fieldsV1": {"f:x": {}}}],
        }

    @pytest.mark.contract("W8")
    def test_nothing_is_unknown_where_unknown_fields_are_preserved_except_below_known_ones(self) -> None:
        doc = widget(open={"any": {"thing": [1]}, "closed": {"a": "x", "b": 1}})
        pruned, unknown = WIDGETS.prune(doc)
        assert unknown == ["spec.open.closed.b"]
        assert pruned["spec"]["open"] == {"any": {"thing": [1]}, "closed": {"a": "x"}}

    def test_a_whole_number_written_with_a_point_becomes_an_integer(self) -> None:
        pruned, _ = WIDGETS.prune(widget(period=60.0, ratio=2.0))
        assert json.dumps(pruned["spec"]) == '{"period": 60, "ratio": 2.0}'

    def test_the_list_of_unknown_fields_has_an_end(self) -> None:
        assert len(WIDGETS.prune({f"field{number}": 1 for number in range(5000)})[1]) == 100

    @given(WIDGET_DOCS)
    def test_pruning_twice_is_pruning_once(self, doc: Doc) -> None:
        once, _ = WIDGETS.prune(doc)
        twice, unknown = WIDGETS.prune(once)
        assert unknown == []
        assert repr(twice) == repr(once)

    @given(SPECS)
    def test_the_result_is_the_callers_own(self, spec: Doc) -> None:
        doc = widget(open=spec, quantities={"a": 1}) | {"metadata": {"labels": {"a": "b"}}}
        before = copy.deepcopy(doc)
        pruned, _ = WIDGETS.prune(doc)
        assert not set(containers(pruned)) & set(containers(doc))
        assert not set(containers(WIDGETS.default(pruned))) & set(containers(pruned))
        assert repr(doc) == repr(before)

    @given(ANY_DOCS)
    def test_unknown_paths_can_always_be_written(self, doc: Doc) -> None:
        "".join(WIDGETS.prune(doc)[1]).encode()


class TestDefaulting:
    @pytest.mark.contract("W20")
    def test_defaults_appear_only_where_the_parent_exists(self) -> None:
        assert WIDGETS.default({"kind": "Widget"}) == {"kind": "Widget"}
        assert WIDGETS.default(widget())["spec"] == {
            "period": 60,
            "mode": "Additive",
            "selector": {"type": "Exclusive"},
        }

    @pytest.mark.contract("W20")
    def test_values_are_kept_and_defaults_below_them_filled(self) -> None:
        spec = WIDGETS.default(widget(period=0, mode="", selector={}))["spec"]
        assert spec == {"period": 0, "mode": "", "selector": {"type": "Exclusive"}}

    @pytest.mark.contract("W5", "W20")
    def test_null_gives_way_to_the_default_or_goes_or_stays_where_it_is_allowed(self) -> None:
        spec = WIDGETS.default(widget(period=None, accepts=None, mode=None, quantities={"a": None}))["spec"]
        assert spec == {"period": 60, "mode": None, "quantities": {}, "selector": {"type": "Exclusive"}}

    @pytest.mark.contract("W5")
    def test_a_null_creation_timestamp_is_normal(self) -> None:
        doc = WIDGETS.default(widget() | {"metadata": {"name": "w", "creationTimestamp": None, "labels": None}})
        assert doc["metadata"] == {"name": "w", "creationTimestamp": None}
        assert problems(doc) == []

    def test_two_objects_never_share_a_default(self) -> None:
        first = WIDGETS.default(widget())
        first["spec"]["selector"]["type"] = "changed"
        assert WIDGETS.default(widget())["spec"]["selector"] == {"type": "Exclusive"}

    @given(WIDGET_DOCS)
    def test_defaulting_twice_is_defaulting_once(self, doc: Doc) -> None:
        once = WIDGETS.default(doc)
        assert repr(WIDGETS.default(once)) == repr(once)


class TestValidation:
    @pytest.mark.contract("A11")
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            (
                {"accepts": "x"},
                'spec.accepts: Invalid value: "string": spec.accepts in body must be of type boolean: "string"',
            ),
            (
                {"bundle": True},
                'spec.bundle: Invalid value: "": spec.bundle in body must be of type byte: ""',
            ),
            (
                {"period": "1"},
                'spec.period: Invalid value: "string": spec.period in body must be of type integer: "string"',
            ),
            (
                {"period": 1.5},
                'spec.period: Invalid value: "float64": spec.period in body must be of type int32: "float64"',
            ),
            (
                {"period": 2**31},
                (
                    "spec.period: Invalid value: 2147483648: Checked value must be of type "
                    "integer with format int32 in spec.period"
                ),
            ),
            (
                {"weight": 1.5},
                'spec.weight: Invalid value: "number": spec.weight in body must be of type integer: "number"',
            ),
            ({"weight": 11}, "spec.weight: Invalid value: 11: spec.weight in body should be less than or equal to 10"),
            (
                {"weight": -11},
                "spec.weight: Invalid value: -11: spec.weight in body should be greater than or equal to -10",
            ),
            (
                {"share": []},
                'spec.share: Invalid value: "array": spec.share in body must be of type integer,string: "array"',
            ),
            ({"share": "x"}, "spec.share: Invalid value: \"x\": spec.share in body should match '^[0-9]+%?$'"),
            ({"share": "1\n"}, "spec.share: Invalid value: \"1\\n\": spec.share in body should match '^[0-9]+%?$'"),
            ({"bundle": "ä"}, 'spec.bundle: Invalid value: "ä": spec.bundle in body must be of type byte: "ä"'),
            (
                {"constraints": []},
                "spec.constraints: Invalid value: 0: spec.constraints in body should have at least 1 items",
            ),
            ({"constraints": ["a", "b", "c"]}, "spec.constraints: Too many: 3: must have at most 2 items"),
            ({"names": ["a", "b", "a"]}, 'spec.names[2]: Duplicate value: "a"'),
            (
                {"names": [None]},
                'spec.names[0]: Invalid value: "null": spec.names[0] in body must be of type string: "null"',
            ),
            (
                {"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": "soon"}]},
                (
                    'spec.taints[0].timeAdded: Invalid value: "soon": '
                    'spec.taints[0].timeAdded in body must be of type date-time: "soon"'
                ),
            ),
            (
                {"taints": [{"key": "a", "effect": "NoSelect", "timeAdded": "2026-02-30T00:00:00Z"}]},
                (
                    'spec.taints[0].timeAdded: Invalid value: "2026-02-30T00:00:00Z": '
                    'spec.taints[0].timeAdded in body must be of type date-time: "2026-02-30T00:00:00Z"'
                ),
            ),
            (
                {"taints": [{"key": "a" * 317, "effect": "NoSelect"}]},
                "spec.taints[0].key: Too long: may not be more than 316 bytes",
            ),
        ],
    )
    def test_one_problem_is_shown_in_kubernetes_words(self, spec: Doc, expected: str) -> None:
        assert problems(widget(**spec)) == [expected]

    @pytest.mark.contract("A11")
    def test_several_problems_come_in_the_order_of_their_fields(self) -> None:
        taints = [{"effect": "Nope", "key": "a/b/c"}, {}]
        expected = [
            (
                'spec.taints[0].effect: Unsupported value: "Nope": '
                'supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"'
            ),
            f"spec.taints[0].key: Invalid value: \"a/b/c\": spec.taints[0].key in body should match '{QUALIFIED}'",
            "spec.taints[1].effect: Required value",
            "spec.taints[1].key: Required value",
        ]
        causes = WIDGETS.validate(widget(taints=taints))
        assert [str(cause) for cause in causes] == expected
        assert is_invalid("example.io", "Widget", "w", causes).message == (
            f'Widget.example.io "w" is invalid: [{", ".join(expected)}]'
        )

    @pytest.mark.contract("A11")
    def test_causes_carry_the_reason_clients_know(self) -> None:
        doc = widget(accepts=1, taints=[{"effect": "Nope", "key": "k" * 400}], names=["a", "a"])
        reasons = {cause.field: cause.reason for cause in WIDGETS.validate(doc)}
        assert reasons == {
            "spec.accepts": "FieldValueTypeInvalid",
            "spec.names[1]": "FieldValueDuplicate",
            "spec.taints[0].effect": "FieldValueNotSupported",
            "spec.taints[0].key": "FieldValueTooLong",
        }

    @pytest.mark.contract("T2")
    def test_a_complete_condition_is_fine_and_each_field_is_checked(self) -> None:
        good = {
            "type": "HubAcceptedManagedCluster",
            "status": "True",
            "reason": "HubClusterAdminAccepted",
            "message": "",
            "lastTransitionTime": "2026-11-21T02:21:11Z",
        }
        assert problems({"status": {"conditions": [good]}}) == []
        for field, bad in {"type": "a b", "status": "yes", "reason": "", "message": "m" * 32769}.items():
            (found,) = {cause.field for cause in WIDGETS.validate({"status": {"conditions": [good | {field: bad}]}})}
            assert found == f"status.conditions[0].{field}"

    @pytest.mark.contract("W20")
    def test_keys_of_a_list_that_is_a_map_are_unique(self) -> None:
        twice = {
            "type": "A",
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2026-11-21T02:21:11Z",
        }
        managed = [{"set": "s", "name": "a"}, {"set": "s", "name": "b"}, {"set": "s", "name": "a"}]
        assert problems({"status": {"conditions": [twice, twice, twice], "managed": managed}}) == [
            'status.conditions[1]: Duplicate value: {"type":"A"}',
            'status.managed[2]: Duplicate value: {"set":"s","name":"a"}',
        ]

    @pytest.mark.contract("T4")
    @pytest.mark.parametrize("period", [0, -1, 2**31 - 1])
    def test_what_the_schema_does_not_forbid_passes(self, period: int) -> None:
        assert problems(widget(period=period)) == []

    @pytest.mark.parametrize(
        "time_text",
        ["2026-11-21T02:21:11Z", "2026-11-21T02:21:11.123456Z", "2026-11-21t02:21:11.1+02:00", "0001-01-01T00:00:00Z"],
    )
    def test_times_are_rfc_3339(self, time_text: str) -> None:
        assert problems(widget(taints=[{"key": "a", "effect": "NoSelect", "timeAdded": time_text}])) == []

    @pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
    def test_text_that_no_database_keeps_is_refused_wherever_it_is(self, text: str) -> None:
        places: list[tuple[Doc, str]] = [
            (widget(mode=text), "spec.mode"),
            (widget(open={"deep": [{"x": text}]}), "spec.open.deep[0].x"),
            (widget(open={text: 1}), "spec.open"),
            ({"metadata": {"labels": {"a": text}}}, "metadata.labels.a"),
            ({"metadata": {"annotations": {text: "a"}}}, "metadata.annotations"),
        ]
        for doc, field in places:
            (cause,) = WIDGETS.validate(doc)
            assert cause.field == field
            str(cause).encode()

    def test_numbers_that_go_clients_cannot_read_are_refused(self) -> None:
        assert problems(widget(open={"n": 2**64})) == [
            "spec.open.n: Invalid value: must be an integer of at most 64 bits"
        ]
        assert problems(widget(ratio=float("nan"))) == [
            'spec.ratio: Invalid value: "nan": spec.ratio in body must be a finite number'
        ]

    @pytest.mark.parametrize("depth", [61, 62, 5000, 100_000])
    def test_deep_nesting_is_a_cause_and_never_a_crash(self, depth: int) -> None:
        doc = widget(open=nested(depth), selector=nested(depth))
        pruned, _ = WIDGETS.prune(doc)
        found = [cause.message for cause in WIDGETS.validate(WIDGETS.default(pruned))]
        assert found == ([] if depth == 61 else ["Invalid value: must not be nested more than 64 levels deep"])
        WIDGETS.validate(doc)

    def test_huge_keys_do_not_multiply(self) -> None:
        key = "k" * 1_000_000
        doc = {"spec": {"open": {"closed": {}}, "quantities": {key: []}, key: [1] * 300_000, "names": ["a"] * 100_000}}
        WIDGETS.prune(doc)
        causes = WIDGETS.validate(doc)
        assert sum(len(str(cause)) for cause in causes) < 10_000

    @given(ANY_DOCS)
    def test_any_json_gets_an_answer_that_can_be_sent(self, doc: Doc) -> None:
        for cause in WIDGETS.validate(doc):
            json.dumps(cause.wire(), ensure_ascii=False).encode()

    @given(WIDGET_DOCS)
    def test_what_validates_can_be_stored(self, doc: Doc) -> None:
        admitted = WIDGETS.default(WIDGETS.prune(doc)[0])
        if not WIDGETS.validate(admitted):
            json.dumps(admitted, ensure_ascii=False).encode()
            assert WIDGETS.prune(admitted) == (admitted, [])


class TestMetadata:
    def check(self, namespaced: bool = False, name_check: str = "subdomain", **meta: Any) -> list[str]:
        doc = {"metadata": meta}
        causes = compiled_schema.validate_metadata(doc, namespaced=namespaced, name_check=name_check)
        return [str(cause) for cause in causes]

    @pytest.mark.contract("A3", "W19")
    def test_a_bad_name_is_refused_in_the_observed_words(self) -> None:
        assert self.check(name="Bad.Name") == [
            (
                'metadata.name: Invalid value: "Bad.Name": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            )
        ]

    @pytest.mark.parametrize(
        ("name_check", "good", "bad"),
        [
            ("subdomain", ["a.b", "a" * 253], ["a" * 254, "a_b", "-a", "a\n", "A"]),
            ("label", ["a-b"], ["a.b", "a" * 64]),
            ("segment", ["system:node", "A_b", "a" * 253], [".", "..", "a/b", "a%b", "a" * 254]),
        ],
    )
    def test_names_have_the_form_of_their_kind(self, name_check: str, good: list[str], bad: list[str]) -> None:
        assert [name for name in good if self.check(name_check=name_check, name=name)] == []
        assert [name for name in bad if not self.check(name_check=name_check, name=name)] == []

    def test_a_name_or_its_beginning_is_required(self) -> None:
        assert self.check() == ["metadata.name: Required value: name or generateName is required"]
        assert self.check(generateName="cluster1-") == []
        assert self.check(generateName="Cluster-")[0].startswith('metadata.generateName: Invalid value: "Cluster-"')

    def test_a_namespace_belongs_to_namespaced_kinds_only(self) -> None:
        assert self.check(name="a", namespace="n") == ["metadata.namespace: Forbidden: not allowed on this type"]
        assert self.check(namespaced=True, name="a") == ["metadata.namespace: Required value"]
        assert self.check(namespaced=True, name="a", namespace="n") == []
        assert "must not contain dots" in self.check(namespaced=True, name="a", namespace="n.m")[0]

    @pytest.mark.parametrize("key", ["a b", "/a", "a/", "a/b/c", "A.b/c", "a" * 64, "", "-a"])
    def test_bad_label_keys_are_refused(self, key: str) -> None:
        assert self.check(name="a", labels={key: "v"})

    def test_labels_are_refused_with_the_offending_text(self) -> None:
        (key,) = self.check(name="a", labels={"a b": "v"})
        assert key.startswith(
            'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters'
        )
        (value,) = self.check(name="a", labels={"ok.io/a": "b c"})
        assert value.startswith(
            'metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of'
        )

    @pytest.mark.contract("W174")
    def test_annotations_are_limited_together(self) -> None:
        assert self.check(name="a", annotations={"A.b/c": "x" * 262139}) == []
        assert self.check(name="a", annotations={"A.b/c": "x" * 262140}) == [
            "metadata.annotations: Too long: may not be more than 262144 bytes"
        ]

    @pytest.mark.contract("W18")
    def test_owner_references_are_complete_and_name_one_controller(self) -> None:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1", "controller": True}
        assert self.check(name="a", ownerReferences=[owner]) == []
        assert self.check(name="a", ownerReferences=[owner | {"uid": ""}]) == [
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty'
        ]
        (two,) = self.check(name="a", ownerReferences=[owner, owner | {"uid": "2", "name": "p"}])
        assert two.endswith('Found "true" in references for ConfigMap/o and ConfigMap/p')

    @pytest.mark.contract("W18")
    def test_finalizers_are_names_and_undomained_ones_are_warned_about(self) -> None:
        assert self.check(name="a", finalizers=["a.b/c", "orphan", "bad"]) == []
        assert len(self.check(name="a", finalizers=["a b"])) == 1
        assert len(self.check(name="a", finalizers=["orphan", "foregroundDeletion"])) == 1
        warnings = compiled_schema.finalizer_warnings(
            {"metadata": {"finalizers": ["a.b/c", "orphan", "bad", "bad.io"]}}
        )
        rest = "to avoid accidental conflicts with other finalizer writers"
        assert warnings == [
            f'metadata.finalizers: "bad": prefer a domain-qualified finalizer name {rest}',
            f'metadata.finalizers: "bad.io": prefer a domain-qualified finalizer name including a path (/) {rest}',
        ]

    @given(JSON)
    def test_any_metadata_gets_an_answer(self, meta: Any) -> None:
        doc = {"metadata": meta}
        causes = compiled_schema.validate_metadata(doc, namespaced=True, name_check="label")
        assert causes
        json.dumps([cause.wire() for cause in causes], ensure_ascii=False).encode()
        compiled_schema.finalizer_warnings(doc)


@pytest.mark.contract("W8")
def test_the_published_form_has_type_and_metadata_and_leaves_the_root_alone() -> None:
    before = copy.deepcopy(WIDGETS.root)
    published = WIDGETS.publish()
    assert list(published["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert published["properties"]["metadata"]["allOf"] == [
        {"$ref": f"#/components/schemas/{compiled_schema.OBJECT_META_NAME}"}
    ]
    assert published["properties"]["spec"]["properties"]["share"] == {
        "x-kubernetes-int-or-string": True,
        "pattern": "^[0-9]+%?$",
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    }
    assert before == WIDGETS.root


def test_every_metadata_field_is_described() -> None:
    assert all(node["description"] for node in compiled_schema.OBJECT_META["properties"].values())


# ---------------------------------------------------------------- updates

STORED: Doc = WIDGETS.default(
    {
        "apiVersion": "example.io/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "labels": {"a": "b"}, "ownerReferences": []},
        "spec": {
            "weight": 1,
            "share": 5,
            "quantities": {"cpu": 1},
            "names": ["a", "b"],
            "taints": [{"key": "a", "effect": "NoSelect"}, {"key": "b", "effect": "NoSelect"}],
            "open": {"closed": {"a": "x"}, "more": [1, {"b": True}]},
        },
        "status": {"managed": [{"set": "a", "name": "b"}]},
    }
)
PLACES = [
    (),
    ("metadata",),
    ("metadata", "labels"),
    ("spec",),
    ("spec", "weight"),
    ("spec", "quantities", "cpu"),
    ("spec", "names", 1),
    ("spec", "taints"),
    ("spec", "taints", 1),
    ("spec", "taints", 1, "key"),
    ("spec", "open", "closed"),
    ("spec", "open", "more", 0),
    ("status", "managed", 0, "x"),
    ("junk",),
]


def outcome(proposed: Doc, known: Doc | None) -> str:
    pruned, unknown = WIDGETS.prune(proposed, known)
    filled = WIDGETS.default(pruned, known)
    return json.dumps([filled, unknown, [cause.wire() for cause in WIDGETS.validate(filled, known)]])


@given(st.sampled_from(PLACES), JSON | st.sampled_from([True, 1, 1.0, "a", "b", {"closed": {"b": "x"}}]))
def test_what_an_update_leaves_as_it_is_stored_needs_no_second_look(place: tuple[Any, ...], value: Any) -> None:
    proposed: Any = [copy.deepcopy(STORED)]
    at, last = proposed, 0
    for step in place:
        at, last = at[last], step
    at[last] = value
    if isinstance(proposed[0], dict):
        assert outcome(proposed[0], STORED) == outcome(proposed[0], None)


def test_an_equal_number_of_another_type_is_looked_at() -> None:
    proposed = copy.deepcopy(STORED)
    proposed["spec"]["quantities"]["cpu"] = True
    assert proposed == STORED
    assert [cause.field for cause in WIDGETS.validate(proposed, STORED)] == ["spec.quantities.cpu"]


def test_nothing_is_shared_with_the_stored_document() -> None:
    theirs = set(containers(STORED))
    assert theirs.isdisjoint(containers(WIDGETS.prune(STORED, STORED)[0]))
    assert theirs.isdisjoint(containers(WIDGETS.default(STORED, STORED)))
