"""Signing in with django-allauth, as this hub wants it (ADR 14).

A view that needs a person who has just proven who he is asks ``recently_authenticated(request)`` and otherwise returns
``authenticate_again(request)``.
"""

from __future__ import annotations

from ocmconsole.signin.stepup import authenticate_again, recently_authenticated

__all__ = ["authenticate_again", "recently_authenticated"]
