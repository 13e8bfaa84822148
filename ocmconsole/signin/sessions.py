"""Django's database sessions with keys that are stored as digests (SESSION_ENGINE), and the sessions of a person.

Invariant: what the database holds signs nobody in. Only the cookie has the key; ``models.KeyField`` turns each key that
reaches a query into its digest, also one that was read from the database and sent back.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from time import time
from typing import TYPE_CHECKING, Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends import db

from ocmconsole.kubeapi import clock, verbs
from ocmconsole.kubeapi.encryption import stored_text
from ocmconsole.kubeapi.storage import only_reads
from ocmconsole.signin import encrypted_rows
from ocmconsole.signin.lifetime import BEGAN, ends

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from ocmconsole.models import Session

log = logging.getLogger(__name__)

SEEN = "session_seen"  # address and browser of the sign-in


class SessionStore(db.SessionStore):
    """Raises what Django's does: UpdateError for a session that was ended meanwhile."""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        from ocmconsole.models import Session  # noqa: PLC0415 - Django imports the engine before there are models

        return Session

    @staticmethod
    def expires_at(session: Any) -> float:
        """Seconds since the epoch, by what is loaded of a session of any engine.

        ``kubeapi.access.session`` calls it.
        """
        return time() + ends(session).soonest

    def save(self, must_create: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's own
        """In a hub that only reads sessions go on as they are until they end, and none begins (D28)."""
        if not only_reads.is_set():
            super().save(must_create)

    def delete(self, session_key: str | None = None) -> None:
        """A session of a person is a credential: no write of it is committed after its end."""
        key = session_key or self.session_key
        if key is None or only_reads.is_set():
            return
        if self.get_model_class().objects.filter(session_key=key, user__isnull=False).exists():
            with verbs.changing_rights():
                super().delete(key)
        else:
            super().delete(key)

    def encode(self, session_dict: dict[str, Any]) -> str:
        """What waits in it may be a secret: that of an authenticator app which is being added."""
        return stored_text.encrypt(super().encode(session_dict), encrypted_rows.SESSION, self._stored_key())

    def decode(self, session_data: str | bytes) -> dict[str, Any]:
        """One that cannot be read is none: the person signs in again."""
        try:
            text = stored_text.decrypt(stored_text.kept(str(session_data)), encrypted_rows.SESSION, self._stored_key())
        except stored_text.Unreadable as error:
            log.warning("a session cannot be read: %s", error.message)
            return {}
        found: dict[str, Any] = super().decode(text)
        return found

    def _stored_key(self) -> str:
        from ocmconsole.models import StoredKey  # noqa: PLC0415 - as in get_model_class

        key = self.session_key or ""
        return key if isinstance(key, StoredKey) else StoredKey.of(key)

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        return _described(super().create_model_instance(data), data)

    async def acreate_model_instance(self, data: dict[str, Any]) -> Session:
        return _described(await super().acreate_model_instance(data), data)


def _described(row: Any, data: dict[str, Any]) -> Session:
    """The row with the columns that the list of sessions shows."""
    session: Session = row
    seen = data.get(SEEN) or {}
    session.user_id = int(data[SESSION_KEY]) if SESSION_KEY in data else None
    session.address, session.user_agent = seen.get("address", ""), seen.get("user_agent", "")
    session.began = datetime.fromtimestamp(data[BEGAN], UTC) if BEGAN in data else None
    return session


def sessions_of(user: User) -> list[Session]:
    """Where the person is signed in, the oldest first."""
    rows = SessionStore.get_model_class().objects.filter(user=user, expire_date__gt=clock.now())
    return [row for row in rows.order_by("began") if signs_in(row, user)]


def signs_in(row: Session, user: User) -> bool:
    """Whether a session that is stored still lets its person in.

    One from before the present password does not, nor one of a deactivated account, nor one that ended
    (``lifetime.ends``): it is stored until ``expire_date``.
    """
    held = row.get_decoded()
    is_theirs = user.is_active and held.get(HASH_SESSION_KEY) == user.get_session_auth_hash()
    return is_theirs and ends(held).soonest > 0


def end_others(user: User, key: str) -> int:
    """End every session of the person but the one with this key; returns in how many they were signed in."""
    others = SessionStore.get_model_class().objects.filter(user=user).exclude(session_key=key)
    with verbs.changing_rights():
        ended = sum(not row.belongs_to(key) for row in sessions_of(user))
        others.delete()
    return ended
