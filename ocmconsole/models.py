"""Rows of the console itself."""

from __future__ import annotations

import hashlib
from typing import Any

from django.conf import settings
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models

DIGEST_LENGTH = 40  # hexadecimal digits: 160 bits, as many as a key of Django's has


class Preferences(models.Model):
    """How a person wants pages to be, in every browser; ``preferences`` says what may be in it."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True)
    values = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"preferences of {self.user}"


class DemoFleet(models.Model):
    """The demonstration fleet of this hub: one row (``pk`` 1), from when it is asked for until it is removed.

    ``clusters`` maps the names of its clusters to what ``demo.live.planned`` says of each; of a fleet that ``manage.py
    demo`` made the values are empty. ``made`` maps a kind of thing (``sets``, ``tokens``, ``users`` …) to the names of
    those that were made beside the clusters. ``origin`` are fields of ``Actor`` of the request. ``problem`` says why
    nothing goes on.
    """

    class State(models.TextChoices):
        MAKING = "making"
        COMPLETE = "complete"
        REMOVING = "removing"

    state = models.CharField(max_length=16, choices=State)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    origin = models.JSONField(default=dict)
    clusters = models.JSONField(default=dict)
    made = models.JSONField(default=dict)
    created = models.DateTimeField()
    problem = models.TextField(blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"demonstration fleet of {len(self.clusters)} clusters, {self.state}"


class StoredKey(str):
    """The digest of a session key, as it was read from the database. It opens no session."""

    __slots__ = ()

    @classmethod
    def of(cls, key: str) -> StoredKey:
        return cls(hashlib.sha256(key.encode()).hexdigest()[:DIGEST_LENGTH])


class KeyField(models.CharField[str, str]):
    """A session key, of which the database gets the digest: every text but a ``StoredKey`` is taken for a key."""

    def get_prep_value(self, value: Any) -> Any:
        return value if value is None or isinstance(value, StoredKey) else StoredKey.of(str(value))

    def from_db_value(self, value: str | None, *_: object) -> StoredKey | None:
        return None if value is None else StoredKey(value)


class Session(AbstractBaseSession):
    """A browser's session (``signin.sessions``). What is not known is empty, as before somebody has signed in."""

    session_key = KeyField(max_length=DIGEST_LENGTH, primary_key=True)
    # Without a constraint: a page that ends after its account was deleted must not fail.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    address = models.CharField(max_length=64)
    user_agent = models.CharField(max_length=256)
    began = models.DateTimeField(null=True)

    class Meta(AbstractBaseSession.Meta):
        default_permissions = ()

    def __str__(self) -> str:
        return f"session of {self.user or 'nobody'}"

    @classmethod
    def get_session_store_class(cls) -> Any:
        from ocmconsole.signin.sessions import SessionStore  # noqa: PLC0415 - which imports this module

        return SessionStore

    def get_decoded(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get_session_store_class()(self.session_key).decode(self.session_data)
        return found

    def belongs_to(self, key: str) -> bool:
        """Whether it is the session of that key."""
        return bool(self.session_key == StoredKey.of(key))
