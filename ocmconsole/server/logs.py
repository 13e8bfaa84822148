"""What the log looks like: key=value lines, or JSON for machines (OCMCONSOLE_LOG_FORMAT), with the request's id.

Invariant: a value whose name says that it is a secret is not written. Used by settings; loggers are those of the
standard library.
"""

from __future__ import annotations

import re
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

SECRET = re.compile(r"password|passwd|secret|token|authorization|cookie|credential|private_?key", re.IGNORECASE)
HIDDEN = "***"
FIRST = ["time", "level", "logger", "event", "request_id"]


def hide_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    for name in event:
        if SECRET.search(name):
            event[name] = HIDDEN
    return event


def config(form: str) -> dict[str, Any]:
    """``form`` is ``text`` or ``json``."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    last = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.processors.LogfmtRenderer(key_order=FIRST, drop_missing=True, bool_as_flag=False)
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": shared,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        # A refusal is an answer: clients ask for what may not be there all the time.
        "loggers": {"django.request": {"level": "ERROR"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
    }
