"""Passwords of tests: hashed as the hub hashes them, in a millisecond instead of half a second of CPU time."""

from __future__ import annotations

from django.contrib.auth.hashers import Argon2PasswordHasher


class CheapArgon2(Argon2PasswordHasher):
    """The same algorithm with the least work that it allows. With ``FULL=1`` programs have Django's own parameters."""

    time_cost = 1
    memory_cost = 8  # KiB
    parallelism = 1


def cheap(hashers: list[str]) -> list[str]:
    """The setting, with the cheap one for Argon2, which must be its first."""
    first, *others = hashers
    assert first == "django.contrib.auth.hashers.Argon2PasswordHasher"
    return ["tests.hashers.CheapArgon2", *others]
