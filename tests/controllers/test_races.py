"""Two workers at the same cluster: a lost race is tried again and is never told to the cluster's agent as an error."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Barrier

import pytest
from django.db import connection

from clusters.controllers import reconcile_acceptance
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make

WORKERS = 3
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.contract("H4", "H5", "K40")
@pytest.mark.parametrize("name", ["c1", "c2"])
def test_workers_that_admit_a_cluster_at_once_report_no_error(name: str) -> None:
    make.cluster(name, accepted=True)
    start = Barrier(WORKERS)

    def admit() -> None:
        start.wait()
        with closing(connection), suppress(errors.Conflict):  # upon which the queue tries again
            reconcile_acceptance(Key("", name))

    with ThreadPoolExecutor(WORKERS) as workers:
        done = [workers.submit(admit) for _ in range(WORKERS)]
    assert [each.exception() for each in done] == [None] * WORKERS

    doc = verbs.get(make.ADMIN, MANAGED_CLUSTER, Key("", name))
    conditions = doc.get("status", {}).get("conditions", [])
    assert [each for each in conditions if each["reason"] == "Error"] == []
    reconcile_acceptance(Key("", name))
    doc = verbs.get(make.ADMIN, MANAGED_CLUSTER, Key("", name))
    accepted = [each["reason"] for each in doc["status"]["conditions"] if each["type"] == "HubAcceptedManagedCluster"]
    assert accepted == ["HubClusterAdminAccepted"]
