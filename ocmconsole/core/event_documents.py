"""Documents of Events that controllers record (core/v1 spelling, as they are stored)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from ocmconsole.core.kinds import EVENT
from ocmconsole.kubeapi.schema import times

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.kinds import Kind


def object_reference(kind: Kind, name: str, namespace: str, uid: str) -> Doc:
    """An ObjectReference; without ``uid`` where it is empty."""
    reference = {"apiVersion": kind.storage.api_version, "kind": kind.kind, "name": name, "namespace": namespace}
    return reference | ({"uid": uid} if uid else {})


def event_document(
    name: str,
    regarding: Doc,
    *,
    type_: str,
    reason: str,
    action: str,
    message: str,
    reporter: str,
    now: datetime,
) -> Doc:
    """An Event that has happened once. ``type_``: ``Normal`` or ``Warning``."""
    stamp = times.timestamp(now)
    return {
        "apiVersion": EVENT.storage.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": name},
        "involvedObject": regarding,
        "type": type_,
        "reason": reason,
        "action": action,
        "message": message,
        "eventTime": times.micro_timestamp(now),
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "reportingComponent": reporter,
        "reportingInstance": reporter,
        "source": {},
    }
