"""Django's PostgreSQL, whose waiting ends when the server is known to be away.

``statement_timeout`` is kept by the server: one that is frozen, or cut off without a word, lets its clients wait for
ever. Here a waiting thread looks ten times a second at what the probes have found (``outages``), and then closes its
connection: a commit that was already sent may have happened, everything else has not. Named as ENGINE by settings.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import psycopg
from django.db.backends.postgresql import base, schema
from psycopg.waiting import READY_NONE

from ocmconsole.kubeapi.health import outages

if TYPE_CHECKING:
    from psycopg.abc import RV, PQGen

LOOK_SECONDS = 0.1  # between two looks whether the database is known to be away


class BoundedConnection(psycopg.Connection[Any]):
    """Raises psycopg.OperationalError from any statement that waits in vain."""

    def wait(self, gen: PQGen[RV], interval: float = LOOK_SECONDS, timeout: float | None = None) -> RV:
        return super().wait(self._watched(gen), interval, timeout)

    def _watched(self, gen: PQGen[RV]) -> PQGen[RV]:
        """Within psycopg, which says each ``interval`` that nothing has come."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready == READY_NONE and _in_vain():
                    self.close()
                    raise psycopg.OperationalError(outages.AWAY)
                wanted = gen.send(ready)
        except StopIteration as done:
            result: RV = done.value
            return result


def _in_vain() -> bool:
    until = getattr(outages.deadline, "at", None)
    return bool(outages.state.away) if until is None else monotonic() > until


class SchemaEditor(schema.DatabaseSchemaEditor):
    """A migration may take as long as it takes."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.execute("SET statement_timeout = 0")
        return self


class DatabaseWrapper(base.DatabaseWrapper):
    SchemaEditorClass = SchemaEditor

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        connection.__class__ = BoundedConnection  # the same in memory; Django cannot be given a class to connect with
        return connection
