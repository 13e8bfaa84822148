"""Why somebody may or may not: the answer is the chain's, the sources are those that gave it, the rest is what lacks."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clusters.models import ClusterPermission, ManagedCluster
from ocmconsole.access import explain, who_can
from ocmconsole.access.who_can import GrantSource
from ocmconsole.accounts import permissions
from ocmconsole.accounts.permissions import PeoplePermission
from ocmconsole.core import kinds
from ocmconsole.core.models import TokenPermission
from ocmconsole.core.rbac import known_rights
from ocmconsole.core.rbac.rule_index import Subject
from ocmconsole.kubeapi import errors, verbs, virtual_resources
from ocmconsole.kubeapi.access import session
from ocmconsole.kubeapi.access.actor import Actor
from tests import factories as make
from tests.actors import ROOT, grant, namespace, person, rule

pytestmark = pytest.mark.django_db
GROUP = "cluster.open-cluster-management.io"
REGISTER = "register.open-cluster-management.io"
CLUSTERS = f"managedclusters.{GROUP}"
ACCEPTING = f"managedclusters/accept.{REGISTER}"


def reviewed(actor: Actor, asked: known_rights.Question) -> bool:
    """What a SubjectAccessReview says to any of the spellings."""
    endpoint = virtual_resources.find_endpoint("authorization.k8s.io", "v1", "subjectaccessreviews", "")
    assert endpoint is not None
    answers = []
    for each in asked.asked:
        about = {
            "verb": each.verb,
            "group": each.group,
            "resource": each.resource,
            "subresource": each.subresource,
            "namespace": each.namespace,
            "name": each.name,
        }
        spec = {"user": actor.user, "groups": list(actor.groups), "resourceAttributes": about}
        answers.append(endpoint.answer(ROOT, "", "", {"spec": spec})["status"]["allowed"])
    return any(answers)


# ---------------------------------------------------------------- one answer


words = st.sampled_from
rules = st.builds(
    lambda verb, resource, group, names: {
        "verbs": verb,
        "resources": [resource],
        "apiGroups": [group],
        **({"resourceNames": names} if names else {}),
    },
    words([["get"], ["update", "get"], ["create"], ["*"]]),
    words(["managedclusters", "managedclusters/accept", "*/accept", "managedclustersets/join", "secrets", "*"]),
    words([GROUP, REGISTER, "", "*"]),
    words([[], ["eu-1"], ["eu-2", "eu-*"]]),
)
questions = st.tuples(
    words(["get", "update", "create", "accept", "see", "change"]),
    words([CLUSTERS, ACCEPTING, f"managedclusters.{GROUP}/accept", f"managedclustersets.{GROUP}", "secrets"]),
    words(["", "eu-1", "eu-2"]),
    words(["", "team"]),
)
permitted = st.lists(
    st.tuples(
        words(["clusters.accept_managedcluster", "clusters.view_managedcluster", "clusters.change_managedcluster"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=2,
)


numbers = itertools.count(1)


@pytest.fixture
def world(db: None) -> None:
    """One for all examples: each is about a person of its own."""
    namespace("team")
    make.cluster("eu-1")


@pytest.mark.contract("W22", "D2")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(
    given_rules=[({"verbs": ["create"], "resources": ["managedclusters/accept"], "apiGroups": [GROUP]}, False)],
    held=[],
    asked=("update", ACCEPTING, "", ""),
)
@example(
    given_rules=[], held=[("clusters.accept_managedcluster", False, True)], asked=("update", ACCEPTING, "eu-1", "")
)
@given(given_rules=st.lists(st.tuples(rules, st.booleans()), max_size=3), held=permitted, asked=questions)
def test_the_answer_is_that_of_a_review_whatever_somebody_holds(
    world: None, given_rules: Any, held: Any, asked: Any
) -> None:
    number = next(numbers)
    someone, team = User.objects.create_user(f"someone-{number}"), Group.objects.create(name=f"team-{number}")
    someone.groups.add(team)
    for each, is_inside in given_rules:
        grant(person(someone.username), each, namespace="team" if is_inside else "")
    for label, to_group, on_object in held:
        obj = ManagedCluster.objects.get(name="eu-1") if on_object else None
        permissions.grant_permission(ROOT, label, to=team if to_group else someone, obj=obj)
    verb, resource, name, inside = asked
    actor, question = session.actor_for(someone), known_rights.question(verb, resource, name=name, namespace=inside)
    told = explain.explain(actor, question)
    assert told.allowed == reviewed(actor, question)
    assert bool(told.sources) == told.allowed
    assert all(source.given_by is not GrantSource.RULE for source in told.sources)
    assert all(near.lacks for near in told.near)
    assert not (told.allowed and told.near)


@pytest.mark.contract("D2")
def test_a_review_knows_the_permission_that_a_question_spells() -> None:
    make.cluster("eu-1")
    ana = User.objects.create_user("ana")
    permissions.grant_permission(ROOT, ClusterPermission.ACCEPT, to=ana, obj=ManagedCluster.objects.get(name="eu-1"))
    for resource in (ACCEPTING, f"managedclusters/accept.{GROUP}"):
        verb = "update" if resource == ACCEPTING else "create"
        asked = {name: known_rights.question(verb, resource, name=name) for name in ("eu-1", "eu-2", "")}
        assert {name: reviewed(person("ana"), each) for name, each in asked.items()} == {
            "eu-1": True,
            "eu-2": False,
            "": False,
        }


# ---------------------------------------------------------------- yes, and why


def why(user: str, verb: str, resource: str, **about: str) -> explain.Explanation:
    return explain.explain(person(user), known_rights.question(verb, resource, **about))


@pytest.mark.contract("D2")
def test_a_yes_names_everything_that_gives_it_and_who_gave_it() -> None:
    make.cluster("eu-1")
    ana, team = User.objects.create_user("ana"), Group.objects.create(name="web-ops")
    ana.groups.add(team)
    permissions.grant_permission(ROOT, ClusterPermission.ACCEPT, to=team)
    bound = grant(person("ana"), rule("update", "managedclusters/accept", groups=REGISTER, names="eu-1"))
    told = why("ana", "accept", CLUSTERS, name="eu-1")
    assert {(source.subject, source.text) for source in told.sources} == {
        (Subject("User", "ana"), f"ClusterRoleBinding {bound} of ClusterRole {bound}"),
        (Subject("Group", "web-ops"), "Django permission clusters.accept_managedcluster on all objects"),
    }
    assert {source.by for source in told.sources} == {"root"}
    assert all(source.at for source in told.sources)


@pytest.mark.contract("D15")
def test_a_rule_of_the_hubs_own_is_explained_in_its_words() -> None:
    from tests.entry_points import scene

    waiting = scene.ask("site-one")
    ana = User.objects.create_user("ana")
    permissions.grant_permission(
        ROOT, ClusterPermission.ACCEPT, to=ana, obj=ManagedCluster.objects.get(name="site-one")
    )
    told = why("ana", "update", "certificatesigningrequests/approval.certificates.k8s.io", name=waiting.request)
    assert [source.text for source in told.sources] == [
        "may accept cluster site-one: clusters.accept_managedcluster granted to ana"
    ]


# ---------------------------------------------------------------- no, and what lacks


@pytest.mark.parametrize(
    ("held", "lacks"),
    [
        (
            rule("update", "managedclusters/accept", groups=REGISTER, names="eu-2"),
            ("name differs: it is limited to eu-2, and eu-1 was asked",),
        ),
        (
            rule("update", "managedclusters/accept", groups=REGISTER, names="eu-*"),
            (
                "name differs: it is limited to eu-*, and eu-1 was asked",
                "eu-* is taken as a name: RBAC knows no patterns in resourceNames",
            ),
        ),
        (
            rule("get list", "managedclusters/accept", groups=REGISTER),
            ("verb lacks: it has get, list, and update was asked",),
        ),
        (
            rule("update", "managedclusters", groups=REGISTER),
            ("subresource differs: it covers managedclusters, and managedclusters/accept was asked",),
        ),
        (
            rule("update", "managedclustersets", groups=REGISTER),
            ("resource differs: it covers managedclustersets, and managedclusters/accept was asked",),
        ),
    ],
)
def test_a_no_says_what_the_nearest_rule_lacks(held: Any, lacks: tuple[str, ...]) -> None:
    grant(person("ana"), held)
    told = why("ana", "update", ACCEPTING, name="eu-1")
    assert not told.allowed
    assert [near.lacks for near in told.near] == [lacks]


def test_a_no_names_the_namespace_in_which_it_would_be_a_yes() -> None:
    namespace("team")
    grant(person("ana"), rule("get", "secrets"), namespace="team")
    assert [near.lacks for near in why("ana", "get", "secrets", namespace="other").near] == [
        ("namespace differs: it counts in team, and namespace other was asked",)
    ]


def test_a_no_names_the_permission_on_another_object_and_the_binding_to_no_role() -> None:
    for name in ("eu-1", "eu-2"):
        make.cluster(name)
    ana = User.objects.create_user("ana")
    permissions.grant_permission(ROOT, ClusterPermission.ACCEPT, to=ana, obj=ManagedCluster.objects.get(name="eu-2"))
    doc = {
        "metadata": {"name": "lost"},
        "roleRef": {"kind": "ClusterRole", "name": "gone"},
        "subjects": [{"kind": "User", "name": "ana"}],
    }
    verbs.create(ROOT, kinds.CLUSTER_ROLE_BINDING, doc)
    assert [(near.source, near.lacks) for near in why("ana", "accept", CLUSTERS, name="eu-1").near] == [
        (
            "Django permission clusters.accept_managedcluster on eu-2, to user ana",
            ("name differs: it is held on eu-2, and eu-1 was asked",),
        ),
        (
            "ClusterRoleBinding lost of ClusterRole gone, to user ana",
            ("the ClusterRole gone does not exist or has no rules",),
        ),
    ]


def test_those_who_can_give_it_hold_it_themselves() -> None:
    User.objects.create_superuser("boss")
    for name in ("lead", "clerk"):
        permissions.grant_permission(ROOT, PeoplePermission.CHANGE_PERMISSION, to=User.objects.create_user(name))
    permissions.grant_permission(ROOT, TokenPermission.ADD, to=User.objects.get(username="lead"))
    assert explain.granters(known_rights.question("mint", "bootstraptokens.ocmconsole.io")) == ["boss", "lead"]


@pytest.mark.parametrize(
    ("verb", "resource"), [("", "secrets"), ("get;", "secrets"), ("get", ""), ("get", "a b"), ("get", "x" * 300)]
)
def test_what_nobody_can_understand_is_no_question(verb: str, resource: str) -> None:
    with pytest.raises(errors.BadRequest):
        known_rights.question(verb, resource)


@pytest.mark.parametrize("text", [f"managedclusters.{REGISTER}/accept", f"managedclusters/accept.{REGISTER}"])
def test_a_subresource_stands_before_or_after_the_group(text: str) -> None:
    asked = known_rights.question("update", text, name="eu-1")
    assert (asked.plural, asked.group, asked.subresource) == ("managedclusters", REGISTER, "accept")
    assert asked.sentence == "accept cluster eu-1"


def test_a_plural_that_only_one_group_has_needs_none() -> None:
    assert known_rights.question("see", "managedclusters").group == GROUP


# ---------------------------------------------------------------- who


@pytest.mark.contract("D2", "D16")
def test_who_can_finds_people_and_groups_by_every_way(django_assert_max_num_queries: Any) -> None:
    make.clusterset("web")
    make.cluster("eu-1", labels={f"{GROUP}/clusterset": "web"})
    people = {name: User.objects.create_user(name) for name in ("ana", "raj", "li", "mallory")}
    team = Group.objects.create(name="web-ops")
    row = ManagedCluster.objects.get(name="eu-1")
    permissions.grant_permission(ROOT, ClusterPermission.ACCEPT, to=people["ana"], obj=row)
    permissions.grant_permission(ROOT, "clusters.view_managedcluster", to=team)
    web = known_rights.object_of(GROUP, "managedclustersets", "web")
    permissions.grant_permission(ROOT, "clustersets.view_managedclusterset", to=people["raj"], obj=web)
    grant(person("li"), rule("get", "managedclusters", groups=GROUP, names="eu-1"))
    User.objects.create_superuser("boss")

    def names(word: str) -> list[str]:
        return [source.subject.name for source in who_can.who_can(word, CLUSTERS, "eu-1")]

    with django_assert_max_num_queries(25):
        assert set(names("see")) == {"ana", "boss", "li", "raj", "web-ops"}
    assert set(names("accept")) == {"ana", "boss"}
    assert [source.reach for source in who_can.who_can("see", CLUSTERS, "eu-1") if source.reach] == [
        "as a member of set web"
    ]


def test_what_is_lost_is_what_nothing_else_gives() -> None:
    make.cluster("eu-1")
    ana = User.objects.create_user("ana")
    permissions.grant_permission(ROOT, ClusterPermission.ACCEPT, to=ana, obj=ManagedCluster.objects.get(name="eu-1"))
    permissions.grant_permission(ROOT, "clusters.view_managedcluster", to=ana)
    held = who_can.held_by([Subject("User", "ana")])[Subject("User", "ana")]
    everywhere, one = sorted(held, key=lambda source: source.names)
    assert who_can.lost([one], [everywhere]) == ["accept cluster eu-1"]
    assert who_can.lost([everywhere], [one]) == ["see all clusters"]


def test_what_a_person_holds_is_shown_in_sentences() -> None:
    for name in ("eu-1", "eu-2"):
        make.cluster(name)
    make.clusterset("web")
    ana = User.objects.create_user("ana")
    for name in ("eu-1", "eu-2"):
        permissions.grant_permission(ROOT, ClusterPermission.ACCEPT, to=ana, obj=ManagedCluster.objects.get(name=name))
    grant(person("ana"), rule("create", "managedclustersets/join", groups=GROUP, names="web"))
    grant(person("ana"), rule("get list", "secrets"))
    told = who_can.sentences(who_can.held_by([Subject("User", "ana")])[Subject("User", "ana")])
    assert told == [
        "accept clusters eu-1 and eu-2",
        "add clusters to set web",
        "see clusters eu-1 and eu-2",
        "get, list secrets",
    ]
