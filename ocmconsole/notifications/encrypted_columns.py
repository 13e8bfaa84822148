"""Addresses and secrets of channels, as the database holds them: encrypted, and bound to the channel (ADR 24)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocmconsole.kubeapi.encryption import places, stored_text
from ocmconsole.kubeapi.encryption.places import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocmconsole.kubeapi.encryption.places import Place
    from ocmconsole.models import NotificationChannel

CHANNEL = "notification channel"
COLUMNS = ("address", "secret", "former_secret")


def encrypted(channel: str, column: str, text: str) -> str:
    """Empty stays empty."""
    return stored_text.encrypt(text, CHANNEL, channel, column) if text else ""


def read(channel: NotificationChannel, column: str) -> str:
    """Raises Unreadable."""
    text = getattr(channel, column)
    return stored_text.decrypt(stored_text.kept(text), CHANNEL, channel.name, column) if text else ""


def of_channels() -> Sequence[Place]:
    from ocmconsole.models import NotificationChannel  # noqa: PLC0415 - it is declared before there are models

    table = NotificationChannel._meta.db_table  # noqa: SLF001 - Django's documented name
    return [
        Column(f"notification channels, {column}", table, "name", column, ("name",), (CHANNEL,), (column,))
        for column in COLUMNS
    ]


places.declare(of_channels)
