"""D20: what the agent of a cluster that was sent away or deleted may still reach: works that are being deleted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models import F
from django.utils import timezone

from clusters.acceptance import cleanup_rights
from clusters.acceptance.agent_roles import work_binding_name
from clusters.acceptance.reconcilers import reconcile_acceptance
from clusters.addons.addon_kinds import MANAGED_CLUSTER_ADDON, MANIFEST_WORK
from clusters.kinds import MANAGED_CLUSTER
from ocmconsole.core.kinds import ROLE_BINDING
from ocmconsole.core.models import RoleBinding
from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import writing
from tests import factories as make
from tests.security.callers import Caller, agent_of
from tests.security.test_credentials import question

if TYPE_CHECKING:
    from tests.factories import Doc

pytestmark = [pytest.mark.usefixtures("fresh_hub"), pytest.mark.contract("D20", "K8")]

WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/edge/manifestworks"
MERGE = "application/merge-patch+json"
HOLD = ["cluster.open-cluster-management.io/manifest-work-cleanup"]


@pytest.fixture
def agent() -> Caller:
    """Of a cluster with one work that lives and one that is being deleted, still accepted."""
    make.cluster("edge", accepted=True)
    make.settle()
    make.work("edge", "alive", finalizers=HOLD)
    make.work("edge", "ending", finalizers=HOLD)
    return agent_of("edge")


def send_away() -> None:
    make.edit(MANAGED_CLUSTER, "edge", lambda doc: doc["spec"].update(hubAcceptsClient=False))
    make.settle()


def end(name: str) -> None:
    verbs.delete(make.ADMIN, MANIFEST_WORK, Key("edge", name))


def remove() -> None:
    """The agent's add-ons hold the works back, so that one of them is not being deleted yet."""
    make.addon("edge", "held", finalizers=["example.com/hold"])
    verbs.delete(make.ADMIN, MANAGED_CLUSTER, Key("", "edge"))
    make.settle()


def names(agent: Caller, **query: str) -> list[str]:
    path = WORKS + "".join(f"?{name}={value}" for name, value in query.items())
    answer = agent.get(path)
    assert answer.code == 200, answer.message
    return [each["metadata"]["name"] for each in answer.doc["items"]]


def patch(agent: Caller, name: str, doc: Doc, subresource: str = "") -> int:
    return agent.send("PATCH", f"{WORKS}/{name}{subresource}", doc, MERGE).code


@pytest.mark.parametrize("leaves", [send_away, remove])
def test_it_sees_works_that_are_being_deleted_and_no_others(agent: Caller, leaves: Any) -> None:
    assert sorted(names(agent)) == ["alive", "ending"]
    leaves()
    end("ending")
    make.work("edge", "new", finalizers=HOLD)
    assert names(agent) == ["ending"]
    assert names(agent, limit="1") == ["ending"]
    answer = agent.get(f"{WORKS}?limit=1").doc["metadata"]
    assert "continue" not in answer
    assert agent.get(f"{WORKS}/ending").code == 200
    for name in ("alive", "new", "nowhere"):
        assert agent.get(f"{WORKS}/{name}").code == 403
    assert agent.get("/apis/work.open-cluster-management.io/v1/manifestworks").code == 403


@pytest.mark.parametrize("leaves", [send_away, remove])
def test_it_takes_its_finalizer_off_and_reports_and_can_do_nothing_else(agent: Caller, leaves: Any) -> None:
    leaves()
    end("ending")
    reported = {"status": {"conditions": [{"type": "Applied", "status": "False", "reason": "x", "message": "",
                                           "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}  # fmt: skip
    assert patch(agent, "ending", reported, "/status") == 200
    assert patch(agent, "ending", {"metadata": {"labels": {"a": "b"}}}) == 403
    assert patch(agent, "ending", {"spec": {"workload": {"manifests": []}}}) == 403
    assert patch(agent, "ending", {"metadata": {"finalizers": [*HOLD, "evil.example.com/stay"]}}) in {403, 422}
    for name in ("alive", "new"):
        assert patch(agent, name, {"metadata": {"finalizers": ["evil.example.com/stay"]}}) == 403
        assert patch(agent, name, reported, "/status") == 403
    made = make.document(MANIFEST_WORK, "mine", spec={})
    assert agent.post(WORKS, made).code == 403
    assert agent.send("DELETE", f"{WORKS}/ending").code == 403
    assert agent.send("DELETE", WORKS).code == 403
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": {}}
    assert agent.post("/api/v1/namespaces/edge/events", event).code == 403
    assert patch(agent, "ending", {"metadata": {"finalizers": []}}) == 200
    assert verbs.find(MANIFEST_WORK, Key("edge", "ending")) is None


def test_a_put_as_older_agents_send_it_takes_the_finalizer_off(agent: Caller) -> None:
    send_away()
    end("ending")
    doc = agent.get(f"{WORKS}/ending").doc
    doc["metadata"].pop("finalizers")
    assert agent.send("PUT", f"{WORKS}/ending", doc).code == 200
    assert verbs.find(MANIFEST_WORK, Key("edge", "ending")) is None


def test_while_nothing_is_being_deleted_a_list_is_refused_so_that_it_takes_no_live_work_for_gone(agent: Caller) -> None:
    send_away()
    assert agent.get(WORKS).code == 403
    end("ending")
    assert names(agent) == ["ending"]
    make.let_go(MANIFEST_WORK, "ending", namespace="edge")
    assert agent.get(WORKS).code == 403


def test_a_watch_from_before_ends_and_a_new_one_sees_the_same_as_a_list(
    agent: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = question(agent, WORKS, monkeypatch)
    assert may_go_on()
    send_away()
    end("ending")
    assert not may_go_on()
    assert question(agent, WORKS, monkeypatch)()


def test_it_ends_after_the_time_that_is_set_and_the_binding_goes(agent: Caller) -> None:
    send_away()
    end("ending")
    key = Key("edge", work_binding_name("edge"))
    assert verbs.find(ROLE_BINDING, key) is not None
    _turn_back(timedelta(minutes=59))
    assert names(agent) == ["ending"]
    _turn_back(timedelta(minutes=2))
    assert agent.get(WORKS).code == 403
    reconcile_acceptance(Key("", "edge"))
    assert verbs.find(ROLE_BINDING, key) is None


def _turn_back(by: timedelta) -> None:
    """As if the rights had been withdrawn earlier."""
    with writing():
        RoleBinding.objects.filter(name=work_binding_name("edge")).update(deleted_at=F("deleted_at") - by)


def test_a_removal_waits_for_works_that_nobody_may_undo_any_more(agent: Caller) -> None:
    remove()
    make.let_go(MANAGED_CLUSTER_ADDON, "held", namespace="edge")
    reconcile_acceptance(Key("", "edge"))
    _turn_back(timedelta(hours=2))
    reconcile_acceptance(Key("", "edge"))
    assert agent.get(WORKS).code == 403
    assert verbs.find(MANAGED_CLUSTER, Key("", "edge")) is not None


def test_the_agent_of_another_cluster_gets_nothing(agent: Caller) -> None:
    send_away()
    end("ending")
    assert agent_of("other").get(WORKS).code == 403
    assert agent_of("other").get(f"{WORKS}/ending").code == 403


def test_let_in_again_it_has_everything_again(agent: Caller) -> None:
    send_away()
    end("ending")
    make.edit(MANAGED_CLUSTER, "edge", lambda doc: doc["spec"].update(hubAcceptsClient=True))
    make.settle()
    assert sorted(names(agent)) == ["alive", "ending"]


def test_unlimited_restores_what_upstream_does(agent: Caller, settings: Any) -> None:
    settings.OCMCONSOLE_CLEANUP_RIGHTS = None
    send_away()
    make.work("edge", "new")
    assert sorted(names(agent)) == ["alive", "ending", "new"]
    assert cleanup_rights.left_at("edge", timezone.now()) is None
    _turn_back(timedelta(days=400))
    reconcile_acceptance(Key("", "edge"))
    assert sorted(names(agent)) == ["alive", "ending", "new"]


def test_nobody_is_shown_a_binding_that_grants_nothing(agent: Caller) -> None:
    assert any(each.binding.place == ("edge", work_binding_name("edge")) for each in rule_index.index.granted())
    send_away()
    assert not any(each.binding.place == ("edge", work_binding_name("edge")) for each in rule_index.index.granted())


def test_the_refusal_says_what_is_permitted(agent: Caller) -> None:
    send_away()
    end("ending")
    refused = agent.send("PATCH", f"{WORKS}/ending", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert "allows changing metadata.finalizers only" in json.dumps(refused.doc)
