"""Signatures of webhooks by the scheme of Standard Webhooks (https://www.standardwebhooks.com), symmetric, version 1.

Secrets are written as there: ``whsec_`` and base64. While a secret is replaced both sign. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64  # bytes of a secret, as the scheme says


def secret_of(text: str) -> bytes:
    """Raises ValueError."""
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("it is not base64") from error
    if not text.startswith(PREFIX) or not SHORTEST <= len(secret) <= LONGEST:
        raise ValueError(f"it must be {PREFIX} and {SHORTEST} to {LONGEST} random bytes in base64")
    return secret


def signed_headers(secrets: Iterable[bytes], message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """``message`` is the id by which a receiver knows one that it has seen."""
    signed = f"{message}.{timestamp}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in secrets]
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
