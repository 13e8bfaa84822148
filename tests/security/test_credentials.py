"""Credentials that end: nothing goes on with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import RequestFactory

from ocmconsole.core.tokens import tokens
from ocmconsole.kubeapi.watch import follower, stream_response, streams
from ocmconsole.server import listeners
from tests.actors import ROOT, grant, person, rule
from tests.security.callers import API, CLUSTERS, Caller, bearer, holder

pytestmark = pytest.mark.usefixtures("fresh_hub")


def question(caller: Caller, path: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An open watch's own question, whether it may go on, to be asked here: in the transaction of the test."""
    asked: list[Any] = []

    async def nothing() -> AsyncIterator[bytes]:
        yield b""

    def events(stream: streams.Stream) -> AsyncIterator[bytes]:
        asked.append(stream.may_go_on)
        return nothing()

    monkeypatch.setattr(streams.Stream, "events", events)
    request = RequestFactory(**API, **caller.environ).get(f"{path}{'&' if '?' in path else '?'}watch=true")
    assert isinstance(listeners.api_response(request), stream_response.AsyncStreamResponse)
    (in_thread,) = asked
    assert in_thread.func is follower.in_thread
    return partial(*in_thread.args, **in_thread.keywords)


def test_a_watch_ends_with_its_bootstrap_token(monkeypatch: pytest.MonkeyPatch) -> None:
    token = tokens.issue_bootstrap_token(ROOT, ttl=timedelta(hours=1))
    may_go_on = question(bearer(token), CLUSTERS, monkeypatch)
    assert may_go_on()
    tokens.revoke_bootstrap_token(ROOT, token.split(".")[0])
    assert not may_go_on()


def test_a_watch_ends_with_the_person_who_opened_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ana = get_user_model().objects.create_user("ana")
    grant(person("ana"), rule("list watch", "managedclusters", groups="cluster.open-cluster-management.io"))
    may_go_on = question(holder("ana"), CLUSTERS, monkeypatch)
    assert may_go_on()
    ana.is_active = False
    ana.save()
    assert not may_go_on()
    assert holder("ana").get(CLUSTERS).code == 401


def test_a_bad_credential_is_never_anonymous() -> None:
    for header in ("Bearer nonsense", "Bearer a.b.c", "Bearer abcdef.0123456789abcdef", "Basic YTpi", "Bearer"):
        assert Caller({"HTTP_AUTHORIZATION": header}).get("/version").code == 401
    assert Caller({"ocmconsole.peer_certificate": b"no certificate"}).get("/version").code == 401
