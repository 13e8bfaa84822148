"""Sending: one batch at a time for each outlet, in a thread of its own, so that no receiver holds up anything else."""

from __future__ import annotations

import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING

from django.db import DatabaseError, close_old_connections

from ocmconsole.kubeapi import clock, errors
from ocmconsole.kubeapi.health import outages
from ocmconsole.kubeapi.outbound import positions
from ocmconsole.kubeapi.outbound.delivery import DeliveryError
from ocmconsole.kubeapi.storage import incarnations

if TYPE_CHECKING:
    import threading

    from ocmconsole.kubeapi.models import OutboundPosition
    from ocmconsole.kubeapi.outbound.delivery import Sent

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two looks at what is new
AFTER_ERROR_SECONDS = 5.0  # of the database, or of the hub itself


def follow(outlet: Sent, stopping: threading.Event) -> None:
    """Until ``stopping`` is set."""
    sender, pause, is_first = str(uuid.uuid4()), 0.0, True
    while not stopping.wait(pause):
        close_old_connections()
        try:
            if is_first:
                positions.try_at_once(outlet.name)
                is_first = False
            pause = 0.0 if send_next(outlet, sender) else LOOK_SECONDS
        except (DatabaseError, errors.ApiError) as error:  # the probes say so
            log.warning("the outlet %s waits for the database: %s", outlet.name, error)
            pause = AFTER_ERROR_SECONDS
        except Exception:  # the next look may do better
            log.exception("the outlet %s failed", outlet.name)
            pause = AFTER_ERROR_SECONDS


def send_next(outlet: Sent, sender: str) -> bool:
    """Send what comes next; whether the receiver took something. ``sender`` is this thread of all processes.

    Nothing in a hub that was restored and not activated, or of which a newer incarnation has begun (D28).
    """
    if outages.state.only_reads or incarnations.is_quiet():
        return False
    row, now = positions.position_of(outlet.name), clock.now()
    if not positions.is_due(row, now):
        return False
    batch = outlet.next_batch(row)
    if not batch.lines or not positions.claim(row, sender):
        return False
    try:
        outlet.receiver.deliver(batch.lines)
    except (DeliveryError, OSError) as error:
        problem = _problem_of(error)
        retry_after, is_final = getattr(error, "retry_after", None), getattr(error, "is_final", False)
        note = partial(outlet.note, batch, problem, is_final=is_final)
        positions.put_off(row, sender, problem, retry_after, note)
        _say(outlet, row, problem)
        return False
    positions.advance(row, sender, batch, lambda: outlet.note(batch, ""))
    _say(outlet, row, "")
    return True


def _problem_of(error: DeliveryError | OSError) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__


def _say(outlet: Sent, row: OutboundPosition, problem: str) -> None:
    """A line in the log when it changes whether the receiver takes anything; ``row`` is from before."""
    if problem and problem != row.problem:
        log.warning("the outlet %s is behind: %s", outlet.name, problem)
    elif row.problem and not problem:
        log.info("the outlet %s goes on, after %d failures", outlet.name, row.failures)
