"""What the schemas refuse, field by field and word by word (A11), and what strict validation adds."""

from __future__ import annotations

import json
import re
from typing import Any

from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET, MANAGED_CLUSTER_SET_BINDING
from ocmconsole.kubeapi.kinds import Kind
from tests.entry_points.admission import scene
from tests.entry_points.admission.row import (
    BIND_ANY,
    JOIN_ANY,
    MUTATING,
    Allowed,
    Doc,
    Refused,
    Row,
    changes,
    clerk,
    cluster,
    creates,
    invalid,
)

QUALIFIED = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
EFFECTS = 'supported values: "NoSelect", "PreferNoSelect", "NoSelectIfNew"'
SELECTORS = 'supported values: "ExclusiveClusterSetLabel", "LabelSelector"'
UNREADABLE = re.compile(r'"(string|integer|object|int64|float64|)"$|Namespaces\[[01]\](: Dup|\.name: Req)')
PLACES: dict[Kind, dict[str, Any]] = {
    MANAGED_CLUSTER: {},
    MANAGED_CLUSTER_SET: {"name": "web"},
    MANAGED_CLUSTER_SET_BINDING: {"name": "web", "namespace": "team", "around": (scene.namespace("team"),)},
}


def typed(field: str, wanted: str, got: str) -> str:
    """``got`` as the reference shows it: the name of a type, in quotes."""
    return f'{field}: Invalid value: "{got}": {field} in body must be of type {wanted}: "{got}"'


def formed(field: str, wanted: str, value: str) -> str:
    return f"{field}: Invalid value: {json.dumps(value)}: {field} in body must be of type {wanted}: {json.dumps(value)}"


def beyond(field: str, value: int) -> str:
    return f"{field}: Invalid value: {value}: Checked value must be of type integer with format int32 in {field}"


def matched(field: str, value: str, pattern: str) -> str:
    return f"{field}: Invalid value: {json.dumps(value)}: {field} in body should match '{pattern}'"


def taint(**more: Any) -> Doc:
    made = {"key": "a", "effect": "NoSelect", **more}
    return {"taints": [{key: value for key, value in made.items() if value is not ...}]}


def refuses(kind: Kind, what: str, spec: Any, *causes: str) -> Row:
    who = clerk(JOIN_ANY, BIND_ANY)
    place = PLACES[kind]
    outcome = invalid(kind, place.get("name", "c1"), *causes)
    # Server-side apply reads types and keyed lists before anybody validates them.
    hidden = ("apply",) if any(UNREADABLE.search(cause) for cause in causes) else ()
    return creates(f"{kind.kind}: {what}", {"spec": spec}, outcome, "A11", kind=kind, who=who, not_ways=hidden, **place)


CONFIG = "spec.managedClusterClientConfigs"
CLUSTERS: list[Row] = [
    refuses(MANAGED_CLUSTER, what, spec, *causes)
    for what, spec, causes in (
        ("spec is an object", "x", [typed("spec", "object", "string")]),
        ("hubAcceptsClient is no text", {"hubAcceptsClient": "yes"}, [typed("spec.hubAcceptsClient", "boolean", "string")]),
        ("hubAcceptsClient is no number", {"hubAcceptsClient": 1}, [typed("spec.hubAcceptsClient", "boolean", "integer")]),
        ("leaseDurationSeconds is no text", {"leaseDurationSeconds": "60"},
         [typed("spec.leaseDurationSeconds", "integer", "string")]),
        ("leaseDurationSeconds is no truth", {"leaseDurationSeconds": True},
         ['spec.leaseDurationSeconds: Invalid value: "": spec.leaseDurationSeconds in body must be of type int32: ""']),
        ("leaseDurationSeconds has no fraction", {"leaseDurationSeconds": 1.5},
         [typed("spec.leaseDurationSeconds", "int32", "float64")]),
        ("leaseDurationSeconds has 32 bits", {"leaseDurationSeconds": 2**31},
         [beyond("spec.leaseDurationSeconds", 2147483648)]),
        ("leaseDurationSeconds has 32 bits below zero", {"leaseDurationSeconds": -(2**31) - 1},
         [beyond("spec.leaseDurationSeconds", -2147483649)]),
        ("configs are a list", {"managedClusterClientConfigs": "x"}, [typed(CONFIG, "array", "string")]),
        ("a config is an object", {"managedClusterClientConfigs": [5]}, [typed(f"{CONFIG}[0]", "object", "integer")]),
        ("a config has a url", {"managedClusterClientConfigs": [{"caBundle": "YQ=="}]}, [f"{CONFIG}[0].url: Required value"]),
        ("a url is a text", {"managedClusterClientConfigs": [{"url": 5}]}, [typed(f"{CONFIG}[0].url", "string", "integer")]),
        ("a CA bundle is base64", {"managedClusterClientConfigs": [{"url": "https://a", "caBundle": "%"}]},
         [formed(f"{CONFIG}[0].caBundle", "byte", "%")]),
        ("taints are a list", {"taints": "x"}, [typed("spec.taints", "array", "string")]),
        ("a taint is an object", {"taints": [5]}, [typed("spec.taints[0]", "object", "integer")]),
        ("a taint has key and effect", {"taints": [{}]},
         ["spec.taints[0].effect: Required value", "spec.taints[0].key: Required value"]),
        ("a taint has a key", taint(key=...), ["spec.taints[0].key: Required value"]),
        ("a taint has an effect", taint(effect=...), ["spec.taints[0].effect: Required value"]),
        ("a key is not empty", taint(key=""), [matched("spec.taints[0].key", "", QUALIFIED)]),
        ("a key has one slash", taint(key="a/b/c"), [matched("spec.taints[0].key", "a/b/c", QUALIFIED)]),
        ("a key begins with a letter", taint(key="-a"), [matched("spec.taints[0].key", "-a", QUALIFIED)]),
        ("a key has 316 bytes", taint(key="x" * 317), ["spec.taints[0].key: Too long: may not be more than 316 bytes"]),
        ("a value has 1024 bytes", taint(value="x" * 1025), ["spec.taints[0].value: Too long: may not be more than 1024 bytes"]),
        ("a value is a text", taint(value=5), [typed("spec.taints[0].value", "string", "integer")]),
        ("an effect is one of three", taint(effect="Foo"), [f'spec.taints[0].effect: Unsupported value: "Foo": {EFFECTS}']),
        ("an effect is written as it is", taint(effect="noselect"),
         [f'spec.taints[0].effect: Unsupported value: "noselect": {EFFECTS}']),
        ("an effect is not empty", taint(effect=""), [f'spec.taints[0].effect: Unsupported value: "": {EFFECTS}']),
        ("a time is a time", taint(timeAdded="yesterday"), [formed("spec.taints[0].timeAdded", "date-time", "yesterday")]),
        ("a time is a text", taint(timeAdded=5), [typed("spec.taints[0].timeAdded", "date-time", "int64")]),
        ("a time is no object", taint(timeAdded={}), [typed("spec.taints[0].timeAdded", "date-time", "")]),
        ("a key is a text", taint(key=5), [typed("spec.taints[0].key", "string", "integer")]),
        ("a time is a day of the calendar", taint(timeAdded="2026-13-45T00:00:00Z"),
         [formed("spec.taints[0].timeAdded", "date-time", "2026-13-45T00:00:00Z")]),
        ("a time has a time of the day", taint(timeAdded="2026-01-02"),
         [formed("spec.taints[0].timeAdded", "date-time", "2026-01-02")]),
        ("every fault is told", {"leaseDurationSeconds": "x", "taints": [{"key": "a", "effect": "Foo"}, {"effect": "NoSelect"}]},
         [typed("spec.leaseDurationSeconds", "integer", "string"), f'spec.taints[0].effect: Unsupported value: "Foo": {EFFECTS}',
          "spec.taints[1].key: Required value"]),
    )
]  # fmt: skip

NAMESPACES = "spec.managedNamespaces"
SELECTOR = "spec.clusterSelector"
SETS: list[Row] = [
    refuses(MANAGED_CLUSTER_SET, what, spec, *causes)
    for what, spec, causes in (
        ("spec is an object", "x", [typed("spec", "object", "string")]),
        ("a selector is an object", {"clusterSelector": "x"}, [typed(SELECTOR, "object", "string")]),
        ("a type is one of two", {"clusterSelector": {"selectorType": "Nope"}},
         [f'{SELECTOR}.selectorType: Unsupported value: "Nope": {SELECTORS}']),
        ("a type is not empty", {"clusterSelector": {"selectorType": ""}},
         [f'{SELECTOR}.selectorType: Unsupported value: "": {SELECTORS}']),
        ("a type is a text", {"clusterSelector": {"selectorType": 5}},
         [typed(f"{SELECTOR}.selectorType", "string", "integer"), f"{SELECTOR}.selectorType: Unsupported value: 5: {SELECTORS}"]),
        ("labels are texts", {"clusterSelector": {"labelSelector": {"matchLabels": {"a": 5}}}},
         [typed(f"{SELECTOR}.labelSelector.matchLabels.a", "string", "integer")]),
        ("expressions are a list", {"clusterSelector": {"labelSelector": {"matchExpressions": {}}}},
         [typed(f"{SELECTOR}.labelSelector.matchExpressions", "array", "object")]),
        ("an expression has key and operator", {"clusterSelector": {"labelSelector": {"matchExpressions": [{}]}}},
         [f"{SELECTOR}.labelSelector.matchExpressions[0].key: Required value",
          f"{SELECTOR}.labelSelector.matchExpressions[0].operator: Required value"]),
        ("a namespace has a name", {"managedNamespaces": [{}]}, [f"{NAMESPACES}[0].name: Required value"]),
        ("a namespace has the name of one", {"managedNamespaces": [{"name": "A.b"}]},
         [matched(f"{NAMESPACES}[0].name", "A.b", LABEL)]),
        ("a namespace's name has 63 bytes", {"managedNamespaces": [{"name": "x" * 64}]},
         [f"{NAMESPACES}[0].name: Too long: may not be more than 63 bytes"]),
        ("a namespace stands once", {"managedNamespaces": [{"name": "a"}, {"name": "a"}]},
         [f'{NAMESPACES}[1]: Duplicate value: {{"name":"a"}}']),
    )
]  # fmt: skip

BINDINGS: list[Row] = [
    refuses(MANAGED_CLUSTER_SET_BINDING, what, spec, *causes)
    for what, spec, causes in (
        ("spec is an object", "x", [typed("spec", "object", "string")]),
        ("a set is named", {}, ["spec.clusterSet: Required value"]),
        ("a set is named, not null", {"clusterSet": None}, ["spec.clusterSet: Required value"]),
        ("a set has a name of one character", {"clusterSet": ""},
         ['spec.clusterSet: Invalid value: "": spec.clusterSet in body should be at least 1 chars long']),
        ("a set's name is a text", {"clusterSet": 5}, [typed("spec.clusterSet", "string", "integer")]),
    )
]  # fmt: skip

VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
LATER: list[Row] = [
    changes("a change brings a bad effect", cluster(), {"spec": taint(effect="Foo")},
            invalid(MANAGED_CLUSTER, "c1", f'spec.taints[0].effect: Unsupported value: "Foo": {EFFECTS}'), "A11"),
    changes("a change brings a set's name that is no label", cluster(), {"metadata": {"labels": {CLUSTERSET_LABEL: "a b"}}},
            invalid(MANAGED_CLUSTER, "c1", f'metadata.labels: Invalid value: "a b": {VALUE}'), "A11", "A6"),
    creates("the schema is asked before shape and permission",
            {"spec": {"hubAcceptsClient": True, "managedClusterClientConfigs": [{"url": "http://x"}], **taint(effect="Foo")}},
            invalid(MANAGED_CLUSTER, "c1", f'spec.taints[0].effect: Unsupported value: "Foo": {EFFECTS}'), "A7c", "A11"),
    changes("a time that may not be set is told before a bad effect", cluster(),
            {"spec": taint(effect="Foo", timeAdded="2001-02-03T04:05:06Z")},
            Refused(400, f'{MUTATING}It is not allowed to set TimeAdded of Taint "a".'), "A7c", "A1", "A11"),
    changes("status is not written here", cluster(), {"status": {"conditions": "x"}}, Allowed({"status": None}), "A11",
            not_ways=("apply",)),
]  # fmt: skip

OLDEST: list[Row] = [
    creates("the oldest type of a selector is not of this version",
            {"spec": {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}},
            invalid(MANAGED_CLUSTER_SET, "web", f'{SELECTOR}.selectorType: Unsupported value: "LegacyClusterSetLabel": {SELECTORS}'),
            "S146", "D1", "A11", kind=MANAGED_CLUSTER_SET, name="web"),
]  # fmt: skip

FINE: list[Row] = [
    creates(f"leaseDurationSeconds may be {seconds}", {"spec": {"leaseDurationSeconds": seconds}},
            Allowed({"spec": {"leaseDurationSeconds": stored}}), "A11", "K13")
    for seconds, stored in ((0, 0), (-1, -1), (2**31 - 1, 2**31 - 1), (None, 60), (90.0, 90))
] + [
    creates("a taint of each effect and form is fine",
            {"spec": {"taints": [{"key": "foo.example.com/bar", "effect": "NoSelect", "value": "x" * 1024},
                                 {"key": "a_B.c", "effect": "PreferNoSelect", "value": ""},
                                 {"key": "9", "effect": "NoSelectIfNew"}]}},
            Allowed({"spec": {"hubAcceptsClient": False}}), "A11"),
    creates("a set without a spec selects by its label", {},
            Allowed({"spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}}), "A11",
            kind=MANAGED_CLUSTER_SET, name="web"),
    creates("a selector that is null selects by its label", {"spec": {"clusterSelector": None}},
            Allowed({"spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}}), "A11",
            kind=MANAGED_CLUSTER_SET, name="web"),
    creates("an operator that does not exist is taken",
            {"spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}}},
            Allowed({"spec": {"clusterSelector": {"selectorType": "LabelSelector"}}}), "A12", "K24",
            kind=MANAGED_CLUSTER_SET, name="web"),
]  # fmt: skip


def strict(kind: str, *found: str, version: str = "v1") -> Refused:
    text = f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding error: {", ".join(found)}'
    return Refused(400, text)


STRICT: list[Row] = [
    creates("an unknown field is refused on request", {"spec": {"zz": 1}}, strict("ManagedCluster", 'unknown field "spec.zz"'),
            "A11", strict=True),
    changes("an unknown field in a change is refused on request", cluster(), {"spec": {"zz": 1}},
            strict("ManagedCluster", 'unknown field "spec.zz"'), "A11", strict=True),
    creates("every unknown field is named", {"zz": 1, "spec": {"taints": [{"key": "a", "effect": "NoSelect", "b": 1}], "a": 1}},
            strict("ManagedCluster", 'unknown field "spec.a"', 'unknown field "spec.taints[0].b"', 'unknown field "zz"'), "A11",
            strict=True),
    creates("an unknown field of a set is refused on request", {"spec": {"clusterSelector": {"zz": 1}}},
            strict("ManagedClusterSet", 'unknown field "spec.clusterSelector.zz"', version="v1beta2"), "A11", strict=True,
            kind=MANAGED_CLUSTER_SET, name="web"),
    creates("an unknown field is warned about", {"spec": {"zz": 1}}, Allowed({"spec": {"zz": None}}, 'unknown field "spec.zz"'),
            "A11", ways=("post", "apply")),
    creates("a field that stands twice is refused on request", {"spec": {"hubAcceptsClient": False}},
            strict("ManagedCluster", 'duplicate field "spec.hubAcceptsClient"'), "A11", strict=True, twice="hubAcceptsClient",
            ways=("post",)),
    changes("a field that stands twice in a change is refused on request", cluster(), {"spec": {"leaseDurationSeconds": 5}},
            strict("ManagedCluster", 'duplicate field "spec.leaseDurationSeconds"'), "A11", strict=True,
            twice="leaseDurationSeconds", ways=("put", "merge-patch")),
    creates("a field that stands twice is warned about", {"spec": {"hubAcceptsClient": False}},
            Allowed({"spec": {"hubAcceptsClient": False}}, 'duplicate field "spec.hubAcceptsClient"'), "A11",
            twice="hubAcceptsClient", ways=("post",)),
]  # fmt: skip

ROWS = [*CLUSTERS, *SETS, *OLDEST, *BINDINGS, *LATER, *FINE, *STRICT]
