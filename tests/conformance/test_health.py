"""Available follows what the agent says, and becomes Unknown when it says nothing any more."""

from __future__ import annotations

import pytest

from tests.conformance.cluster import AVAILABLE, CLUSTER_LABEL, Cluster
from tests.conformance.commands import eventually

UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"


@pytest.mark.contract("H21", "W114", "W15")
def test_available_and_its_taint_follow_what_the_agent_reports(cluster: Cluster) -> None:
    cluster.join()
    assert eventually(cluster.taints) == [UNREACHABLE]
    cluster.report("True")
    cluster.admin("wait", f"mcl/{cluster.name}", f"--for=condition={AVAILABLE}", "--timeout=120s")
    eventually(lambda: cluster.taints() == [])
    cluster.report("False", "ManagedClusterKubeAPIServerUnavailable")
    eventually(lambda: cluster.taints() == [UNAVAILABLE])
    assert cluster.admin.rows("mcl", cluster.name)[0][-2] == "False"


@pytest.mark.contract("H16", "H17", "H21", "H44")
def test_silent_cluster_is_unknown_after_five_lease_durations_until_it_speaks_again(cluster: Cluster) -> None:
    cluster.join()
    cluster.renew_lease()
    cluster.report("True")
    eventually(lambda: cluster.taints() == [])
    _lasts(cluster, 1)

    cluster.admin("wait", f"mcl/{cluster.name}", f"--for=condition={AVAILABLE}=Unknown", "--timeout=120s")

    eventually(lambda: cluster.taints() == [UNREACHABLE])
    (said,) = (
        each for each in cluster.admin.read("mcl", cluster.name)["status"]["conditions"] if each["type"] == AVAILABLE
    )
    assert said["reason"] == "ManagedClusterLeaseUpdateStopped"
    assert said["message"] == "Registration agent stopped updating its lease."
    (warning,) = eventually(
        lambda: cluster.admin.rows("events", "-n", cluster.name, "--field-selector", "type=Warning")
    )
    assert warning[1:4] == ["Warning", "AvailableUnknown", f"managedcluster/{cluster.name}"]
    assert "the connection check from the managed cluster to the hub cluster has failed" in warning[4]

    _lasts(cluster, 60)
    cluster.renew_lease()
    assert cluster.condition() == "Unknown"  # H17: a heartbeat alone says nothing about the cluster
    cluster.report("True")
    eventually(lambda: cluster.taints() == [])
    assert cluster.condition() == "True"


def _lasts(cluster: Cluster, seconds: int) -> None:
    """Silence is counted in durations of the lease: a short one is for the silence alone, whatever else takes long."""
    cluster.admin(
        "patch", "mcl", cluster.name, "--type=merge", "-p", f'{{"spec":{{"leaseDurationSeconds":{seconds}}}}}'
    )


@pytest.mark.contract("H15")
def test_accepted_cluster_has_a_lease_before_its_first_heartbeat(cluster: Cluster) -> None:
    cluster.join()
    lease = cluster.agent.read("lease", "managed-cluster-lease")
    assert lease["metadata"]["labels"][CLUSTER_LABEL] == cluster.name
    heading, row = cluster.agent("get", "leases").splitlines()
    assert heading.split() == ["NAME", "HOLDER", "AGE"]
    assert row.split()[:2] == ["managed-cluster-lease", "managed-cluster-lease"]


@pytest.mark.contract("H21")
def test_taints_of_a_person_stay_when_the_hub_adds_and_removes_its_own(cluster: Cluster) -> None:
    cluster.join(taints=[{"key": "example.com/gpu", "value": "yes", "effect": "PreferNoSelect"}])
    assert eventually(lambda: len(cluster.taints()) == 2 and cluster.taints()) == ["example.com/gpu", UNREACHABLE]
    cluster.report("True")
    eventually(lambda: cluster.taints() == ["example.com/gpu"])
