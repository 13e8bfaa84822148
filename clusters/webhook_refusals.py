"""The form in which OCM's rules refuse: as an upstream admission webhook does (A0). Pure; called by rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.kinds import GROUP
from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from ocmconsole.kubeapi.errors import Cause

CLUSTER_WEBHOOK = f"managedclustervalidators.admission.{GROUP}"
CLUSTER_MUTATING_WEBHOOK = f"managedclustermutators.admission.{GROUP}"
BINDING_WEBHOOK = f"managedclustersetbindingvalidators.admission.{GROUP}"


def bad_request(webhook: str, text: str) -> errors.BadRequest:
    return errors.BadRequest(_denied(webhook, text))


def webhook_forbidden(webhook: str, resource: str, name: str, text: str) -> errors.Forbidden:
    """``resource`` is a virtual one such as ``managedclusters/accept``."""
    message = f'{resource}.{GROUP} "{name}" is forbidden: {text}'
    return errors.Forbidden(_denied(webhook, message), details={"name": name, "group": GROUP, "kind": resource})


def webhook_invalid(webhook: str, kind: str, name: str, cause: Cause) -> errors.Invalid:
    refusal = errors.is_invalid(GROUP, kind, name, [cause])
    refusal.message = _denied(webhook, refusal.message)
    return refusal


def _denied(webhook: str, text: str) -> str:
    return f'admission webhook "{webhook}" denied the request: {text}'
