"""What the audit holds of secret values, wherever they travel: a digest that says whether they changed, no more."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.addons.addon_kinds import MANIFEST_WORK
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster
from ocmconsole.core import kinds
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.storage import audit
from tests import factories as make
from tests.actors import ROOT

SECRET = "c2VjcmV0LXZhbHVl"
CHANGED = "b3RoZXItc2VjcmV0"
MANIFESTS = ("spec", "workload", "manifests")


def manifest(kind: str, field: str, value: str) -> dict[str, Any]:
    copy = json.dumps({"kind": kind, field: {"key": value}})
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "m", "namespace": "default", "annotations": {audit.LAST_APPLIED: copy}},
        field: {"key": value},
    }


def audited() -> str:
    return json.dumps([event.diff for event in AuditEvent.objects.all()])


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrap", [lambda each: each, lambda each: {"apiVersion": "v1", "kind": "List", "items": [each]}]
)
@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_secrets_inside_of_a_manifest_work_are_digests(kind: str, wrap: Any) -> None:
    make.namespace("c1")
    spec = {"workload": {"manifests": [wrap(manifest(kind, "data", SECRET))]}}
    make.create(MANIFEST_WORK, make.document(MANIFEST_WORK, "work", spec=spec), namespace="c1")
    make.edit(
        MANIFEST_WORK,
        "work",
        lambda doc: doc["spec"]["workload"].update(manifests=[wrap(manifest(kind, "data", CHANGED))]),
        namespace="c1",
    )
    told = audited()
    assert SECRET not in told
    assert CHANGED not in told
    assert told.count("hmac-sha256:") >= 4  # value and copy, before and after


@pytest.mark.django_db
@pytest.mark.parametrize("field", ["data", "binaryData"])
def test_data_of_a_config_map_are_digests(field: str) -> None:
    make.namespace("team")
    doc = {"metadata": {"name": "settings"}, field: {"key": SECRET}}
    verbs.create(ROOT, kinds.CONFIG_MAP, doc, namespace="team")
    assert SECRET not in audited()
    assert "hmac-sha256:" in audited()


def test_a_digest_cannot_be_tried_without_the_audit_key(settings: Any) -> None:
    old, new = {"data": {"pin": "1234"}}, {"data": {"pin": "4321"}}
    [first] = audit.diff(old, new, ("data",))
    assert first["old"] != first["new"]
    plain = {hashlib.sha256(text.encode()).hexdigest()[:16] for text in ("1234", "'1234'", repr("1234"))}
    assert not plain & {part.partition(":")[2] for part in (first["old"], first["new"])}
    assert audit.diff(old, new, ("data",)) == [first]
    settings.AUDIT_KEY = "another"
    assert audit.diff(old, new, ("data",)) != [first]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "metadata", "annotations", "items", "data", "spec", "workload", "manifests"]),
            inner | st.sampled_from(["Secret", "ConfigMap", "List"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(old=anything, new=anything)
def test_odd_manifests_never_stop_the_audit(old: Any, new: Any) -> None:
    docs = [{"metadata": {}, "spec": {"workload": {"manifests": each}}} for each in (old, new)]
    audit.diff(docs[0], docs[1], (), MANIFESTS)


# ---------------------------------------------------------------- leases


@pytest.mark.django_db
@pytest.mark.contract("H16", "D12")
def test_a_lease_of_years_is_stored_as_written_and_waited_for_a_day_at_most() -> None:
    make.cluster("c1", accepted=True, spec={"hubAcceptsClient": True, "leaseDurationSeconds": 2**31 - 1})
    row = ManagedCluster.objects.get(name="c1")
    assert row.doc["spec"]["leaseDurationSeconds"] == 2**31 - 1
    assert row.lease_duration_seconds == 86_400
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["spec"].update(leaseDurationSeconds=300))
    assert ManagedCluster.objects.get(name="c1").lease_duration_seconds == 300


@pytest.mark.django_db
def test_a_lease_of_years_needs_a_person(admin_client: Any) -> None:
    assert "Long leases" not in admin_client.get("/attention/").content.decode()
    make.cluster("c1", accepted=True, spec={"hubAcceptsClient": True, "leaseDurationSeconds": 2**31 - 1})
    shown = admin_client.get("/attention/").content.decode()
    assert "Long leases" in shown
    assert "c1: silence is found after" in shown, shown[shown.index("Long leases") :][:900]
