"""Which lines come next for an outlet: entries in their order, each seal right behind the last entry that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocmconsole.kubeapi.models import AuditEvent, AuditSeal
from ocmconsole.kubeapi.outbound.delivery import OutboundBatch
from ocmconsole.kubeapi.outbound.lines import entry_line, seal_line
from ocmconsole.kubeapi.storage import incarnations

if TYPE_CHECKING:
    from ocmconsole.kubeapi.models import OutboundPosition
    from ocmconsole.kubeapi.outbound.delivery import OutboundLine

# D23: what an outlet holds in memory and a receiver is given at once.
MOST_LINES = 500
MOST_BYTES = 512 * 1024  # many receivers refuse a body of more than a MiB
AT_ONCE = 50  # entries of one query


def next_batch(position: OutboundPosition, *, seals_only: bool) -> OutboundBatch:
    """Empty where the receiver has everything."""
    entry, seal, hub = position.entry, position.seal, incarnations.hub_uid()
    lines: list[OutboundLine] = []
    size = 0
    while len(lines) < MOST_LINES and size < MOST_BYTES:
        following = AuditSeal.objects.filter(number__gt=seal).order_by("number").first()
        found = [] if seals_only else _entries(entry, following)
        for row in found:
            lines.append(entry_line(row, hub))
            entry, size = row.pk, size + len(lines[-1].body)
            if len(lines) >= MOST_LINES or size >= MOST_BYTES:
                break
        if found:
            continue
        if following is None:
            break
        lines.append(seal_line(following, hub, with_counts=not seals_only))
        entry, seal, size = max(entry, following.last), following.number, size + len(lines[-1].body)
    return OutboundBatch(tuple(lines), entry, seal)


def _entries(after: int, seal: AuditSeal | None) -> list[AuditEvent]:
    rows = AuditEvent.objects.filter(pk__gt=after)
    return list((rows.filter(pk__lte=seal.last) if seal else rows).order_by("pk")[:AT_ONCE])
