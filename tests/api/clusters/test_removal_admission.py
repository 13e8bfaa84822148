"""Who may write a cluster may not make it go: owners and the hub's finalizers are for those who may delete it."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.kinds import API_RESOURCE_CLEANUP, GROUP, LEASE, LEASE_NAME, MANAGED_CLUSTER, RESOURCE_CLEANUP
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from tests import factories as make
from tests.actors import grant, person, rule

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "11111111-2222-3333-4444-555555555555"}
HOLDS = [API_RESOURCE_CLEANUP, RESOURCE_CLEANUP]


@pytest.fixture
def c1() -> Key:
    make.cluster("c1", accepted=True)
    make.settle()
    return Key("", "c1")


def put(actor: Actor, key: Key, **metadata: Any) -> Doc | None:
    """A whole document, as an agent updates its cluster (G11)."""
    doc = make.stored(key.name).doc
    doc["metadata"] |= metadata
    return verbs.update(actor, MANAGED_CLUSTER, key, doc).doc


@pytest.mark.contract("H27", "W18", "H14")
@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"ownerReferences": [OWNER]}, "metadata.ownerReferences"),
        ({"finalizers": []}, "the hub's own metadata.finalizers"),
        ({"finalizers": HOLDS[:1]}, "the hub's own metadata.finalizers"),
        ({"finalizers": HOLDS[1:]}, "the hub's own metadata.finalizers"),
        ({"finalizers": ["example.com/mine"]}, "the hub's own metadata.finalizers"),
        (
            {"ownerReferences": [OWNER], "finalizers": []},
            "metadata.ownerReferences and the hub's own metadata.finalizers",
        ),
    ],
)
def test_an_agent_cannot_make_its_own_cluster_go(c1: Key, metadata: Doc, named: str) -> None:
    agent = make.agent("c1")
    with pytest.raises(errors.Forbidden) as refusal:
        put(agent, c1, **metadata)
    assert refusal.value.message == (
        f'managedclusters.{GROUP} "c1" is forbidden: User "{agent.user}" cannot delete resource "managedclusters" '
        f'in API group "{GROUP}" at the cluster scope: this is needed to change {named}'
    )
    make.settle()
    assert make.stored("c1").deleted_at is None
    assert AuditEvent.objects.filter(outcome="denied", user=agent.user, name="c1").exists()


@pytest.mark.contract("H27", "W18")
def test_a_cluster_on_its_way_out_is_not_hurried_by_its_agent(c1: Key) -> None:
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"]["finalizers"].append("example.com/hold"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, c1)
    rights = rule("update", "managedclusters", groups=GROUP)
    raj = person("raj")
    grant(raj, rights)
    with pytest.raises(errors.Forbidden, match="this is needed to change the hub's own"):
        put(raj, c1, finalizers=[])
    assert put(raj, c1, finalizers=HOLDS) is not None


@pytest.mark.contract("H27", "G11")
def test_what_agents_really_write_is_not_in_the_way(c1: Key) -> None:
    doc = make.stored("c1").doc
    doc["spec"]["managedClusterClientConfigs"] = [{"url": "https://api.example.com"}]
    doc["metadata"]["finalizers"].append("example.com/mine")
    verbs.update(make.agent("c1"), MANAGED_CLUSTER, c1, doc)
    assert make.stored("c1").doc["spec"]["managedClusterClientConfigs"]
    assert put(make.agent("c1"), c1, finalizers=make.stored("c1").doc["metadata"]["finalizers"][:-1])


@pytest.mark.contract("H27", "H30")
def test_who_may_delete_may_also_do_it_by_hand(c1: Key) -> None:
    raj = person("raj")
    grant(raj, rule("update", "managedclusters", groups=GROUP), rule("delete", "managedclusters", groups=GROUP))
    put(raj, c1, ownerReferences=[OWNER], finalizers=[])
    make.settle()
    assert verbs.find(MANAGED_CLUSTER, c1) is None


@pytest.mark.contract("W18")
def test_a_new_cluster_has_no_owner_unless_its_creator_may_delete_it() -> None:
    raj = person("raj")
    grant(raj, rule("create", "managedclusters managedclustersets/join", groups=GROUP))
    with pytest.raises(errors.Forbidden, match=r"this is needed to change metadata\.ownerReferences"):
        make.cluster("c1", by=raj, ownerReferences=[OWNER])
    grant(raj, rule("delete", "managedclusters", groups=GROUP))
    assert make.cluster("c1", by=raj, ownerReferences=[OWNER])


@pytest.mark.contract("W29")
@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("leaseDurationSeconds", 0, "must be greater than 0"),
        ("leaseDurationSeconds", -1, "must be greater than 0"),
        ("leaseTransitions", -1, "must be greater than or equal to 0"),
    ],
)
def test_a_lease_has_kubernetes_own_limits(c1: Key, field: str, value: int, text: str) -> None:
    doc = verbs.get(make.ADMIN, LEASE, Key("c1", LEASE_NAME))
    doc["spec"][field] = value
    with pytest.raises(errors.Invalid) as refusal:
        verbs.update(make.agent("c1"), LEASE, Key("c1", LEASE_NAME), doc)
    assert refusal.value.message == (
        f'Lease.coordination.k8s.io "{LEASE_NAME}" is invalid: spec.{field}: Invalid value: {value}: {text}'
    )


@pytest.mark.contract("W29")
def test_a_lease_may_leave_its_period_out_and_never_have_been_handed_over(c1: Key) -> None:
    doc = verbs.get(make.ADMIN, LEASE, Key("c1", LEASE_NAME))
    doc["spec"] |= {"leaseDurationSeconds": 1, "leaseTransitions": 0}
    assert verbs.update(make.agent("c1"), LEASE, Key("c1", LEASE_NAME), doc).doc
