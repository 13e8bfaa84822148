"""Roles and bindings are read when a server starts, so that its first requests do not wait for that.

Called by the command ``serve``. Where a server is started otherwise, the first request reads them (``rule_index``).
"""

from __future__ import annotations

import logging
import threading

from django.db import connection

from ocmconsole.core.rbac import rule_index
from ocmconsole.kubeapi.health import probes

log = logging.getLogger(__name__)

THREAD = "rights"
UNREAD = "roles and bindings are being read"

_is_under_way = threading.Event()


def begin(patience: float) -> None:
    """Returns when all are read, or after so many seconds: it goes on, and ``/readyz`` says so until it has ended."""
    _is_under_way.set()
    thread = threading.Thread(target=_read, name=THREAD, daemon=True)
    thread.start()
    thread.join(patience)


def _read() -> None:
    try:
        rule_index.index.catch_up()
    except Exception:  # the first request tries again, and answers for it
        log.exception("roles and bindings could not be read at the start")
    finally:
        _is_under_way.clear()
        connection.close()


def trouble() -> str:
    """Why requests would wait, or nothing."""
    return UNREAD if _is_under_way.is_set() else ""


probes.register("rights", trouble, needs_database=False)
