"""The gate ManagedClusterAutoApproval: what is let in without a person, and what never is (H9, H37, K9; D9, D10, D18)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterFacts
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from registration import reconcilers
from registration.admission.decisions import AUTO_ACCEPTED
from registration.approvals import services
from registration.models import AcceptedKey
from registration.pki import ca
from tests import factories as make
from tests import requests
from tests.actors import grant, rule

pytestmark = pytest.mark.django_db

LISTED = replace(requests.BOOTSTRAP, credential="bootstrap:abcdef")
OTHER = replace(requests.BOOTSTRAP, user="system:bootstrap:zzzzzz", credential="bootstrap:zzzzzz")


@pytest.fixture(autouse=True)
def gate(tmp_path: Path, settings: Any) -> Any:
    settings.OCMCONSOLE_AUTO_APPROVED_USERS = [LISTED.user]
    settings.OCMCONSOLE_FEATURE_GATES = {**settings.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": True}
    make.hub(tmp_path, settings)
    return settings


def ask(request: str = "c1-a", cluster: str = "c1", *, by: Actor = LISTED, pem: bytes = b"", **spec: Any) -> str:
    requests.ask(request, pem or requests.agent_pem(cluster), cluster=cluster, by=by, **spec)
    make.settle()
    return requests.state(request)


def annotation(name: str = "c1") -> str:
    found: str = (make.stored(name).doc["metadata"].get("annotations") or {}).get(AUTO_ACCEPTED, "")
    return found


def accepted(name: str = "c1") -> bool:
    return bool(make.stored(name).hub_accepts_client)


# ---------------------------------------------------------------- let in


@pytest.mark.contract("H9", "H37", "K9", "S4")
def test_what_a_listed_user_asks_for_is_accepted_and_certified() -> None:
    make.cluster("c1", by=LISTED)
    make.settle()
    assert accepted()
    assert annotation().endswith("Z")
    assert ask() == "Issued"
    facts = ClusterFacts.objects.get(cluster="c1")
    assert (facts.decision, facts.decided_by) == ("accepted", "system:ocmconsole:registration")
    assert AcceptedKey.objects.get().accepted_by == "system:ocmconsole:registration"


@pytest.mark.contract("H9", "K9")
def test_a_request_of_a_listed_user_lets_in_a_cluster_that_somebody_else_made() -> None:
    make.cluster("c1", by=OTHER)
    make.settle()
    assert not accepted()
    assert ask() == "Issued"
    assert accepted()


@pytest.mark.contract("H9", "H37", "K9", "D13")
def test_nobody_else_is_let_in() -> None:
    make.cluster("c1", by=OTHER)
    assert ask(by=OTHER) == "Pending"
    assert not accepted()
    assert annotation() == ""


@pytest.mark.contract("H9", "H37")
def test_without_the_gate_nobody_is(gate: Any) -> None:
    gate.OCMCONSOLE_FEATURE_GATES = {**gate.OCMCONSOLE_FEATURE_GATES, "ManagedClusterAutoApproval": False}
    make.cluster("c1", by=LISTED)
    assert ask() == "Pending"
    assert not accepted()


@pytest.mark.contract("H9")
def test_a_cluster_that_is_accepted_already_has_had_its_turn() -> None:
    make.cluster("c1", by=LISTED)
    make.settle()
    first = annotation()
    assert first
    assert make.writes_of(reconcilers.reconcile_auto_acceptance, Key("", "c1")) == []
    assert annotation() == first


# ---------------------------------------------------------------- one turn


@pytest.mark.contract("H9")
def test_who_is_sent_away_stays_away() -> None:
    make.cluster("c1", by=LISTED)
    make.settle()
    make.accept("c1", accepts=False)
    make.settle()
    make.label("c1", env="prod")
    assert ask() == "Pending"
    assert not accepted()


@pytest.mark.contract("H9", "D10")
@pytest.mark.parametrize("drops_annotation", [False, True])
def test_nor_is_it_let_in_again_when_the_note_is_gone(drops_annotation: bool) -> None:
    make.cluster("c1", by=LISTED)
    make.settle()
    make.accept("c1", accepts=False)
    if drops_annotation:
        make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"].pop("annotations"))
    else:
        for _ in range(3):
            make.settle()
        verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
        for _ in range(3):
            make.settle()
        make.cluster("c1", by=LISTED)
    make.settle()
    assert not accepted()


@pytest.mark.contract("H9", "D9", "A4b")
@pytest.mark.parametrize("change", ["set", "remove", "create"])
def test_an_agent_writes_no_note_of_its_own(change: str, gate: Any) -> None:
    agent = requests.agent("c9")
    grant(
        agent, rule("create update patch get", "managedclusters managedclustersets/join", groups=MANAGED_CLUSTER.group)
    )
    make.cluster("c1", annotations={AUTO_ACCEPTED: "2026-11-21T00:00:00Z"} if change == "remove" else {})

    def attempt() -> None:
        note = {} if change == "remove" else {AUTO_ACCEPTED: "x"}
        if change == "create":
            make.cluster("c2", annotations=note, by=agent)
        else:
            make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"].update(annotations=note), by=agent)

    with pytest.raises(errors.Forbidden, match=f"cannot change the annotation {AUTO_ACCEPTED}"):
        attempt()


# ---------------------------------------------------------------- never


@pytest.mark.contract("D9", "H37", "H9")
def test_a_known_name_is_not_given_to_another_key() -> None:
    make.cluster("c1", by=LISTED)
    assert ask() == "Issued"
    assert ask("c1-b") == "Pending"
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "c1"))
    for _ in range(3):
        make.settle()
    make.cluster("c1", by=LISTED)
    make.settle()
    assert not accepted()
    assert ask("c1-c") == "Pending"
    assert not accepted()


@pytest.mark.contract("D9", "H37")
def test_not_even_with_a_persons_word_by_annotation_a_person_approves_himself() -> None:
    make.cluster("c1", by=LISTED)
    assert ask() == "Issued"
    pem = requests.agent_pem("c1")
    key = ca.parse_request(pem).key_fingerprint
    note = {"registration.ocmconsole.io/accept-key": key}
    make.edit(MANAGED_CLUSTER, "c1", lambda doc: doc["metadata"]["annotations"].update(note))
    assert ask("c1-b", pem=pem) == "Pending"


@pytest.mark.contract("D9", "H37")
def test_a_known_key_of_a_known_name_is() -> None:
    make.cluster("c1", by=LISTED)
    pem = requests.agent_pem("c1")
    assert ask(pem=pem) == "Issued"
    assert ask("c1-b", pem=pem) == "Issued"
    assert AcceptedKey.objects.count() == 1


@pytest.mark.contract("D9", "H37", "H9")
def test_a_name_that_is_known_by_an_old_certificate_only_is_not_given() -> None:
    ClusterFacts.objects.create(cluster="c1", certificate_fingerprint="00")
    make.cluster("c1", by=LISTED)
    assert ask() == "Pending"
    assert not accepted()


@pytest.mark.contract("D10", "H37", "H9")
def test_a_declined_name_is_not_given_to_another_listed_credential(gate: Any) -> None:
    gate.OCMCONSOLE_AUTO_APPROVED_USERS = []
    make.cluster("c1", by=LISTED)
    ask()
    services.decline_cluster(make.ADMIN, "c1", reason="No.")
    gate.OCMCONSOLE_AUTO_APPROVED_USERS = [OTHER.user]
    assert ask("c1-b", by=OTHER) == "Pending"
    assert not accepted()


@pytest.mark.contract("D18", "H9", "H37")
@pytest.mark.parametrize("name", ["default", "kube-system", "open-cluster-management-hub", "kube-anything"])
def test_a_guarded_name_is_not_given(name: str) -> None:
    make.cluster(name, by=LISTED)
    assert ask(cluster=name) == "Pending"
    assert not accepted(name)


@pytest.mark.contract("D18", "H9", "H37")
def test_the_name_of_somebodys_namespace_is_not_given() -> None:
    make.namespace("c1")
    make.cluster("c1", by=LISTED)
    assert ask() == "Pending"
    assert not accepted()


@pytest.mark.contract("D18", "H9")
def test_the_name_of_a_namespace_with_a_binding_is_not_given() -> None:
    make.namespace("c1", labels={"open-cluster-management.io/cluster-name": "c1"})
    make.clusterset("s1")
    make.binding("s1", namespace="c1")
    make.cluster("c1", by=LISTED)
    make.settle()
    assert not accepted()


@pytest.mark.contract("K12", "H35", "H37")
@pytest.mark.parametrize("what", ["server auth", "alternative names", "units", "weak", "repeated"])
def test_an_unusual_request_waits_for_a_person(what: str) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    group = "system:open-cluster-management:c1"
    plain = (f"{group}:agent", [group])
    pem = {
        "server auth": lambda: requests.pem(*plain),
        "alternative names": lambda: requests.pem(*plain, dns=["hub.example.com"]),
        "units": lambda: requests.pem(*plain, units=["ops"]),
        "weak": lambda: requests.pem(*plain, key=ec.generate_private_key(ec.SECP256K1())),
        "repeated": lambda: requests.pem(plain[0], [group, group]),
    }[what]()
    make.cluster("c1", by=OTHER)
    usages = [*requests.USAGES, "server auth"] if what == "server auth" else requests.USAGES
    assert ask(pem=pem, usages=usages) == "Pending"
    assert not accepted()
