"""How a Celery worker takes pokes from Redis."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import redis
from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined] # missing in its stubs
from django.db import connection
from kombu import Connection, Queue

from ocmconsole.celery import Transport, app
from tests import servers


@pytest.mark.contract("W163")
def test_a_poke_that_was_taken_is_kept_nowhere_and_put_back_by_nobody() -> None:
    with ExitStack() as stack:
        url = stack.enter_context(servers.redis_server())
        broker = Connection(url, transport=Transport, transport_options=app.conf.broker_transport_options)
        queue, taken = Queue("pokes"), list[str]()
        broker.Producer().publish("poke", routing_key=queue.name, declare=[queue])
        with broker.Consumer(queue, callbacks=[lambda body, _: taken.append(body)]):
            broker.drain_events(timeout=60)
        keys = stack.enter_context(redis.Redis.from_url(url))
        assert taken == ["poke"]  # without an acknowledgement
        assert not keys.exists("unacked", "unacked_index")
        broker.close()
        assert keys.llen(queue.name) == 0


@pytest.mark.django_db(transaction=True)
def test_a_thread_of_a_worker_keeps_its_connection_to_the_database() -> None:
    connection.ensure_connection()
    before = connection.connection
    DjangoWorkerFixup(app).close_database()  # before and after each task
    connection.ensure_connection()
    assert connection.connection is before
