"""Refusals as a page says them."""

from __future__ import annotations

import re

FULFILLED = re.compile(r'\AOperation cannot be fulfilled on \S+ "[^"]*": ')
DENIED = re.compile(r'\Aadmission webhook "[^"]*" denied the request: ')


def plain(message: str) -> str:
    """Without the API's preamble or the webhook that upstream has before its reason (A0): neither is for a reader."""
    return DENIED.sub("", FULFILLED.sub("", message))
