"""Signing in with django-allauth, as this hub wants it (ADR 14).

Requests that need a fresh proof of who is signed in are listed in ``stepup.ACTS``.
"""

from __future__ import annotations

from ocmconsole.signin.stepup import recently_authenticated

__all__ = ["recently_authenticated"]
