"""Rights that are read by forms are those that parsing each document whole makes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocmconsole.core.rbac import rule_index
from ocmconsole.core.rbac.rule_index import Tables

GROUP = "rbac.authorization.k8s.io"
ROLES, BINDINGS, INSIDE = (f"{plural}.{GROUP}" for plural in ("clusterroles", "clusterrolebindings", "rolebindings"))
NAMES = st.sampled_from([
    "c1", "a", "get", "rules", "kind", "name", "subjects", "roleref", "group", "system", "e000", "open-cluster-management",
    "eu-1.example", "c1:x", "C1", "c\u00e4", "c\ue000", 'c"1', "",
])  # fmt: skip
WORDS = st.lists(st.sampled_from(["get", "list", "*", "managedclusters", "\ue000", "rules", 'a"b']), max_size=3)


def role(name: str, words: list[str]) -> dict[str, Any]:
    return {"rules": [
        {"apiGroups": ["cluster.open-cluster-management.io"], "resources": words, "verbs": ["get", name]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name, f"{name}-x"], "verbs": words},
        {"nonResourceURLs": [f"/{name}/*"], "verbs": ["get"]},
    ]}  # fmt: skip


def binding(name: str, kind: str) -> dict[str, Any]:
    return {
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": f"open-cluster-management:managedcluster:{name}"},
        "subjects": [
            {"apiGroup": GROUP, "kind": "Group", "name": f"system:open-cluster-management:{name}"},
            {"apiGroup": GROUP, "kind": "Group", "name": "everybody"},
            {"kind": "ServiceAccount", "name": "agent"},
            {"kind": "ServiceAccount", "name": name, "namespace": name},
            {"kind": "User", "name": name},
        ],
    }


def both(resource: str, texts: list[tuple[tuple[str, str], str]]) -> tuple[Tables, Tables]:
    """What is read by forms, and what by parsing each whole."""
    alike, whole = Tables(), Tables()
    forms = rule_index.AlikeClusters()
    for place, text in texts:
        put = forms.put_role if resource == ROLES else forms.put_binding
        if not put(alike, place, text):
            alike.put(resource, place, orjson.loads(text))
        whole.put(resource, place, orjson.loads(text))
    return alike, whole


def contents(tables: Tables) -> list[dict[Any, Any]]:
    return [tables._rules, tables._bindings, tables._bound]


@given(
    names=st.lists(NAMES, min_size=1, max_size=6, unique=True),
    words=WORDS,
    notes=st.dictionaries(NAMES, NAMES, max_size=2),
)
@pytest.mark.parametrize("resource", [ROLES, BINDINGS, INSIDE])
@pytest.mark.parametrize("order", ["as written", "metadata last", "subjects first", "being deleted", "unlabelled"])
@pytest.mark.contract("W22")
def test_forms_give_what_whole_documents_give(
    resource: str, order: str, names: list[str], words: list[str], notes: dict[str, str]
) -> None:
    texts = []
    for number, name in enumerate(names):
        key = f"open-cluster-management:managedcluster:{name}" if resource != INSIDE else f"work-{number}"
        place = (name if resource == INSIDE else "", key)
        metadata: dict[str, Any] = {"name": key, "annotations": notes, "uid": str(number), "resourceVersion": "7"}
        if place[0]:
            metadata["namespace"] = place[0]
        if order == "being deleted":
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        part = role(name, words) if resource == ROLES else binding(name, "Role" if number % 2 else "ClusterRole")
        if order == "subjects first":
            part = dict(reversed(part.items()))
        elif order == "unlabelled":
            part.pop("subjects", None)
        doc = {"apiVersion": f"{GROUP}/v1", "kind": "X", "metadata": metadata, **part}
        if order == "metadata last":
            doc["metadata"] = doc.pop("metadata")
        texts.append((place, orjson.dumps(doc).decode()))
    alike, whole = both(resource, texts)
    assert contents(alike) == contents(whole)


def test_clusters_take_the_short_way() -> None:
    forms, tables = rule_index.AlikeClusters(), Tables()
    for name in ("c1", "c2"):
        metadata = {"name": f"x:{name}", "uid": name}
        text = orjson.dumps({"metadata": metadata, **role(name, ["managedclusters"])}).decode()
        assert forms.put_role(tables, ("", f"x:{name}"), text)
        text = orjson.dumps({"metadata": metadata | {"namespace": name}, **binding(name, "ClusterRole")}).decode()
        assert forms.put_binding(tables, (name, f"x:{name}"), text)
