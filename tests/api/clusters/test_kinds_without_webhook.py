"""Where upstream has no webhook there is none here: sets are a matter of RBAC and of their schema alone."""

from __future__ import annotations

import pytest

from clusters.kinds import CLUSTERSET_LABEL, GROUP, MANAGED_CLUSTER
from clustersets.kinds import MANAGED_CLUSTER_SET
from ocmconsole.kubeapi import admission
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry
from tests.api.entry import Doc

pytestmark = [pytest.mark.django_db, pytest.mark.contract("A12")]

SETS = f"/apis/{GROUP}/v1beta2/managedclustersets"


def document(name: str, spec: Doc | None = None) -> Doc:
    return make.document(MANAGED_CLUSTER_SET, name, spec=spec or {})


def test_no_rule_stands_between_rbac_and_a_set() -> None:
    resource = MANAGED_CLUSTER_SET.resource
    for rules in (admission._defaulters, admission._validators):
        assert [place for place, found in rules.items() if place[0] == resource and found] == []
    assert not admission._delete_validators[resource]


def test_one_who_may_write_sets_makes_edits_and_deletes_any() -> None:
    """Neither join nor bind is asked, also where clusters are in the set and bindings name it."""
    grant(person("raj"), rule("create update patch delete", "managedclustersets", groups=GROUP))
    raj = entry.person("raj")
    make.cluster("c1", labels={CLUSTERSET_LABEL: "web"})
    make.namespace("apps")
    make.binding("web", namespace="apps")
    assert raj.post(SETS, document("web")).code == 201
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}
    assert raj.patch(f"{SETS}/web", {"spec": {"clusterSelector": selector}}).code == 200
    assert raj.delete(f"{SETS}/web").code == 200


def test_what_is_refused_is_refused_by_rbac_or_schema_in_their_own_words() -> None:
    forbidden = entry.person("mallory").post(SETS, document("web"))
    assert forbidden.code == 403
    assert 'User "mallory" cannot create resource "managedclustersets"' in forbidden.message
    invalid = entry.root().post(SETS, document("web", {"clusterSelector": {"selectorType": "Odd"}}))
    assert invalid.code == 422
    assert "admission webhook" not in forbidden.message + invalid.message


def test_the_words_of_a_webhook_are_for_kinds_that_have_one() -> None:
    doc = make.document(MANAGED_CLUSTER, "c1", spec={"managedClusterClientConfigs": [{"url": "http://c1"}]})
    assert "admission webhook" in entry.root().post(f"/apis/{GROUP}/v1/managedclusters", doc).message
