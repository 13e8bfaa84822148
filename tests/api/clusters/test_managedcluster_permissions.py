"""Django's permissions on clusters as rights of the API: what they open, and what they leave closed (D2).

Who may let in and move clusters is in the table of admission (``tests/entry_points/admission``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.contrib.auth.models import User
from guardian.shortcuts import assign_perm

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from clustersets.models import ManagedClusterSet
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import AUTHENTICATED, Actor
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry

pytestmark = pytest.mark.django_db

Doc = dict[str, Any]


def user(name: str) -> Actor:
    User.objects.create_user(name)
    return Actor(user=name, groups=(AUTHENTICATED,))


@pytest.mark.contract("D2")
def test_the_permission_on_one_cluster_lets_in_that_one_and_no_other() -> None:
    make.cluster("c1")
    make.cluster("c2")
    ana = user("ana")
    assign_perm("accept_managedcluster", User.objects.get(username="ana"), make.stored("c1"))
    make.accept("c1", by=ana)
    make.accept("c1", by=ana, accepts=False)
    assert verbs.get(ana, MANAGED_CLUSTER, Key("", "c1"))
    with pytest.raises(errors.Forbidden):
        make.accept("c2", by=ana)
    with pytest.raises(errors.Forbidden):
        verbs.get(ana, MANAGED_CLUSTER, Key("", "c2"))


@pytest.mark.contract("D2", "D9")
@pytest.mark.parametrize("present", [None, {}, {"other": "x"}], ids=["absent", "empty", "another"])
def test_the_permission_to_let_in_changes_nothing_else(present: dict[str, str] | None) -> None:
    metadata: Doc = {} if present is None else {"annotations": present}
    make.cluster("c1", **metadata)
    ana = user("ana")
    assign_perm("accept_managedcluster", User.objects.get(username="ana"), make.stored("c1"))

    def annotate(key: str) -> None:
        annotation = {key: f"SHA256:{'0a' * 32}"}
        make.edit(
            MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"].setdefault("annotations", {}).update(annotation), by=ana
        )

    annotate("registration.ocmconsole.io/accept-key")
    with pytest.raises(errors.Forbidden, match="allows changing"):
        annotate("registration.ocmconsole.io/other")
    with pytest.raises(errors.Forbidden):
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc.update(status={}), by=ana, subresource="status")
    with pytest.raises(errors.Forbidden):
        verbs.delete(ana, MANAGED_CLUSTER, Key("", "c1"))


@pytest.mark.contract("D2", "A6")
def test_the_permission_to_move_clusters_of_a_set_changes_their_set_and_nothing_else() -> None:
    for name in ("a", "b", "c"):
        make.clusterset(name)
    make.cluster("c1", labels={CLUSTERSET_LABEL: "a"})
    ana = user("ana")
    for codename, name in (("move", "a"), ("join", "a"), ("join", "b")):
        owned = ManagedClusterSet.objects.get(name=name)
        assign_perm(f"{codename}_managedclusterset", User.objects.get(username="ana"), owned)

    def label(key: str, value: str) -> None:
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"]["labels"].update({key: value}), by=ana)

    for key, value in (("env", "prod"), (CLUSTERSET_LABEL, "c")):
        with pytest.raises(errors.Forbidden):
            label(key, value)
    label(CLUSTERSET_LABEL, "b")
    assert make.stored("c1").labels == {CLUSTERSET_LABEL: "b"}
    with pytest.raises(errors.Forbidden):  # it is in a set now whose clusters she may not move
        label(CLUSTERSET_LABEL, "a")


@pytest.mark.contract("D2")
@pytest.mark.parametrize(
    ("codename", "allowed"),
    [
        ("view_managedcluster", {"get"}),
        ("change_managedcluster", {"get", "patch"}),
        ("delete_managedcluster", {"get", "delete"}),
    ],
)
def test_permissions_of_django_are_verbs(codename: str, allowed: set[str]) -> None:
    make.cluster("c1")
    ana = user("ana")
    assign_perm(codename, User.objects.get(username="ana"), make.stored("c1"))
    acts: dict[str, Callable[[], object]] = {
        "get": lambda: verbs.get(ana, MANAGED_CLUSTER, Key("", "c1")),
        "patch": lambda: make.label("c1", {"team": "edge"}, by=ana),
        "delete": lambda: verbs.delete(ana, MANAGED_CLUSTER, Key("", "c1")),
    }
    done = set()
    for verb, act in acts.items():
        with suppress(errors.Forbidden):
            act()
            done.add(verb)
    assert done == allowed


@pytest.mark.contract("D2")
def test_a_cluster_that_is_made_again_inherits_no_permission() -> None:
    make.cluster("c1")
    ana = user("ana")
    assign_perm("accept_managedcluster", User.objects.get(username="ana"), make.stored("c1"))
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    make.cluster("c1")
    with pytest.raises(errors.Forbidden):
        make.accept("c1", by=ana)


@pytest.mark.contract("W21")
def test_a_superuser_counts_only_by_the_group_that_the_credential_carries() -> None:
    make.cluster("c1")
    User.objects.create_superuser("boss")
    with pytest.raises(errors.Forbidden):
        make.accept("c1", by=Actor(user="boss", groups=(AUTHENTICATED,)))


@pytest.mark.contract("A6", "W16")
def test_the_status_endpoint_moves_nobody() -> None:
    grant(person("raj"), rule("patch", "managedclusters/status", groups=GROUP))
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    body = {"metadata": {"labels": {CLUSTERSET_LABEL: "data"}}, "status": {"version": {"kubernetes": "v1.31.0"}}}
    answer = entry.person("raj").patch(f"/apis/{GROUP}/v1/managedclusters/c1/status", body)
    assert answer.code == 200
    assert make.stored("c1").clusterset == "web"
