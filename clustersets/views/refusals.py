"""Refusals of the rules as a page says them."""

from __future__ import annotations


def plain(message: str) -> str:
    """Without the webhook that upstream has before its reason (A0), which means nothing to a reader of a page."""
    return message.partition(" denied the request: ")[2] or message
