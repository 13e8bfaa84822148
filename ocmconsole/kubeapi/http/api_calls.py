"""One API request as the view has read it so far."""

from __future__ import annotations

from dataclasses import dataclass

from rest_framework.request import Request

from ocmconsole.kubeapi import kinds
from ocmconsole.kubeapi.access import authorization
from ocmconsole.kubeapi.access.actor import Actor
from ocmconsole.kubeapi.http.hooks import DocumentRenderer
from ocmconsole.kubeapi.http.request_info import RequestInfo
from ocmconsole.kubeapi.kinds import Key


@dataclass(slots=True)
class Call:
    """One request, read so far: who asks what about which kind, and what writes the response."""

    request: Request
    actor: Actor
    info: RequestInfo
    decision: authorization.AccessDecision
    served: kinds.Served
    renderer: DocumentRenderer

    @property
    def key(self) -> Key:
        return Key(self.info.namespace, self.info.name)
