"""Reconcilers compare and correct: on a hub that has settled, looking again at anything writes nothing."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from clusters.fleet import bulk_acts
from clusters.kinds import CLUSTERSET_LABEL, MANAGED_CLUSTER
from clusters.models import ManagedCluster
from clusters.taints import maintenance
from clustersets.tasks import keep_sets
from ocmconsole.core.kinds import CLUSTER_ROLE, CONFIG_MAP, NAMESPACE, SECRET
from ocmconsole.demo import reconcilers
from ocmconsole.kubeapi import errors, kinds, verbs
from ocmconsole.kubeapi.access.session import actor_for
from ocmconsole.kubeapi.control import bulk_jobs, controllers
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import BulkJob, Revision
from ocmconsole.kubeapi.writes.store import Write
from placements.kinds import PLACEMENT
from registration.models import CertificateSigningRequest
from tests import factories as make
from tests.fuzz import world

HOLD = ["example.com/hold"]


def fleet() -> None:
    """Something of every kind, and clusters, sets and namespaces in every state that a reconciler looks at."""
    world.build()
    make.serve_since(timedelta(days=1))
    for name in ("new", "fine", "silent", "ill", "denied", "lingering", "leaving", "broken"):
        make.cluster(name, accepted=name != "new", labels={CLUSTERSET_LABEL: "web", "team": "edge"})
    make.namespace("broken", finalizers=HOLD)
    verbs.delete(make.ADMIN, NAMESPACE, Key("", "broken"))
    make.settle()
    for name in ("fine", "silent", "ill", "denied", "lingering", "leaving"):
        make.available(name, "False" if name == "ill" else "True")
        make.renew(name)
        make.addon(name, finalizers=HOLD)
        make.work(name, finalizers=HOLD if name in {"lingering", "leaving"} else [])
    until = timezone.now() + timedelta(hours=1)
    verbs.edit(
        make.ADMIN,
        MANAGED_CLUSTER,
        Key("", "fine"),
        lambda doc: maintenance.begin_maintenance(doc, reason="kernel", until=until, effect="NoSelect"),
    )
    make.sweep()
    make.renew("silent", timezone.now() - timedelta(seconds=301))
    for name in ("denied", "lingering"):
        make.accept(name, accepts=False)
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "leaving"))
    sets()
    owners()
    bulk_acts.start_act(
        actor_for(User.objects.create_superuser("li")), bulk_acts.LABEL, ["fine", "ill"], {"key": "a", "value": "c"}
    )
    keep_sets()
    make.sweep()


def states() -> dict[str, tuple[str, str]]:
    clusters = ManagedCluster.objects.filter(labels__team="edge")
    return {each.name: (each.accepted, each.available) for each in clusters}


def sets() -> None:
    labels = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}
    invalid = {
        "selectorType": "LabelSelector",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]},
    }
    make.clusterset("web", namespaces=("apps", "tools"))
    make.clusterset("labelled", selector=labels)
    make.clusterset("odd", selector=invalid)
    make.namespace("team")
    for name in ("web", "nowhere"):
        make.binding(name, namespace="team")
    specs: dict[str, make.Doc] = {
        "all": {},
        "some": {"numberOfClusters": 2, "sortBy": "Score"},
        "bad": {"numberOfClusters": -1},
    }
    for name, spec in specs.items():
        make.create(PLACEMENT, make.document(PLACEMENT, name, spec=spec), namespace="team")


def owners() -> None:
    """An owner that waits for its dependents, one that is not served, one that is there; an aggregated role."""
    owner = make.create(CONFIG_MAP, make.document(CONFIG_MAP, "owner"), namespace="team")
    here = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    away = {"apiVersion": "example.com/v1", "kind": "Ship", "name": "a", "uid": "a"}
    blocking = {**here, "blockOwnerDeletion": True}
    for name, references in {"one": [blocking], "two": [away], "both": [here, away]}.items():
        doc = make.document(SECRET, name, ownerReferences=references, finalizers=HOLD)
        make.create(SECRET, doc, namespace="team")
    verbs.delete(make.ADMIN, CONFIG_MAP, Key("team", "owner"), options=verbs.Options(propagation="Foreground"))
    role = make.document(CLUSTER_ROLE, "all")
    make.create(CLUSTER_ROLE, role | {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}})


def everything_to_look_at() -> dict[str, set[Key]]:
    """The keys that would be looked at if each object had just come, or had just gone."""
    found: dict[str, set[Key]] = defaultdict(set)
    for kind in kinds.all_kinds():
        for row in kind.model.objects.all():
            came = Write(kind, row.key, None, None, row.doc, make.ADMIN, "create", "", "")
            went = Write(kind, row.key, row, row.doc, None, make.ADMIN, "delete", "", "")
            for name, key in controllers.caused_by([came, went]):
                found[name].add(key)
    # These are asked only where the document shows that something is to be done, which is nowhere now.
    for name in ("acceptance", "clock", "lease_health", "resource_cleanup", "taints"):
        found[name] |= {row.key for row in ManagedCluster.objects.all()}
    for name in ("request_approval", "request_refusal", "request_signing"):
        found[name] = {row.key for row in CertificateSigningRequest.objects.all()}
    found[bulk_jobs.WORKER] = {Key("", str(job.pk)) for job in BulkJob.objects.all()}  # no write asks for it
    found[reconcilers.WORK[0]] = {reconcilers.WORK[1]}  # nor for this one
    return found


@pytest.mark.django_db
@pytest.mark.contract("H4", "H7", "H8", "H13", "H16", "H21", "H22", "H28", "H33", "H40", "H41", "D12")
def test_every_reconciler_writes_nothing_when_it_looks_twice() -> None:
    fleet()
    assert states() == {
        "new": ("", ""),
        "fine": ("True", "True"),
        "silent": ("True", "Unknown"),
        "ill": ("True", "False"),
        "denied": ("False", "True"),
        "lingering": ("False", "True"),
        "leaving": ("True", "True"),
        "broken": ("False", ""),
    }
    keys = everything_to_look_at()
    assert keys.keys() == set(controllers.names())
    settled = Revision.objects.get().value
    wrote = []
    for name, its_keys in keys.items():
        reconciler = controllers.find_reconciler(name)
        assert reconciler is not None
        for key in sorted(its_keys) * 2:
            with suppress(errors.Conflict):  # what cannot be put right yet is tried again later
                reconciler.reconcile(key)
            if Revision.objects.get().value != settled:
                settled = Revision.objects.get().value
                wrote.append((name, key))
    assert wrote == []
    assert make.writes_of(make.settle) == []
