"""One API request as the view has read it so far."""

from __future__ import annotations

from dataclasses import dataclass

from rest_framework.request import Request

from ocmconsole.kubeapi import authz, kinds, negotiation
from ocmconsole.kubeapi.actor import Actor
from ocmconsole.kubeapi.kinds import Key
from ocmconsole.kubeapi.requestinfo import RequestInfo


@dataclass(slots=True)
class Call:
    """One request, read so far: who asks what about which kind, and in which form the answer goes out."""

    request: Request
    actor: Actor
    info: RequestInfo
    decision: authz.AccessDecision
    served: kinds.Served
    answer: negotiation.ResponseForm

    @property
    def key(self) -> Key:
        return Key(self.info.namespace, self.info.name)
