"""Anyone who has lost a right, or a credential, writes nothing from then on: not even what was begun before.

Each test ends the right after the request was found to be permitted and before its commit: a wrapper around the
database's own statements sees the row being read and lets an administrator act, on this connection, in that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import time_machine
from django.contrib.auth.models import Group, User
from django.db import connection, connections
from django.test import Client, RequestFactory

from clusters import services as cluster_services
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterPermission, ManagedCluster
from ocmconsole.accounts import people, permissions
from ocmconsole.core import kinds
from ocmconsole.core.models import BootstrapToken, ConfigMap, ServiceAccount
from ocmconsole.core.rbac import rule_index
from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi import errors, verbs
from ocmconsole.kubeapi.access import session
from ocmconsole.kubeapi.access.authorization import Attributes
from ocmconsole.kubeapi.control import bulk_jobs, compaction
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import AuditEvent
from ocmconsole.kubeapi.watch import change_log, follower, stream_response
from ocmconsole.server import listeners
from ocmconsole.signin import sessions
from registration.approvals import sending_away, services
from registration.models import Decline, IssuedCertificate
from tests import factories as make
from tests.actors import ROOT, grant, person, rule
from tests.api import entry
from tests.security.callers import API, bearer

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc

pytestmark = pytest.mark.django_db(transaction=True)

MAP = "/api/v1/namespaces/team/configmaps/settings"
CLUSTER = "/apis/cluster.open-cluster-management.io/v1/managedclusters/c1"
CHANGED: Doc = {"data": {"key": "changed"}}


@contextmanager
def once_read(table: str, act: Callable[[], Any], nth: int = 1) -> Iterator[list[str]]:
    """Call ``act`` at the nth read of the table; yields all these reads but those of ``act``."""
    reads: list[str] = []
    acting: list[bool] = []

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not acting and sql.startswith("SELECT") and f'FROM "{table}"' in sql:
            reads.append(sql)
            if len(reads) == nth:
                acting.append(True)
                act()
                acting.clear()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield reads


@pytest.fixture(autouse=True)
def team() -> None:
    make.namespace("team")
    doc = {"metadata": {"name": "settings"}, "data": {"key": "first"}}
    verbs.create(ROOT, kinds.CONFIG_MAP, doc, namespace="team")
    make.cluster("c1")


def stored() -> Any:
    return ConfigMap.objects.get(name="settings").doc["data"]["key"]


def unbound(name: str) -> Callable[[], object]:
    return lambda: verbs.delete(ROOT, kinds.CLUSTER_ROLE_BINDING, Key("", name))


@pytest.mark.contract("W13", "D11")
@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE", "APPLY"])
def test_a_binding_that_is_deleted_stops_a_write_that_was_permitted_already(method: str) -> None:
    name = grant(person("ana"), rule("get create update patch delete", "configmaps"))
    ana = entry.person("ana")
    body = ana.get(MAP).doc | CHANGED
    with once_read("corekinds_configmap", unbound(name)) as called:
        match method:
            case "PATCH":
                answer = ana.patch(MAP, CHANGED)
            case "PUT":
                answer = ana.put(MAP, body)
            case "DELETE":
                answer = ana.delete(MAP)
            case _:
                applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}} | CHANGED
                answer = ana.patch(f"{MAP}?fieldManager=x&force=true", applied, entry.APPLY)
    assert called
    assert answer.said == (403, "Forbidden")
    assert stored() == "first"
    assert AuditEvent.objects.filter(user="ana", outcome="denied", name="settings").exists()


def test_a_binding_that_is_deleted_stops_a_creation() -> None:
    name = grant(person("ana"), rule("create", "configmaps"))
    with once_read("corekinds_namespace", unbound(name)) as called:
        answer = entry.person("ana").post(MAP.removesuffix("/settings"), {"metadata": {"name": "new"}})
    assert (bool(called), answer.said) == (True, (403, "Forbidden"))
    assert not ConfigMap.objects.filter(name="new").exists()


def test_a_rule_that_asks_for_a_right_asks_again_too() -> None:
    """A4: accepting needs a right of its own beside ``patch``."""
    grant(person("ana"), rule("get patch", "managedclusters", groups="cluster.open-cluster-management.io"))
    name = grant(person("ana"), rule("update", "managedclusters/accept", groups="register.open-cluster-management.io"))
    accept = {"spec": {"hubAcceptsClient": True}}
    with once_read("clusters_managedcluster", unbound(name)) as called:
        answer = entry.person("ana").patch(CLUSTER, accept)
    assert (bool(called), answer.said) == (True, (403, "Forbidden"))
    assert not ManagedCluster.objects.get(name="c1").doc["spec"].get("hubAcceptsClient")


def test_a_right_limited_to_some_fields_goes_on_when_others_rights_change_meanwhile() -> None:
    """The second look, too, compares what was asked, not what the hub's rules have added to it."""
    User.objects.create_user("ana")
    permissions.grant_permission(ROOT, "clusters.accept_managedcluster", to=User.objects.get(username="ana"))
    other = grant(person("somebody"), rule("get", "configmaps"))
    ana = session.actor_for(User.objects.get(username="ana"), as_of=change_log.rights())
    with once_read("clusters_managedcluster", unbound(other)):
        services.accept_cluster(ana, "c1")
    doc = ManagedCluster.objects.get(name="c1").doc
    assert doc["spec"]["hubAcceptsClient"]
    assert doc["metadata"]["finalizers"]


def test_a_right_that_stays_lets_the_write_through_although_others_rights_change() -> None:
    grant(person("ana"), rule("patch", "configmaps"))
    other = grant(person("li"), rule("patch", "configmaps"))
    with once_read("corekinds_configmap", unbound(other)) as called:
        assert entry.person("ana").patch(MAP, CHANGED).code == 200
    assert (bool(called), stored()) == (True, "changed")


# ---------------------------------------------------------------- people


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana", password="a long enough password")


def deactivate(user: User) -> None:
    user = User.objects.get(pk=user.pk)
    user.is_active = False
    people.save_user(ROOT, user)


def test_a_deactivated_person_writes_nothing_more(ana: User) -> None:
    grant(person("ana"), rule("patch", "configmaps"))
    with once_read("corekinds_configmap", lambda: deactivate(ana)):
        assert entry.person("ana").patch(MAP, CHANGED).said == (401, "Unauthorized")
    assert stored() == "first"


@pytest.mark.contract("D2")
@pytest.mark.parametrize(
    "how",
    [
        "permission",
        "object permission",
        "group",
        "deactivated",
        "deleted",
        "session",
        "signed out",
        "expired",
        "password",
    ],
)
def test_a_page_that_was_sent_before_the_end_of_a_right_stores_nothing(ana: User, how: str) -> None:
    team, label = Group.objects.create(name="team"), "clusters.change_managedcluster"
    cluster = ManagedCluster.objects.get(name="c1")
    place: dict[str, tuple[User | Group, Any]] = {
        "permission": (ana, None),
        "object permission": (ana, cluster),
        "group": (team, None),
    }
    holder, obj = place.get(how, (ana, None))
    permissions.grant_permission(ROOT, label, to=holder, obj=obj)
    if how == "group":
        ana.groups.add(team)
    client = Client()
    client.force_login(User.objects.get(pk=ana.pk))
    ends: dict[str, Callable[[], object]] = {
        "group": lambda: people.save_user(ROOT, User.objects.get(pk=ana.pk), groups=[]),
        "deactivated": lambda: deactivate(ana),
        "deleted": lambda: people.delete_account(ROOT, User.objects.get(pk=ana.pk)),
        "session": lambda: sessions.end_others(ana, "another key"),
        "signed out": lambda: sign_out(client),
        "expired": lambda: clock.move_to(datetime.now(UTC) + timedelta(days=1)),
        "password": lambda: change_password(ana),
    }
    end = ends.get(how, lambda: permissions.revoke_permission(ROOT, label, to=holder, obj=obj))
    with once_read("clusters_managedcluster", lambda: None) as reads:
        client.post("/clusters/c1/labels/set/", {"key": "first", "value": "yes"})
    with (
        time_machine.travel(datetime.now(UTC)) as clock,
        once_read("clusters_managedcluster", end, nth=len(reads)) as reads,  # the last before the commit
    ):
        client.post("/clusters/c1/labels/set/", {"key": "second", "value": "yes"})
    assert len(reads) >= 1
    labels = ManagedCluster.objects.get(name="c1").doc["metadata"]["labels"]
    assert (labels.get("first"), labels.get("second")) == ("yes", None)


def sign_out(client: Client) -> None:
    """In another tab: with the same cookie."""
    other = Client()
    other.cookies.update(client.cookies)
    other.post("/logout/")


def change_password(user: User) -> None:
    """By the person, in another browser."""
    user = User.objects.get(pk=user.pk)
    user.set_password("seven new words here")
    people.change_own_password(session.actor_for(user), user)


# ---------------------------------------------------------------- acts that write records only


@pytest.fixture
def certificate() -> str:
    now = datetime.now(UTC)
    return make.certificate("c1", "c" * 64, begins=now, ends=now + timedelta(days=9)).pk


ACTS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "lift": ("registration_decline", lambda actor: services.lift_decline(actor, "c1")),
    "decline": (
        "registration_acceptedkey",
        lambda actor: services.decline_cluster(actor, "c1", reason="no", scope=Decline.Scope.NAME),
    ),
    "revoke": (
        "clusters_managedcluster",
        lambda actor: services.revoke_certificate(actor, "c" * 64, reason="it was lost"),
    ),
    "revoke all": ("clusters_managedcluster", lambda actor: services.revoke_all(actor, "c1", reason="it was lost")),
    "disconnect": ("clusters_managedcluster", lambda actor: sending_away.send_away(actor, "c1", revoke=True)),
    "remove": ("clusters_managedcluster", lambda actor: cluster_services.remove_cluster(actor, "c1", revoke=True)),
}


@pytest.mark.contract("D10", "D11", "D19")
@pytest.mark.parametrize("act", ACTS)
def test_an_act_that_writes_records_is_refused_when_its_right_has_ended_before_the_commit(
    ana: User, certificate: str, act: str
) -> None:
    accept = "clusters.accept_managedcluster"
    for label in (accept, "clusters.delete_managedcluster"):
        permissions.grant_permission(ROOT, label, to=ana)
    services.decline_cluster(ROOT, "c1", reason="not ours") if act == "lift" else make.accept(
        "c1", accepts=act != "decline"
    )
    before = AuditEvent.objects.filter(outcome="allowed", user="ana").count()
    table, call = ACTS[act]
    with once_read(table, lambda: None) as reads, pytest.raises(Undone), undone():
        call(services_actor(ana))
    assert reads
    with (
        once_read(table, lambda: permissions.revoke_permission(ROOT, accept, to=ana), nth=len(reads)),
        pytest.raises(errors.Forbidden),
    ):
        call(services_actor(ana))
    assert not IssuedCertificate.objects.exclude(revoked_at=None).exists()
    assert Decline.objects.filter(lifted_at=None).count() == (act == "lift")
    cluster = ManagedCluster.objects.get(name="c1")
    assert (cluster.hub_accepts_client, cluster.deleted_at) == (act not in {"lift", "decline"}, None)
    assert AuditEvent.objects.filter(outcome="allowed", user="ana").count() == before
    assert AuditEvent.objects.filter(outcome="denied", user="ana").exists()


class Undone(Exception):
    """Stands for the end of a process before the commit."""


@contextmanager
def undone(table: str = "kubeapi_auditevent") -> Iterator[None]:
    """What the block writes is rolled back when it has got as far as the table."""

    def stop(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE")) and f'"{table}"' in sql:
            raise Undone
        return execute(sql, params, many, context)

    with connection.execute_wrapper(stop):
        yield


@pytest.mark.contract("D19")
@pytest.mark.parametrize("act", ["disconnect", "remove"])
def test_a_worker_that_dies_leaves_a_cluster_sent_away_with_its_certificates_or_not_at_all(
    certificate: str, act: str
) -> None:
    """The audit entry says that the item of a bulk job was done: then both halves of it are."""
    make.accept("c1")
    with pytest.raises(Undone), undone("registration_issuedcertificate"):
        ACTS[act][1](ROOT)
    cluster = ManagedCluster.objects.get(name="c1")
    assert (cluster.hub_accepts_client, cluster.deleted_at) == (True, None)
    ACTS[act][1](ROOT)
    assert IssuedCertificate.objects.get(pk=certificate).revoked_at
    gone = ManagedCluster.objects.filter(name="c1").first()
    assert gone is None or gone.deleted_at or not gone.hub_accepts_client


@pytest.mark.contract("D24")
@pytest.mark.parametrize("how", ["deactivated", "deleted", "renamed"])
def test_nothing_of_an_account_that_has_ended_opens_anything(ana: User, how: str) -> None:
    """Its certificate, though of system:masters, its session and its bulk job."""
    holder = entry.person("ana", "system:masters")
    digest = sha256(holder.environ["ocmconsole.peer_certificate"]).hexdigest()
    now = datetime.now(UTC)
    IssuedCertificate.objects.update_or_create(
        pk=digest, defaults={"common_name": "ana", "not_before": now, "not_after": now + timedelta(days=1)}
    )
    permissions.grant_permission(ROOT, "clusters.change_managedcluster", to=ana)
    client = Client()
    client.force_login(ana)
    assert (holder.get(MAP).code, client.get("/account/").status_code) == (200, 200)
    act = bulk_jobs.find_act("clusters.label")
    assert act is not None
    job = bulk_jobs._job(services_actor(ana), act, {"c1": {}}, {"key": "late", "value": "yes"})  # before its first item
    user = User.objects.get(pk=ana.pk)
    match how:
        case "deactivated":
            deactivate(user)
        case "deleted":
            people.delete_account(ROOT, user)
        case _:
            user.username = "anna"
            people.save_user(ROOT, user)
    assert holder.get(MAP).said == (401, "Unauthorized")
    if how != "renamed":  # who is the same person
        assert client.get("/account/").status_code == 302
        bulk_jobs.advance_job(job)
        assert "late" not in ManagedCluster.objects.get(name="c1").doc["metadata"].get("labels", {})


def test_nobody_gives_a_right_with_rights_that_ended_meanwhile(ana: User) -> None:
    for label in ("auth.change_permission", "clusters.accept_managedcluster"):
        permissions.grant_permission(ROOT, label, to=ana)
    li = User.objects.create_user("li")
    actor = services_actor(ana)
    permissions.revoke_permission(ROOT, "clusters.accept_managedcluster", to=ana)
    with pytest.raises(errors.Forbidden):
        permissions.grant_permission(actor, "clusters.accept_managedcluster", to=li)
    assert not li.has_perm("clusters.accept_managedcluster")


def services_actor(user: User) -> Any:
    return session.actor_for(User.objects.get(pk=user.pk))


# ---------------------------------------------------------------- credentials


def test_a_deleted_service_account_writes_nothing_more() -> None:
    verbs.create(ROOT, kinds.SERVICE_ACCOUNT, {"metadata": {"name": "bot"}}, namespace="team")
    grant(person("system:serviceaccount:team:bot"), rule("patch", "configmaps"))
    token, _ = tokens.mint_token(ServiceAccount.objects.get(name="bot"), timedelta(hours=1))
    gone = once_read("corekinds_configmap", lambda: verbs.delete(ROOT, kinds.SERVICE_ACCOUNT, Key("team", "bot")))
    with gone as called:
        answer = bearer(token).send("PATCH", MAP, CHANGED, entry.MERGE)
    assert (bool(called), answer.code, stored()) == (True, 401, "first")


def test_a_revoked_bootstrap_token_registers_nothing_more() -> None:
    token = tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1))
    row, group = BootstrapToken.objects.get(), "cluster.open-cluster-management.io"
    joins = rule("create", "managedclustersets/join", groups=group)
    grant(person(f"system:bootstrap:{row.pk}"), rule("create", "managedclusters", groups=group), joins)
    revoke = once_read("corekinds_bootstraptoken", lambda: tokens.revoke_bootstrap_token(ROOT, row.pk), nth=2)
    with revoke as called:  # first by the authentication, then by a rule
        answer = bearer(token).post(CLUSTER.removesuffix("/c1"), make.document(MANAGED_CLUSTER, "c2"))
    assert (bool(called), answer.code) == (True, 401), answer
    assert not ManagedCluster.objects.filter(name="c2").exists()


def test_a_revoked_certificate_writes_nothing_more() -> None:
    grant(person("ana"), rule("patch", "configmaps"))
    ana = entry.person("ana")
    fingerprint = sha256(ana.environ["ocmconsole.peer_certificate"]).hexdigest()
    now = datetime.now(UTC)
    IssuedCertificate.objects.update_or_create(
        pk=fingerprint,
        defaults={"common_name": "ana", "not_before": now - timedelta(hours=1), "not_after": now + timedelta(days=1)},
    )
    revoke = once_read(
        "corekinds_configmap", lambda: services.revoke_certificate(ROOT, fingerprint, reason="it was lost")
    )
    with revoke as called:
        answer = ana.patch(MAP, CHANGED)
    assert (bool(called), answer.said, stored()) == (True, (401, "Unauthorized"), "first")


# ---------------------------------------------------------------- other processes


@pytest.mark.contract("W13")
def test_a_process_that_hears_nothing_knows_at_once_what_was_committed() -> None:
    ana, asked = person("ana"), Attributes("get", resource="secrets")
    other = rule_index.RuleIndex()
    for _ in range(3):
        name = grant(ana, rule("get", "secrets"))
        assert other.decide(ana, asked) is not None
        unbound(name)()
        assert other.decide(ana, asked) is None


@pytest.mark.parametrize("table", ["kubeapi_change", "kubeapi_compaction"])
def test_a_right_whose_end_is_cut_from_the_log_while_it_is_read_has_ended(table: str) -> None:
    ana, asked = person("ana"), Attributes("get", resource="secrets")
    other = rule_index.RuleIndex()
    name = grant(ana, rule("get", "secrets"))
    assert other.decide(ana, asked) is not None
    unbound(name)()
    with once_read(table, lambda: compaction.bound_log(1)):
        assert other.decide(ana, asked) is None


def test_the_check_of_a_request_costs_one_read_of_one_row() -> None:
    grant(person("ana"), rule("get", "configmaps"))
    ana = entry.person("ana")
    assert ana.get(MAP).code == 200
    before = change_log.rights()
    make.label("c1", any="write")
    assert change_log.rights() == before  # the log has grown, nobody's rights have changed
    assert entry.queries(ana, "GET", MAP) <= 4  # rights, person, certificate, the object


@pytest.mark.contract("D16")
def test_a_permission_on_an_object_is_none_on_another_of_its_name() -> None:
    make.cluster("other", accepted=True)  # whose roles stay, so that no other right ends
    make.settle()
    ana = User.objects.create_user("ana")
    permissions.grant_permission(ROOT, ClusterPermission.CHANGE, to=ana, obj=make.stored("c1"))

    def replaced() -> None:
        verbs.delete(ROOT, MANAGED_CLUSTER, Key("", "c1"))
        make.settle()
        make.cluster("c1")

    with once_read("clusters_managedcluster", replaced) as reads:
        answer = entry.person("ana").patch(CLUSTER, {"metadata": {"labels": {"is": "hers"}}})
    assert (bool(reads), answer.said) == (True, (403, "Forbidden"))
    assert "is" not in ManagedCluster.objects.get(name="c1").labels


# ---------------------------------------------------------------- watches


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log is replayed entry by entry, on one thread, so that its connection to the database can be closed."""
    monkeypatch.setattr(change_log, "BATCH", 1)
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(follower, "_threads", pool)
        yield
        pool.submit(connections.close_all).result()


@pytest.mark.contract("W11")
@pytest.mark.usefixtures("one_at_a_time")
def test_a_slow_client_is_sent_no_more_of_the_log_after_its_right_has_ended() -> None:
    name = grant(person("ana"), rule("list watch", "configmaps"))
    before = change_log.newest_revision()
    for text in ("second", "third", "fourth"):
        verbs.edit(ROOT, kinds.CONFIG_MAP, Key("team", "settings"), partial(changed_to, text))
    path = f"{MAP.removesuffix('/settings')}?watch=true&resourceVersion={before}&timeoutSeconds=60"
    watch = listeners.api_response(RequestFactory(**API, **entry.person("ana").environ).get(path))
    assert isinstance(watch, stream_response.AsyncStreamResponse)

    async def drain() -> list[bytes]:
        lines = []
        async for line in watch.stream:
            lines.append(line)
            if len(lines) == 1:  # the client takes its time
                await asyncio.to_thread(in_its_own_connection, unbound(name))
        return lines

    assert [orjson.loads(line)["object"]["data"]["key"] for line in asyncio.run(drain())] == ["second"]


def changed_to(text: str, doc: Doc) -> None:
    doc["data"]["key"] = text


def in_its_own_connection(act: Callable[[], object]) -> None:
    try:
        act()
    finally:
        connections.close_all()
