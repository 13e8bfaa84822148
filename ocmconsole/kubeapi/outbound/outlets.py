"""Where the audit goes: the outlets that the settings name, each with its receiver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from ocmconsole.kubeapi.outbound import batches
from ocmconsole.kubeapi.outbound.files import FileReceiver
from ocmconsole.kubeapi.outbound.syslog import SyslogReceiver
from ocmconsole.kubeapi.outbound.webhooks import Webhook

if TYPE_CHECKING:
    from ocmconsole.kubeapi.models import OutboundPosition
    from ocmconsole.kubeapi.outbound.delivery import OutboundBatch, Receiver

FILE, SYSLOG, WEBHOOK = "file", "syslog", "webhook"
ANCHOR_FILE, ANCHOR_WEBHOOK = "anchor-file", "anchor-webhook"


@dataclass(frozen=True, slots=True)
class Outlet:
    """Of the audit; all of ``delivery.Sent``."""

    name: str
    receiver: Receiver
    seals_only: bool = False

    def next_batch(self, position: OutboundPosition) -> OutboundBatch:
        return batches.next_batch(position, seals_only=self.seals_only)

    def note(self, batch: OutboundBatch, problem: str, *, is_final: bool = False) -> bool:  # noqa: ARG002 - as of all that is sent
        """The position says it all, and nothing of the audit is left out."""
        return False


def configured() -> list[Outlet]:
    """Empty for a hub that keeps its audit to itself."""
    found = []
    if path := settings.OCMCONSOLE_AUDIT_STREAM:
        found.append(Outlet(FILE, FileReceiver(path)))
    if target := settings.OCMCONSOLE_AUDIT_SYSLOG:
        found.append(Outlet(SYSLOG, SyslogReceiver(target, settings.OCMCONSOLE_HUB_NAME)))
    if url := settings.OCMCONSOLE_AUDIT_WEBHOOK:
        found.append(Outlet(WEBHOOK, _webhook(url, "audit")))
    if path := settings.OCMCONSOLE_AUDIT_ANCHOR:
        found.append(Outlet(ANCHOR_FILE, FileReceiver(path), seals_only=True))
    if url := settings.OCMCONSOLE_AUDIT_ANCHOR_WEBHOOK:
        found.append(Outlet(ANCHOR_WEBHOOK, _webhook(url, "audit.anchor"), seals_only=True))
    return found


def _webhook(url: str, kind: str) -> Webhook:
    return Webhook(
        url,
        kind,
        settings.OCMCONSOLE_AUDIT_WEBHOOK_SECRET,
        private=settings.OCMCONSOLE_WEBHOOK_PRIVATE_ADDRESSES,
        ca_file=settings.OCMCONSOLE_WEBHOOK_CA_FILE,
    )


def streaming() -> list[str]:
    """Names of those that are given entries."""
    return [outlet.name for outlet in configured() if not outlet.seals_only]
