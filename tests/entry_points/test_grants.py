"""Rights given and taken in Django admin: what the pages do, what they refuse, and what the rights then open at each way."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import Group, Permission, User

from clusters.kinds import CLUSTERSET_LABEL
from clusters.models import ManagedCluster
from clustersets.models import ManagedClusterSet, ManagedClusterSetBinding
from ocmconsole.accounts import permissions
from ocmconsole.accounts.permissions import PeoplePermission
from ocmconsole.kubeapi.models import AuditEvent
from tests import factories as make
from tests.actors import ROOT, grant, person, rule
from tests.entry_points import scene
from tests.entry_points.scene import Waiting
from tests.entry_points.ways import CHANGELIST, AdminForm, Api, Browser, Refused, answer, signed

pytestmark = pytest.mark.django_db

GROUP = "cluster.open-cluster-management.io"
SETS = "/admin/clustersets/managedclusterset/"
BINDINGS = f"/apis/{GROUP}/v1beta2/namespaces/team/managedclustersetbindings"


@pytest.fixture
def boss(db: None) -> Any:
    return User.objects.create_superuser("boss")


@pytest.fixture
def cluster(db: None) -> Waiting:
    """A cluster in the set web."""
    make.clusterset("web")
    make.clusterset("db")
    waiting = scene.ask("site-one")
    make.label("site-one", {CLUSTERSET_LABEL: "web"})
    return waiting


def page_of(obj: Any) -> str:
    return f"{CHANGELIST if isinstance(obj, ManagedCluster) else SETS}{obj.pk}/permissions/"


def press(who: Any, obj: Any, act: str, codename: str, **holder: str) -> str:
    """Open the page of the object, fill in the form, send it; what the page then says."""
    browser = Browser(who)
    shown = browser.open(page_of(obj))
    form = next(form for form in shown.forms if form.fields.get("act") == act)
    return browser.send(form, permission=codename, **holder).text


def give(boss: Any, name: str, codename: str, obj: Any) -> None:
    press(boss, obj, "grant", codename, user=name)


def told() -> list[tuple[str, str, str, str, Any]]:
    found = AuditEvent.objects.filter(act__startswith="permission:").order_by("pk")
    return [(each.user, each.entry_point, each.act, each.name, each.diff) for each in found]


def rows() -> list[scene.Record]:
    """All but the audit and the count of changes of rights."""
    return [record for record in scene.everything_but_audit() if record["model"] != "kubeapi.revision"]


def web() -> ManagedClusterSet:
    row: ManagedClusterSet = ManagedClusterSet.objects.get(name="web")
    return row


# ---------------------------------------------------------------- the page of an object


@pytest.mark.contract("D2")
@pytest.mark.parametrize("holder", [{"user": "ana"}, {"group": "approvers"}], ids=["person", "group"])
def test_the_page_gives_and_takes_and_shows_who_holds_what(
    boss: Any, ana: Any, cluster: Waiting, holder: dict[str, str]
) -> None:
    Group.objects.create(name="approvers")
    row = make.stored(cluster.name)
    [(role, name)] = holder.items()
    before = rows()
    said = press(boss, row, "grant", "accept_managedcluster", **holder)
    assert f'Permission clusters.accept_managedcluster granted to {role} "{name}".' in said
    assert f"{role} {name}" in Browser(boss).open(page_of(row)).text
    said = press(boss, row, "revoke", "accept_managedcluster")
    assert f'clusters.accept_managedcluster revoked from {role} "{name}".' in said
    assert rows() == before
    label, whom = "clusters.accept_managedcluster", f'{role} "{name}"'
    assert told() == [
        ("boss", "admin", "permission:grant", "site-one", [{"path": label, "new": whom}]),
        ("boss", "admin", "permission:revoke", "site-one", [{"path": label, "old": whom}]),
    ]


@pytest.mark.contract("D2")
def test_the_form_of_an_object_leads_to_its_page(boss: Any, cluster: Waiting) -> None:
    row = make.stored(cluster.name)
    shown = Browser(boss).open(f"{CHANGELIST}{row.pk}/change/").text
    assert f'href="{page_of(row)}"' in shown
    offered = Browser(boss).open(page_of(row)).text
    assert "accept_managedcluster" in offered
    assert "add_managedcluster" not in offered
    assert "join_managedclusterset" not in offered


@pytest.mark.contract("D2")
def test_one_who_may_not_change_permissions_does_not_see_the_page(ana: Any, cluster: Waiting) -> None:
    row = make.stored(cluster.name)
    with pytest.raises(Refused):
        Browser(ana).open(page_of(row))
    permissions.grant_permission(ROOT, "clusters.view_managedcluster", to=ana, obj=row)
    assert Browser(ana).client.get(page_of(row)).status_code == 403
    assert Browser(ana).client.get(f"{CHANGELIST}no-such-uid/permissions/").status_code == 404


@pytest.mark.contract("D2")
def test_nobody_gives_by_the_page_what_they_do_not_hold(ana: Any, cluster: Waiting) -> None:
    row = make.stored(cluster.name)
    permissions.grant_permission(ROOT, PeoplePermission.CHANGE_PERMISSION, to=ana)
    permissions.grant_permission(ROOT, "clusters.view_managedcluster", to=ana, obj=row)
    AuditEvent.objects.all().cut()
    before = scene.everything_but_audit()
    with pytest.raises(Refused, match=r"Nothing was changed: .*does not hold it there"):
        give(ana, "ana", "accept_managedcluster", row)
    assert scene.everything_but_audit() == before
    [denial] = AuditEvent.objects.all()
    assert (denial.outcome, denial.act, denial.user, denial.name) == ("denied", "permission:grant", "ana", "site-one")
    User.objects.create_user("li")
    give(ana, "li", "view_managedcluster", row)


@pytest.mark.contract("D2")
@pytest.mark.parametrize(
    "wrong",
    [
        {"user": "", "group": ""},
        {"user": "ana", "group": "approvers"},
        {"user": "nobody"},
        {"user": "ana", "permission": "join_managedclusterset"},
        {"user": "ana", "act": "steal"},
    ],
)
def test_a_form_that_makes_no_sense_changes_nothing(
    boss: Any, ana: Any, cluster: Waiting, wrong: dict[str, str]
) -> None:
    Group.objects.create(name="approvers")
    browser = Browser(boss)
    form = browser.open(page_of(make.stored(cluster.name))).forms[-1]
    sent = {**form.fields, "permission": "accept_managedcluster", **wrong}
    assert "errorlist" in browser.client.post(browser.at, sent).content.decode()
    assert told() == []


# ---------------------------------------------------------------- what the rights open


@pytest.mark.contract("D2", "S119", "S161", "A6")
def test_join_on_both_sets_moves_a_cluster_by_every_way_and_no_other(boss: Any, ana: Any, cluster: Waiting) -> None:
    move = {"metadata": {"labels": {CLUSTERSET_LABEL: "db"}}}
    give(boss, "ana", "change_managedcluster", make.stored(cluster.name))
    give(boss, "ana", "join_managedclusterset", web())
    with pytest.raises(Refused, match='cannot add/remove a ManagedCluster to/from ManagedClusterSet "db"'):
        Api().patch(ana, cluster, move)
    give(boss, "ana", "join_managedclusterset", ManagedClusterSet.objects.get(name="db"))
    Api().patch(ana, cluster, move)
    AdminForm().edit(ana, cluster, lambda doc: doc["metadata"]["labels"].update({CLUSTERSET_LABEL: "web"}))
    assert make.stored(cluster.name).clusterset == "web"
    press(boss, web(), "revoke", "join_managedclusterset", user="ana")
    for act in (
        lambda: Api().patch(ana, cluster, move),
        lambda: AdminForm().edit(ana, cluster, lambda doc: doc["metadata"]["labels"].update({CLUSTERSET_LABEL: "db"})),
    ):
        with pytest.raises(Refused, match='ManagedClusterSet "web"'):
            act()
    assert make.stored(cluster.name).clusterset == "web"


@pytest.mark.contract("D2", "S123", "S165", "A9")
@pytest.mark.parametrize("way", ["api", "admin"])
def test_bind_on_a_set_binds_that_set_only(boss: Any, ana: Any, cluster: Waiting, way: str) -> None:
    make.namespace("team")
    grant(person("ana"), rule("create get", "managedclustersetbindings", groups=GROUP))

    def bind(name: str) -> None:
        doc = {
            "apiVersion": f"{GROUP}/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"clusterSet": name},
        }
        if way == "api":
            answer(signed(ana).post(BINDINGS, json.dumps(doc), content_type="application/json"))
            return
        browser = Browser(ana)
        shown = browser.open("/admin/clustersets/managedclustersetbinding/add/")
        form = next(form for form in shown.forms if "document" in form.fields)
        browser.send(form, document=yaml.safe_dump(doc), _save="Save")

    with pytest.raises(Refused, match='is not allowed to bind cluster set "web"'):
        bind("web")
    give(boss, "ana", "bind_managedclusterset", web())
    bind("web")
    with pytest.raises(Refused, match='is not allowed to bind cluster set "db"'):
        bind("db")
    assert [row.name for row in ManagedClusterSetBinding.objects.all()] == ["web"]


@pytest.mark.contract("D16")
@pytest.mark.parametrize("by_set", [False, True], ids=["cluster", "set"])
def test_a_right_to_see_opens_the_pages_until_it_is_taken_back(
    boss: Any, ana: Any, cluster: Waiting, by_set: bool
) -> None:
    scene.ask("site-two")
    obj, codename = (web(), "view_managedclusterset") if by_set else (make.stored("site-one"), "view_managedcluster")
    browser = Browser(ana)

    def listed(path: str) -> list[str]:
        return [name for name in ("site-one", "site-two") if f">{name}</a>" in browser.open(path).text]

    assert listed("/clusters/") == []
    give(boss, "ana", codename, obj)
    assert listed("/clusters/") == listed(CHANGELIST) == ["site-one"]
    browser.open("/clusters/site-one/")
    press(boss, obj, "revoke", codename, user="ana")
    assert listed("/clusters/") == listed(CHANGELIST) == []
    with pytest.raises(Refused):
        browser.open("/clusters/site-one/")


# ---------------------------------------------------------------- people and groups


def form_of(browser: Browser, path: str, field: str) -> Any:
    return next(form for form in browser.open(path).forms if field in form.fields)


def acts() -> list[str]:
    found = AuditEvent.objects.filter(act__regex="^(user|group|permission):").order_by("pk")
    return [f"{each.entry_point} {each.outcome} {each.act} {each.name}" for each in found]


def test_an_account_is_made_given_rights_and_put_away(boss: Any) -> None:
    group = Group.objects.create(name="approvers")
    view = Permission.objects.get(codename="view_managedcluster")
    browser = Browser(boss)
    form = form_of(browser, "/admin/auth/user/add/", "username")
    browser.send(form, username="li", password1="a long password", password2="a long password", usable_password="true")
    li = User.objects.get(username="li")
    assert li.check_password("a long password")
    path = f"/admin/auth/user/{li.pk}"
    form = form_of(browser, f"{path}/change/", "username")
    browser.send(form, is_active="on", is_staff="on", groups=str(group.pk), user_permissions=str(view.pk))
    li.refresh_from_db()
    assert (li.is_staff, li.is_superuser, list(li.groups.all())) == (True, False, [group])
    assert li.has_perm("clusters.view_managedcluster")
    form = form_of(browser, f"{path}/password/", "password1")
    browser.send(
        form,
        password1="another long one",
        password2="another long one",
        usable_password="true",
        **{"set-password": "1"},
    )
    assert User.objects.get(pk=li.pk).check_password("another long one")
    browser.send(browser.open(f"{path}/delete/").forms[-1], post="yes")
    assert acts() == [
        "admin allowed user:create li",
        "admin allowed user:update li",
        "admin allowed permission:grant li",
        "admin allowed user:update li",
        "admin allowed user:delete li",
    ]


def test_a_group_is_made_given_rights_and_deleted(boss: Any) -> None:
    view = Permission.objects.get(codename="view_managedcluster")
    browser = Browser(boss)
    form = form_of(browser, "/admin/auth/group/add/", "name")
    browser.send(form, name="approvers", permissions=str(view.pk))
    group = Group.objects.get(name="approvers")
    assert list(group.permissions.all()) == [view]
    browser.send(browser.open(f"/admin/auth/group/{group.pk}/delete/").forms[-1], post="yes")
    assert acts() == [
        "admin allowed group:create approvers",
        "admin allowed permission:grant approvers",
        "admin allowed group:delete approvers",
    ]


@pytest.fixture
def keeper(ana: Any) -> Any:
    """Ana keeps accounts, as Django's own permissions say, and has no more."""
    for act in ("add_user", "change_user", "delete_user", "view_user", "change_group", "view_group"):
        permissions.grant_permission(ROOT, f"auth.{act}", to=ana)
    AuditEvent.objects.all().cut()
    return ana


@pytest.mark.parametrize("field", ["is_superuser", "is_active"])
def test_keeping_accounts_makes_nobody_a_superuser_and_touches_none(keeper: Any, boss: Any, field: str) -> None:
    browser = Browser(keeper)
    victim, sent = (keeper, {"is_superuser": "on", "is_active": "on"}) if field == "is_superuser" else (boss, {})
    form = form_of(browser, f"/admin/auth/user/{victim.pk}/change/", "username")
    form.fields.pop("is_active", None)
    form.fields.pop("is_superuser", None)
    with pytest.raises(Refused, match=r"Nothing was changed: .* only a superuser changes superusers"):
        browser.send(form, **sent)
    for user in (keeper, boss):
        user.refresh_from_db()
    assert (keeper.is_superuser, boss.is_superuser, boss.is_active) == (False, True, True)
    assert acts() == [f"admin denied user:update {victim.username}"]


def test_keeping_accounts_sets_no_password_of_another(keeper: Any, boss: Any) -> None:
    browser = Browser(keeper)
    form = form_of(browser, f"/admin/auth/user/{boss.pk}/password/", "password1")
    with pytest.raises(Refused, match="Nothing was changed"):
        browser.send(
            form,
            password1="another long one",
            password2="another long one",
            usable_password="true",
            **{"set-password": "1"},
        )
    assert not User.objects.get(pk=boss.pk).check_password("another long one")
    li = User.objects.create_user("li")
    form = form_of(browser, f"/admin/auth/user/{li.pk}/password/", "password1")
    with pytest.raises(Refused, match='may not impersonate users "li"'):
        browser.send(
            form,
            password1="another long one",
            password2="another long one",
            usable_password="true",
            **{"set-password": "1"},
        )
    assert acts() == ["admin denied user:update boss", "admin denied user:update li"]


def test_keeping_accounts_deletes_no_superuser_and_nobody_in_bulk(keeper: Any, boss: Any) -> None:
    browser = Browser(keeper)
    with pytest.raises(Refused, match="only a superuser changes superusers"):
        browser.send(browser.open(f"/admin/auth/user/{boss.pk}/delete/").forms[-1], post="yes")
    assert User.objects.filter(pk=boss.pk).exists()
    assert "delete_selected" not in browser.open("/admin/auth/user/").text
    assert acts() == ["admin denied user:delete boss"]


def test_the_history_of_an_account_is_the_audit(boss: Any) -> None:
    client = Browser(boss).client
    moved = client.get(f"/admin/auth/user/{boss.pk}/history/", follow=True)
    assert moved.status_code == 200
    assert moved.request["QUERY_STRING"] == "resource=users&name=boss"
