"""Signing in with django-allauth, as this hub wants it (ADR 14).

In: requests of allauth's pages, a password, a passkey or an account of a provider. Out: a session, an audit entry for
each success and refusal. Called by allauth through its settings and signals; ``recently_authenticated`` by pages that
need a fresh proof of who is signed in (listed in ``stepup.ACTS``).
"""

from __future__ import annotations

from ocmconsole.signin.stepup import recently_authenticated

__all__ = ["recently_authenticated"]
