"""Rules of ManagedCluster at the HTTP entry: taint times, shape, and who lets a cluster in (ocm.md 2.1, 2.2)."""

from __future__ import annotations

import re

import pytest
from django.test import override_settings

from clusters.kinds import GROUP, MANAGED_CLUSTER
from ocmconsole.corekinds.kinds import NAMESPACE
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from tests import factories as make
from tests.actors import grant, person, rule
from tests.api import entry
from tests.api.entry import Answer, Doc

pytestmark = pytest.mark.django_db

URL = f"/apis/{GROUP}/v1/managedclusters"
DENIED = f'admission webhook "managedclustervalidators.admission.{GROUP}" denied the request: '
MUTATOR = f'admission webhook "managedclustermutators.admission.{GROUP}" denied the request: '
ACCEPT = f"managedclusters/accept.{GROUP}"
ZERO, OTHER = "0001-01-01T00:00:00Z", "2001-02-03T04:05:06Z"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def taint(key: str = "a", value: str = "v", effect: str = "NoSelect", **more: str | None) -> Doc:
    return {"key": key, "value": value, "effect": effect, **more}


def tainted(*taints: Doc) -> list[Doc]:
    """Write the taints over those of c1, and read them back."""
    answer = put(*taints)
    assert answer.code == 200, answer.body
    found: list[Doc] = answer.doc["spec"]["taints"]
    return found


def put(*taints: Doc) -> Answer:
    return entry.root().patch(f"{URL}/c1", {"spec": {"taints": list(taints)}})


@pytest.fixture
def stored() -> Doc:
    """The only taint of c1, with its time long ago."""
    make.cluster("c1", spec={"taints": [taint()]})
    found: Doc = make.stored("c1").doc["spec"]["taints"][0]
    return found


# ---------------------------------------------------------------- A1


@pytest.mark.contract("A1")
@pytest.mark.parametrize("sent", [{}, {"timeAdded": None}, {"timeAdded": ZERO}, {"timeAdded": OTHER}], ids=str)
def test_a_new_cluster_has_its_taints_stamped_whatever_was_sent(sent: Doc) -> None:
    doc = make.document(MANAGED_CLUSTER, "c1", spec={"taints": [taint(**sent)]})
    [found] = entry.root().post(URL, doc).doc["spec"]["taints"]
    assert TIME.fullmatch(found["timeAdded"])
    assert found["timeAdded"] > OTHER


@pytest.mark.contract("A1")
@pytest.mark.parametrize("sent", [{}, {"timeAdded": None}, {"timeAdded": ZERO}], ids=str)
@pytest.mark.parametrize(
    "changed", [taint("b"), taint(value="w"), taint(effect="PreferNoSelect")], ids=["key", "value", "effect"]
)
def test_a_taint_that_is_new_or_changed_is_stamped(stored: Doc, changed: Doc, sent: Doc) -> None:
    [found] = tainted({**changed, **sent})
    assert TIME.fullmatch(found["timeAdded"])
    assert {name: found[name] for name in changed} == changed


@pytest.mark.contract("A1")
@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"key": "b", "timeAdded": OTHER}, "b"),
        ({"value": "w", "timeAdded": OTHER}, "a"),
        ({"effect": "PreferNoSelect", "timeAdded": OTHER}, "a"),
        ({"timeAdded": OTHER}, "a"),
        ({"timeAdded": None}, "a"),
        ({"timeAdded": ZERO}, "a"),
    ],
    ids=str,
)
def test_nobody_else_says_when_a_taint_was_added(stored: Doc, changed: Doc, key: str) -> None:
    answer = put({**stored, **changed})
    assert answer.said == (400, "BadRequest")
    assert answer.message == f'{MUTATOR}It is not allowed to set TimeAdded of Taint "{key}".'


@pytest.mark.contract("A1")
def test_a_refusal_names_every_taint_in_order(stored: Doc) -> None:
    answer = put(taint("z", timeAdded=OTHER), stored, taint("b", timeAdded=OTHER))
    assert answer.message.endswith('Taint "z,b".')


@pytest.mark.contract("A1", "K3")
def test_taints_of_one_key_keep_a_time_each() -> None:
    both = [taint(), taint(effect="PreferNoSelect")]
    make.cluster("c1", spec={"taints": both})
    present = make.stored("c1").doc["spec"]["taints"]
    assert tainted(*present) == present
    assert tainted(*reversed(present)) == present[::-1]
    assert tainted(present[1]) == present[1:]


# ---------------------------------------------------------------- A3


@pytest.mark.contract("A3", "K1", "A7d")
@pytest.mark.parametrize(
    ("name", "why"),
    [("a" * 64, "must be no more than 63 characters"), ("a.b", "must not contain dots")],
    ids=["long", "dotted"],
)
def test_a_name_that_can_have_no_namespace_is_refused_even_without_client_configs(name: str, why: str) -> None:
    answer = entry.root().post(URL, make.document(MANAGED_CLUSTER, name))
    assert answer.said == (400, "BadRequest")
    assert answer.message == f"{DENIED}metadata.name format is not correct: {why}"


@pytest.mark.contract("A7d")
@pytest.mark.parametrize("name", ["A", "a_b", "a:b", "-a"])
def test_what_is_no_name_at_all_is_invalid_first(name: str) -> None:
    answer = entry.root().post(URL, make.document(MANAGED_CLUSTER, name))
    assert answer.said == (422, "Invalid")
    assert f'metadata.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of' in answer.message


@pytest.mark.contract("A3")
@pytest.mark.parametrize(
    "url", ["", "http://a", "a.example.com", "HTTPS//a", "https://a b", "https://[", "https://a:b"]
)
def test_addresses_of_clusters_are_https(url: str) -> None:
    doc = make.document(MANAGED_CLUSTER, "c1", spec={"managedClusterClientConfigs": [{"url": url}]})
    answer = entry.root().post(URL, doc)
    assert answer.said == (400, "BadRequest")
    assert answer.message == f'{DENIED}url "{url}" is invalid in client configs'


@pytest.mark.contract("A3")
def test_every_problem_is_named_sorted_by_its_text() -> None:
    configs = [{"url": "http://b"}, {"url": "https://fine"}, {"url": "http://a"}, {"url": "https://"}]
    doc = make.document(MANAGED_CLUSTER, "a.b", spec={"managedClusterClientConfigs": configs})
    assert entry.root().post(URL, doc).message.removeprefix(DENIED).split("\n") == [
        "metadata.name format is not correct: must not contain dots",
        'url "http://a" is invalid in client configs',
        'url "http://b" is invalid in client configs',
    ]


# ---------------------------------------------------------------- A4, A5


@pytest.mark.contract("A4a")
def test_a_namespace_that_is_ending_lets_no_cluster_in() -> None:
    make.namespace("c1", finalizers=["example.com/hold"])
    verbs.delete(make.ADMIN, NAMESPACE, Key("", "c1"))
    make.cluster("c1")
    answers = [
        entry.root().patch(f"{URL}/c1", {"spec": {"hubAcceptsClient": True}}),
        entry.root().post(f"{URL}?dryRun=All", make.document(MANAGED_CLUSTER, "c1", spec={"hubAcceptsClient": True})),
    ]
    for answer in answers:
        assert answer.said == (403, "Forbidden")
        assert answer.message == f'{DENIED}{ACCEPT} "c1" is forbidden: cluster namespace "c1" is terminating'


@pytest.fixture
def ana() -> entry.Entry:
    """May write clusters and move them between sets, but let none in."""
    actor = person("ana")
    grant(actor, rule("create update patch", "managedclusters", groups=GROUP))
    grant(actor, rule("create", "managedclustersets/join", groups=GROUP))
    return entry.person("ana")


@pytest.mark.contract("A4b")
def test_letting_in_needs_its_own_right(ana: entry.Entry) -> None:
    make.cluster("c1")
    refused = ana.patch(f"{URL}/c1", {"spec": {"hubAcceptsClient": True}})
    assert refused.said == (403, "Forbidden")
    assert refused.message == f'{DENIED}{ACCEPT} "c1" is forbidden: user "ana" cannot update the HubAcceptsClient field'
    created = ana.post(URL, make.document(MANAGED_CLUSTER, "c2", spec={"hubAcceptsClient": True}))
    assert created.message == refused.message.replace('"c1"', '"c2"')
    register = "register.open-cluster-management.io"
    grant(person("ana"), rule("update", "managedclusters/accept", groups=register, names="c1"))
    assert ana.patch(f"{URL}/c1", {"spec": {"hubAcceptsClient": True}}).code == 200
    assert ana.post(URL, make.document(MANAGED_CLUSTER, "c2", spec={"hubAcceptsClient": True})).code == 403


@pytest.mark.contract("A5", "D3")
@pytest.mark.parametrize(("guarded", "code"), [(True, 403), (False, 200)])
def test_sending_away_needs_the_right_to_let_in_unless_that_is_switched_off(
    ana: entry.Entry, guarded: bool, code: int
) -> None:
    make.cluster("c1", accepted=True)
    with override_settings(OCMCONSOLE_GUARD_DISCONNECT=guarded):
        assert ana.patch(f"{URL}/c1", {"spec": {"hubAcceptsClient": False}}).code == code
    assert make.stored("c1").hub_accepts_client is guarded


@pytest.mark.contract("A7c")
def test_of_several_reasons_the_first_is_told() -> None:
    """Each step takes one reason away."""
    actor, mallory = person("mallory"), entry.person("mallory")
    grant(actor, rule("create", "managedclusters", groups=GROUP))
    spec: Doc = {"hubAcceptsClient": True, "managedClusterClientConfigs": [{"url": "http://a"}]}
    doc = make.document(MANAGED_CLUSTER, "c1", spec=spec)
    assert "is invalid in client configs" in mallory.post(URL, doc).message
    spec["managedClusterClientConfigs"] = []
    assert "cannot update the HubAcceptsClient field" in mallory.post(URL, doc).message
    spec["hubAcceptsClient"] = False
    assert "cannot add/remove a ManagedCluster" in mallory.post(URL, doc).message
    grant(actor, rule("create", "managedclustersets/join", groups=GROUP, names="default"))
    assert mallory.post(URL, doc).code == 201
