"""What sign-in keeps encrypted: sessions, secrets of authenticator apps, recovery codes.

A secret of an app is bound to what it is and not to a person: allauth does not say whose it is. Called by sessions and
``adapters``, and by ``reencryption``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ocmconsole.kubeapi.encryption import places, stored_text
from ocmconsole.kubeapi.encryption.places import Column, Place

if TYPE_CHECKING:
    from allauth.mfa.models import Authenticator

FACTOR, SESSION = "second factor", "session"
SECRETS = ("secret", "seed", "migrated_codes")  # in the data of an authenticator; the last is a list of them


class Authenticators:
    """Texts in the JSON of allauth's rows."""

    name = "authenticators"

    @property
    def table(self) -> str:
        return str(_model()._meta.db_table)  # noqa: SLF001 - Django's documented name

    def by_key(self) -> Counter[str]:
        found = _model().objects.values_list("data", flat=True)
        return Counter(stored_text.key_of(text) for data in found for text in _texts(data))

    def encrypt_some(self, key: str, most: int) -> int:
        done = 0
        for row in _model().objects.select_for_update().order_by("pk"):
            stale = [text for text in _texts(row.data) if stored_text.key_of(text) != key]
            if stale and done < most:
                _model().objects.filter(pk=row.pk).update(data=_encrypted(row.data))
                done += len(stale)
        return done


def _model() -> type[Authenticator]:
    from allauth.mfa.models import Authenticator  # noqa: PLC0415 - Django imports the sessions before there are models

    found: type[Authenticator] = Authenticator
    return found


def _texts(data: dict[str, Any]) -> Iterator[str]:
    for name in SECRETS:
        value = data.get(name)
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def _encrypted(data: dict[str, Any]) -> dict[str, Any]:
    def anew(value: Any) -> Any:
        if isinstance(value, list):
            return [anew(each) for each in value]
        return stored_text.encrypt(stored_text.decrypt(value, FACTOR), FACTOR) if isinstance(value, str) else value

    return {name: anew(value) if name in SECRETS else value for name, value in data.items()}


def of_people() -> Sequence[Place]:
    from ocmconsole.models import Session  # noqa: PLC0415 - as above

    table = Session._meta.db_table  # noqa: SLF001 - Django's documented name
    return [Authenticators(), Column("sessions", table, "session_key", "session_data", ("session_key",), (SESSION,))]


places.declare(of_people)
