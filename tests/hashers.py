"""Passwords of tests: hashed as the hub hashes them, in a millisecond instead of half a second of CPU time."""

from __future__ import annotations

from django.contrib.auth.hashers import Argon2PasswordHasher


class CheapArgon2(Argon2PasswordHasher):
    """The same algorithm with the least work that it allows. Served hubs hash with Django's own parameters."""

    time_cost = 1
    memory_cost = 8  # KiB
    parallelism = 1
