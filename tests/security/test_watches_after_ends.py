"""An open watch shows nothing that came after a right has ended, whatever was given meanwhile; each end is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.db import connections
from django.test import RequestFactory

from clusters.addons.addon_kinds import MANIFEST_WORK
from clusters.kinds import MANAGED_CLUSTER
from clusters.models import ClusterPermission
from clustersets.kinds import MANAGED_CLUSTER_SET
from clustersets.models import SetPermission
from ocmconsole.accounts import permissions
from ocmconsole.core.kinds import CLUSTER_ROLE_BINDING, CONFIG_MAP, ROLE_BINDING
from ocmconsole.kubeapi import kinds, verbs
from ocmconsole.kubeapi.kinds import Key, Kind
from ocmconsole.kubeapi.watch import change_log, follower, stream_response
from ocmconsole.server import listeners
from tests import factories as make
from tests.actors import ROOT, grant, person, rule
from tests.security.callers import API, Caller, agent_of, holder
from tests.watch.inside import LONGEST, apart, when

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract("W12")]

HOLD = ["cluster.open-cluster-management.io/manifest-work-cleanup"]
WORKS = "/apis/work.open-cluster-management.io/v1/namespaces/edge/manifestworks?"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(autouse=True)
def one_reader(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log is read on one thread, so that its connection to the database can be closed."""
    make.started(settings.OCMCONSOLE_HOME)
    make.cluster("other", accepted=True)  # so that no shared role comes or goes
    make.settle()
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(follower, "_threads", pool)
        yield
        pool.submit(connections.close_all).result()


def shown(caller: Caller, path: str, *acts: Callable[[], object]) -> list[tuple[str, str]]:
    """Type and name of what a watch shows that is open while these act, one after the other."""
    answer = listeners.api_response(
        RequestFactory(**API, **caller.environ).get(
            f"{path}&watch=true&resourceVersion={change_log.newest_revision()}&timeoutSeconds=600"
        )
    )
    assert isinstance(answer, stream_response.AsyncStreamResponse), answer.status_code
    lines: list[bytes] = []

    async def drain() -> None:
        async for line in answer.stream:
            lines.append(line)  # noqa: PERF401 - what has come until it is cancelled

    async def follow() -> None:
        task = asyncio.create_task(drain())
        async with asyncio.timeout(LONGEST):
            await when(is_waiting)
            for act in acts:
                await apart(act)
            newest = await follower.in_thread(change_log.newest_revision)
            await when(lambda: follower.follower().revision >= newest)
            await follower.in_thread(change_log.head)  # behind what the stream asks on that thread
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(follow())
    events = [orjson.loads(line) for line in lines]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def is_waiting() -> bool:
    """The stream has sent all that was before."""
    return any(each.push is not None for some in follower.follower()._listeners.values() for each in some)


def path_of(kind: Kind, name: str) -> str:
    return f"/apis/{kind.storage.api_version}/{kind.plural}?fieldSelector=metadata.name%3D{name}"


@pytest.mark.contract("D16")
@pytest.mark.parametrize(
    ("kind", "make_one", "permission"),
    [
        (MANAGED_CLUSTER, make.cluster, ClusterPermission.VIEW),
        (MANAGED_CLUSTER_SET, make.clusterset, SetPermission.VIEW),
    ],
    ids=["cluster", "set"],
)
def test_who_might_see_an_object_does_not_see_another_of_its_name(
    kind: Kind, make_one: Callable[[str], object], permission: Any
) -> None:
    make_one("one")
    make.settle()
    User.objects.create_user("ana")
    permissions.grant_permission(
        ROOT, permission, to=User.objects.get(username="ana"), obj=kind.model.objects.get(name="one")
    )
    ana = holder("ana")
    acts = (
        partial(verbs.delete, make.ADMIN, kind, Key("", "one")),
        make.settle,
        partial(make.joined, "newcomer"),
        partial(make_one, "one"),
    )
    *before, last = shown(ana, path_of(kind, "one"), *acts)
    assert {type_ for type_, _ in before} <= {"MODIFIED"}  # finalizers
    assert last == ("DELETED", "one")
    assert ana.get(path_of(kind, "one").replace("?fieldSelector=metadata.name%3D", "/")).code == 403


def test_each_kind_on_whose_objects_permissions_are_held_says_so() -> None:
    holding = {
        kind.kind
        for kind in kinds.all_kinds()
        if any(hasattr(each.related_model, "content_object") for each in kind.model._meta.related_objects)
    }
    assert holding == {kind.kind for kind in kinds.all_kinds() if kind.has_permissions} != set()


@pytest.mark.contract("D20")
def test_a_watch_of_what_is_being_deleted_ends_when_its_agent_may_see_more() -> None:
    """It has left out what the agent may see now, and its client would come back from behind that."""
    make.cluster("edge", accepted=True)
    make.settle()
    for name in ("ending", "later"):
        make.work("edge", name, finalizers=HOLD)
    agent = agent_of("edge")
    make.accept("edge", accepts=False)
    make.settle()
    verbs.delete(make.ADMIN, MANIFEST_WORK, Key("edge", "ending"))
    binding = make.document(ROLE_BINDING, "by-hand") | {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "open-cluster-management:managedcluster:work"},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:open-cluster-management:edge"}],
    }
    acts = (
        partial(make.create, ROLE_BINDING, binding, namespace="edge"),
        partial(make.work, "edge", "live", finalizers=HOLD),
        partial(verbs.delete, make.ADMIN, MANIFEST_WORK, Key("edge", "later")),
    )
    assert shown(agent, WORKS, *acts) == []


def test_a_right_that_ends_while_the_watch_is_being_opened_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the question whether the watch is permitted, and before it is noted as of when that was so."""
    make.namespace("team")
    name = grant(person("ana"), rule("list watch", "configmaps"))
    counts = change_log.rights_counts

    def later() -> change_log.RightsCounts:
        monkeypatch.setattr(change_log, "rights_counts", counts)
        verbs.delete(ROOT, CLUSTER_ROLE_BINDING, Key("", name))
        return counts()

    ana = holder("ana")
    monkeypatch.setattr(change_log, "rights_counts", later)
    new = partial(make.create, CONFIG_MAP, make.document(CONFIG_MAP, "new"), namespace="team")
    assert shown(ana, "/api/v1/namespaces/team/configmaps?", new) == []
    assert change_log.rights_counts is counts
