"""A request whose client has gone away changes nothing: its retry may be done already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connections, transaction

from ocmconsole.core.kinds import CONFIG_MAP
from ocmconsole.core.models import ServiceAccount
from ocmconsole.core.tokens import token_formats, tokens
from ocmconsole.kubeapi import verbs
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.models import Revision
from ocmconsole.kubeapi.storage import reader
from ocmconsole.server.request_threads import RequestThreads
from tests.actors import ROOT, grant, person, rule
from tests.serving.listening import Site, listening, read_until
from tests.serving.test_request_threads import HEAD_END, eventually, get

pytestmark = pytest.mark.django_db(transaction=True)

MAP = Key("default", "settings")
PATH = "/api/v1/namespaces/default/configmaps/settings"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The API on two threads."""
    from ocmconsole import asgi
    from registration import hub_setup

    hub_setup.ensure_hub()
    grant(person(f"{token_formats.SERVICE_ACCOUNT_PREFIX}default:default"), rule("get update", "configmaps"))
    document = {"metadata": {"name": MAP.name}, "data": {"by": "nobody"}}
    verbs.create(ROOT, CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", **document}, namespace=MAP.namespace)
    application = asgi.api_application
    monkeypatch.setattr(application, "pool", ThreadPoolExecutor(2))
    with listening(application, loop="uvloop") as site:
        yield site
    application.is_stopping = False
    both = Barrier(2)

    def close() -> None:
        both.wait(timeout=60)  # else one thread might do it twice
        connections.close_all()

    for closed in [application.pool.submit(close) for _ in range(2)]:
        closed.result()
    application.pool.shutdown()


@pytest.fixture
def token(site: Site) -> str:
    account = ServiceAccount.objects.get(namespace="default", name="default")
    return tokens.issue_account_token(ROOT, account, timedelta(hours=1))[0]


def put(by: str, token: str) -> bytes:
    body = json.dumps({"metadata": {"name": MAP.name}, "data": {"by": by}}).encode()
    lines = f"Content-Length: {len(body)}", "Content-Type: application/json", f"Authorization: Bearer {token}"
    return get(PATH, *lines, method="PUT") + body


def stored() -> str:
    row = reader.read_row(CONFIG_MAP, MAP)
    assert row is not None
    return str(json.loads(row.wire)["data"]["by"])


def test_what_a_client_gave_up_does_not_commit_after_its_retry(site: Site, token: str) -> None:
    """The first PUT waits for the database until its client has gone; the retry of the same client is what stays."""
    application = site.listener.app
    assert isinstance(application, RequestThreads)
    with transaction.atomic(durable=True):
        Revision.take(0)  # a writer that takes its time
        with site.connect() as first:
            first.sendall(put("the first try", token))
            assert eventually(lambda: application.pool._work_queue.empty() and is_busy(application))
        assert eventually(lambda: not site.listener.server_state.connections)
    with site.connect() as second:
        second.sendall(put("the retry", token))
        assert b" 200 OK" in read_until(second, HEAD_END)
    assert eventually(lambda: not is_busy(application))
    assert stored() == "the retry"


def test_nor_without_one(site: Site, token: str) -> None:
    application = site.listener.app
    assert isinstance(application, RequestThreads)
    with transaction.atomic(durable=True):
        Revision.take(0)
        with site.connect() as first:
            first.sendall(put("the first try", token))
            assert eventually(lambda: is_busy(application))
        assert eventually(lambda: not site.listener.server_state.connections)
    assert eventually(lambda: not is_busy(application))
    assert stored() == "nobody"


def is_busy(application: RequestThreads) -> bool:
    """A thread of the pool is in a request."""
    return application.intake.known.total + application.intake.strangers.total > 0
