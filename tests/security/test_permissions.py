"""Rights of people are given and taken by one service: nobody gives more than they hold, everything is in the audit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import Group, Permission, User
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from clusters import queries
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ManagedCluster, ManagedClusterUserPermission
from clustersets.models import ManagedClusterSet
from ocmconsole.accounts import people, permissions
from ocmconsole.accounts.permissions import PeoplePermission
from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.core.models import ConfigMap
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access import authorization, session
from ocmconsole.kubeapi.access.actor import Actor, EntryPoint
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from tests import factories as make
from tests.actors import ROOT, grant, rule
from tests.security.callers import CLUSTERS, holder
from tests.security.test_credentials import question

pytestmark = pytest.mark.django_db

ACCEPT, VIEW, CHANGE = (f"clusters.{act}_managedcluster" for act in ("accept", "view", "change"))
JOIN, BIND = "clustersets.join_managedclusterset", "clustersets.bind_managedclusterset"
GROUP = "cluster.open-cluster-management.io"


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana")


@pytest.fixture
def c1() -> ManagedCluster:
    make.cluster("c1")
    return make.stored("c1")


def actor(user: User) -> Actor:
    return session.actor_for(user, entry_point=EntryPoint.ADMIN, credential=f"session:{user.pk}")


def told(**narrowed: Any) -> list[str]:
    """Who did what to whom on what, oldest first."""
    found = AuditEvent.objects.filter(act__regex="^(permission|user|group):", **narrowed).order_by("pk")
    return [f"{each.user} {each.outcome} {each.act} {each.resource} {each.name} {each.diff}" for each in found]


def delegate(*labels: str, obj: Any = None) -> Actor:
    """Somebody, raj, who may change permissions and holds these."""
    raj, _ = User.objects.get_or_create(username="raj")
    permissions.grant_permission(ROOT, PeoplePermission.CHANGE_PERMISSION, to=raj)
    for label in labels:
        permissions.grant_permission(ROOT, label, to=raj, obj=obj)
    AuditEvent.objects.all().cut()
    return actor(raj)


# ---------------------------------------------------------------- what is written


@pytest.mark.contract("D2", "A4b")
def test_a_grant_on_one_object_is_the_right_there_and_an_audit_entry(ana: User, c1: ManagedCluster) -> None:
    make.cluster("c2")
    assert permissions.grant_permission(ROOT, ACCEPT, to=ana, obj=c1)
    assert authorization.permitted(actor(ana), ACCEPT, obj=c1).allowed
    assert not authorization.permitted(actor(ana), ACCEPT, obj=make.stored("c2")).allowed
    make.accept("c1", by=actor(ana))
    [entry] = AuditEvent.objects.filter(act="permission:grant")
    assert (entry.user, entry.outcome, entry.verb) == ("root", "allowed", "grant")
    assert (entry.resource, entry.name, entry.uid) == (MANAGED_CLUSTER.resource, "c1", c1.uid)
    assert entry.diff == [{"path": ACCEPT, "new": 'user "ana"'}]
    assert entry.reason == "member of system:masters"


@pytest.mark.contract("D2")
def test_a_revocation_is_seen_by_the_next_request_and_audited(ana: User, c1: ManagedCluster) -> None:
    permissions.grant_permission(ROOT, ACCEPT, to=ana, obj=c1)
    caller = holder("ana")
    assert caller.get(f"{CLUSTERS}/c1").code == 200
    assert permissions.revoke_permission(ROOT, ACCEPT, to=ana, obj=c1)
    assert caller.get(f"{CLUSTERS}/c1").code == 403
    [entry] = AuditEvent.objects.filter(act="permission:revoke")
    assert entry.diff == [{"path": ACCEPT, "old": 'user "ana"'}]


@pytest.mark.contract("D2")
@pytest.mark.parametrize("to_group", [False, True], ids=["person", "group"])
@pytest.mark.parametrize("on_one", [False, True], ids=["all", "one"])
def test_what_is_granted_twice_or_was_never_granted_leaves_no_entry(
    ana: User, c1: ManagedCluster, to_group: bool, on_one: bool
) -> None:
    group = Group.objects.create(name="approvers")
    ana.groups.add(group)
    to: Any = group if to_group else ana
    obj = c1 if on_one else None
    assert not permissions.revoke_permission(ROOT, VIEW, to=to, obj=obj)
    assert permissions.grant_permission(ROOT, VIEW, to=to, obj=obj)
    assert not permissions.grant_permission(ROOT, VIEW, to=to, obj=obj)
    assert list(queries.clusters_for(actor(ana))) == [c1]
    assert permissions.revoke_permission(ROOT, VIEW, to=to, obj=obj)
    assert list(queries.clusters_for(actor(ana))) == []
    assert AuditEvent.objects.filter(act__startswith="permission:").count() == 2


def test_a_right_on_all_objects_is_found_with_its_holder(ana: User) -> None:
    group = Group.objects.create(name="approvers")
    permissions.grant_permission(ROOT, JOIN, to=ana)
    permissions.grant_permission(ROOT, JOIN, to=group)
    assert [(each.resource, each.name, each.diff) for each in AuditEvent.objects.order_by("pk")] == [
        ("users", "ana", [{"path": JOIN, "new": 'user "ana"'}]),
        ("groups", "approvers", [{"path": JOIN, "new": 'group "approvers"'}]),
    ]


@pytest.mark.contract("D2")
def test_a_name_that_is_made_again_inherits_no_right(ana: User, c1: ManagedCluster) -> None:
    group = Group.objects.create(name="approvers")
    ana.groups.add(group)
    permissions.grant_permission(ROOT, ACCEPT, to=ana, obj=c1)
    permissions.grant_permission(ROOT, ACCEPT, to=group, obj=c1)
    make.clusterset("web")
    permissions.grant_permission(ROOT, JOIN, to=ana, obj=ManagedClusterSet.objects.get(name="web"))
    verbs.delete(ROOT, MANAGED_CLUSTER, Key("", "c1"))
    assert not ManagedClusterUserPermission.objects.exists()
    make.cluster("c1")
    with pytest.raises(errors.Forbidden):
        make.accept("c1", by=actor(ana))
    with pytest.raises(errors.NotFound, match='"c1" not found'):
        permissions.grant_permission(ROOT, ACCEPT, to=ana, obj=c1)  # the row that is gone


def test_only_kinds_with_permissions_of_their_own_take_some(ana: User, c1: ManagedCluster) -> None:
    make.namespace("ns")
    make.create(CONFIG_MAP, make.document(CONFIG_MAP, "cm"), namespace="ns")
    for label, obj in (
        ("corekinds.view_configmap", ConfigMap.objects.get(name="cm")),
        (JOIN, c1),
        ("clusters.fly_managedcluster", c1),
        ("nonsense", None),
    ):
        with pytest.raises(errors.BadRequest):
            permissions.grant_permission(ROOT, label, to=ana, obj=obj)
    assert told() == []


@pytest.mark.contract("D2")
def test_an_open_watch_ends_with_the_right_that_opened_it(
    ana: User, c1: ManagedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    permissions.grant_permission(ROOT, VIEW, to=ana, obj=c1)
    may_go_on: Callable[[], bool] = question(holder("ana"), f"{CLUSTERS}?fieldSelector=metadata.name%3Dc1", monkeypatch)
    assert may_go_on()
    permissions.revoke_permission(ROOT, VIEW, to=ana, obj=c1)
    assert not may_go_on()


# ---------------------------------------------------------------- who may


@pytest.mark.contract("D2")
def test_who_may_change_permissions_gives_and_takes_what_they_hold_and_there_only(
    ana: User, c1: ManagedCluster
) -> None:
    make.cluster("c2")
    raj = delegate(ACCEPT, obj=c1)
    assert permissions.grant_permission(raj, ACCEPT, to=ana, obj=c1)
    assert permissions.revoke_permission(raj, ACCEPT, to=ana, obj=c1)
    for label, obj in ((ACCEPT, make.stored("c2")), (ACCEPT, None), (CHANGE, c1)):
        for act in (permissions.grant_permission, permissions.revoke_permission):
            with pytest.raises(errors.Forbidden, match='user "raj" does not hold it there'):
                act(raj, label, to=ana, obj=obj)
    assert len(told(outcome="denied")) == 6
    entry = AuditEvent.objects.filter(outcome="denied").order_by("pk")[0]
    assert (entry.act, entry.resource, entry.name) == ("permission:grant", MANAGED_CLUSTER.resource, "c2")
    assert entry.reason.startswith(
        'permission clusters.accept_managedcluster of user "ana" on "c2" is not for this user'
    )


@pytest.mark.contract("D2")
def test_holding_a_right_is_not_enough_to_hand_it_on(ana: User, c1: ManagedCluster) -> None:
    permissions.grant_permission(ROOT, ACCEPT, to=ana, obj=c1)
    with pytest.raises(errors.Forbidden, match=r'user "ana" lacks the permission auth\.change_permission'):
        permissions.grant_permission(actor(ana), ACCEPT, to=User.objects.create_user("li"), obj=c1)
    assert len(told(outcome="denied")) == 1


@pytest.mark.contract("D2")
def test_what_is_held_by_rbac_may_be_handed_on_too(ana: User, c1: ManagedCluster) -> None:
    raj = delegate()
    grant(raj, rule("update", "managedclusters/accept", groups="register.open-cluster-management.io", names="c1"))
    assert permissions.grant_permission(raj, ACCEPT, to=ana, obj=c1)
    with pytest.raises(errors.Forbidden):
        permissions.grant_permission(raj, ACCEPT, to=ana)


def test_several_changes_are_made_together_or_not_at_all(ana: User, c1: ManagedCluster) -> None:
    raj = delegate(VIEW)
    act = permissions.PermissionAct.GRANT
    wanted = [Permission.objects.get(codename=f"{each}_managedcluster") for each in ("view", "accept")]
    with pytest.raises(errors.Forbidden):
        permissions.change_permissions(raj, [permissions.PermissionChange(act, each, ana, c1) for each in wanted])
    assert not ManagedClusterUserPermission.objects.filter(user=ana).exists()
    assert told(outcome="allowed") == []


def test_a_stranger_is_refused_and_noted(c1: ManagedCluster, ana: User) -> None:
    mallory = Actor(user="mallory")
    with pytest.raises(errors.Forbidden):
        permissions.grant_permission(mallory, ACCEPT, to=ana, obj=c1)
    assert len(told(user="mallory", outcome="denied")) == 1


# ---------------------------------------------------------------- people and groups


def staff(*labels: str) -> Actor:
    """One who keeps the accounts of others."""
    return delegate("auth.add_user", "auth.change_user", "auth.delete_user", "auth.change_group", *labels)


def may_impersonate(who: Actor, resources: str, names: str) -> None:
    grant(who, rule("impersonate", resources, names=names))


def test_an_account_is_made_changed_and_deleted_with_an_entry_each() -> None:
    made = User(username="li")
    made.set_password("a long password")
    people.save_user(ROOT, made)
    made.is_active = False
    people.save_user(ROOT, made)
    made.set_password("another long one")
    people.save_user(ROOT, made)
    people.save_user(ROOT, made)
    key = str(made.pk)
    people.delete_account(ROOT, made)
    found = AuditEvent.objects.filter(resource="users").order_by("pk")
    assert [each.act for each in found] == ["user:create", "user:update", "user:update", "user:delete"]
    assert {each.uid for each in found} == {key}
    assert found[1].diff == [{"path": "is_active", "old": True, "new": False}]
    assert found[2].diff == [{"path": "password"}]
    assert not any("argon2" in str(each.diff) or "pbkdf2" in str(each.diff) for each in found)


@pytest.mark.parametrize("field", ["is_superuser", "is_active", "is_staff", "username", "password", "email"])
def test_only_a_superuser_changes_a_superuser(field: str) -> None:
    raj = staff()
    grant(raj, rule("impersonate", "users groups"))
    boss = User.objects.create_superuser("boss")
    setattr(boss, field, "boss@example.com" if isinstance(getattr(boss, field), str) else False)
    with pytest.raises(errors.Forbidden, match="only a superuser changes superusers"):
        people.save_user(raj, boss)
    with pytest.raises(errors.Forbidden, match="only a superuser changes superusers"):
        people.delete_account(raj, boss)
    assert len(told(outcome="denied")) == 2
    people.save_user(ROOT, boss)


def test_nobody_makes_himself_a_superuser(ana: User) -> None:
    raj = staff()
    grant(raj, rule("impersonate", "users groups"))
    own = User.objects.get(username="raj")
    for victim in (own, ana, User(username="new")):
        victim.is_superuser = True
        with pytest.raises(errors.Forbidden, match="only a superuser"):
            people.save_user(raj, victim)
    assert not User.objects.filter(is_superuser=True).exists()


@pytest.mark.parametrize(
    ("field", "value"), [("username", "anna"), ("password", "x"), ("is_active", False), ("is_staff", True)]
)
def test_who_could_sign_in_as_a_person_needs_the_right_to_impersonate_him(ana: User, field: str, value: Any) -> None:
    raj = staff()
    setattr(ana, field, value)
    with pytest.raises(errors.Forbidden, match=r'may not impersonate users "an+a"'):
        people.save_user(raj, ana)
    may_impersonate(raj, "users", "ana anna")
    people.save_user(raj, ana)
    assert getattr(User.objects.get(pk=ana.pk), field) == value


def test_names_and_addresses_are_changed_by_who_keeps_accounts(ana: User) -> None:
    ana.email = "ana@example.com"
    people.save_user(staff(), ana)
    [entry] = AuditEvent.objects.filter(act="user:update")
    assert (entry.user, entry.diff) == ("raj", [{"path": "email", "old": "", "new": "ana@example.com"}])
    with pytest.raises(errors.Forbidden, match=r"lacks the permission auth\.change_user"):
        people.save_user(actor(ana), User(pk=ana.pk, username="ana", email="x@example.com", password=ana.password))


def test_a_new_account_may_have_rights_by_its_name() -> None:
    raj = staff()
    with pytest.raises(errors.Forbidden, match="may not impersonate"):
        people.save_user(raj, User(username="new"))
    may_impersonate(raj, "users", "new")
    people.save_user(raj, User(username="new"))


def test_who_is_in_a_group_brings_others_in_and_out(ana: User) -> None:
    group, other = Group.objects.create(name="approvers"), Group.objects.create(name="admins")
    User.objects.get_or_create(username="raj")[0].groups.add(group)
    raj = staff()
    assert "approvers" in raj.groups
    people.save_user(raj, ana, groups=[group])
    with pytest.raises(errors.Forbidden, match='may not impersonate groups "admins"'):
        people.save_user(raj, ana, groups=[group, other])
    people.save_user(raj, ana, groups=[])
    may_impersonate(raj, "groups", "admins")
    people.save_user(raj, ana, groups=[other])
    found = AuditEvent.objects.filter(act="user:update", outcome="allowed").order_by("pk")
    assert [each.diff for each in found] == [
        [{"path": "groups", "new": "approvers"}],
        [{"path": "groups", "old": "approvers"}],
        [{"path": "groups", "new": "admins"}],
    ]


def test_a_membership_that_somebody_only_claims_counts_for_nothing(ana: User) -> None:
    group = Group.objects.create(name="approvers")
    raj = staff()
    claiming = Actor(user="raj", groups=("approvers",))
    for who in (raj, claiming):
        with pytest.raises(errors.Forbidden):
            people.save_user(who, ana, groups=[group])


def test_rights_of_people_and_groups_go_by_the_rule_of_rights(ana: User) -> None:
    raj = staff(VIEW)
    view, accept = (Permission.objects.get(codename=f"{each}_managedcluster") for each in ("view", "accept"))
    group = Group.objects.create(name="approvers")
    people.save_user(raj, ana, rights=[view])
    people.save_group(raj, group, rights=[view])
    with pytest.raises(errors.Forbidden, match="does not hold it"):
        people.save_user(raj, ana, rights=[view, accept])
    with pytest.raises(errors.Forbidden, match="does not hold it"):
        people.save_group(raj, group, rights=[accept])
    assert list(ana.user_permissions.all()) == list(group.permissions.all()) == [view]
    people.save_group(raj, group, rights=[])
    assert not group.permissions.exists()
    assert [each.act for each in AuditEvent.objects.filter(outcome="allowed").order_by("pk")] == [
        "permission:grant", "permission:grant", "permission:revoke",
    ]  # fmt: skip


def test_a_group_is_renamed_by_who_may_be_both() -> None:
    group = Group.objects.create(name="approvers")
    raj = staff()
    group.name = "admins"
    may_impersonate(raj, "groups", "approvers")
    with pytest.raises(errors.Forbidden, match='may not impersonate groups "admins"'):
        people.save_group(raj, group)
    may_impersonate(raj, "groups", "admins")
    people.save_group(raj, group)
    assert AuditEvent.objects.get(act="group:update", outcome="allowed").diff == [
        {"path": "name", "old": "approvers", "new": "admins"}
    ]


@pytest.mark.contract("D2")
def test_rights_of_a_deleted_person_or_group_are_gone(ana: User, c1: ManagedCluster) -> None:
    group = Group.objects.create(name="approvers")
    for to in (ana, group):
        permissions.grant_permission(ROOT, ACCEPT, to=to, obj=c1)
        people.delete_account(ROOT, to)
    again = User.objects.create_user("ana")
    again.groups.add(Group.objects.create(name="approvers"))
    assert not authorization.permitted(actor(again), ACCEPT, obj=c1).allowed


def test_the_first_superuser_is_in_the_audit_too() -> None:
    from registration import hub_setup

    hub_setup.ensure_hub()
    hub_setup.ensure_hub()
    [entry] = AuditEvent.objects.filter(act__startswith="user:")
    assert (entry.user, entry.act, entry.name) == ("system:ocmconsole:foundation", "user:create", "admin")
    password = (configured.OCMCONSOLE_HOME / "admin-password").read_text().strip()
    assert User.objects.get(username="admin", is_superuser=True, is_staff=True).check_password(password)


# ---------------------------------------------------------------- whatever is tried

LABELS = [VIEW, ACCEPT, CHANGE, PeoplePermission.CHANGE_PERMISSION]
PEOPLE = ["ana", "raj", "li"]
TRIES = st.tuples(
    st.booleans(), st.sampled_from(PEOPLE), st.sampled_from(LABELS), st.sampled_from(PEOPLE), st.booleans()
)


class NobodyHandsOutMoreThanHeHolds(TestCase):
    @settings(max_examples=30)
    @given(
        st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(LABELS), st.booleans()), max_size=6),
        st.lists(TRIES, max_size=10),
    )
    def test_in_any_order(self, given_first: list[Any], tries: list[Any]) -> None:
        people = {name: User.objects.create_user(name) for name in PEOPLE}
        make.cluster("c1")
        c1 = make.stored("c1")

        def place(label: str, *, on_one: bool) -> ManagedCluster | None:
            return c1 if on_one and label != PeoplePermission.CHANGE_PERMISSION else None

        held = {(name, label, place(label, on_one=on_one) is not None) for name, label, on_one in given_first}
        for name, label, on_one in held:
            permissions.grant_permission(ROOT, label, to=people[name], obj=c1 if on_one else None)
        AuditEvent.objects.all().cut()
        done = 0
        for is_grant, by, label, to, on_one in tries:
            obj = place(label, on_one=on_one)
            entry = (to, label, obj is not None)
            may = (by, PeoplePermission.CHANGE_PERMISSION, False) in held and (
                (by, label, False) in held or (by, label, obj is not None) in held
            )
            act = permissions.grant_permission if is_grant else permissions.revoke_permission
            try:
                made = act(actor(people[by]), label, to=people[to], obj=obj)
            except errors.Forbidden:
                assert not may
                continue
            assert may
            assert made == ((entry in held) != is_grant)
            done += made
            held = held | {entry} if is_grant else held - {entry}
        told = AuditEvent.objects.filter(act__startswith="permission:", outcome="allowed")
        assert told.count() == done
        for name, label, on_one in held:
            assert authorization.permitted(actor(people[name]), label, obj=c1 if on_one else None).allowed
