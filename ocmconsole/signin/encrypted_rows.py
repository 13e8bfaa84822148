"""What sign-in keeps encrypted: sessions, secrets of authenticator apps, recovery codes.

Called by sessions, and by ``reencryption``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ocmconsole.kubeapi.encryption import places
from ocmconsole.kubeapi.encryption.places import Column, Place
from ocmconsole.signin import factor_texts

if TYPE_CHECKING:
    from allauth.mfa.models import Authenticator

SESSION = "session"


class Authenticators:
    """Texts in the JSON of allauth's rows."""

    name = "authenticators"

    @property
    def table(self) -> str:
        return str(_model()._meta.db_table)  # noqa: SLF001 - Django's documented name

    def by_key(self) -> Counter[str]:
        found = _model().objects.values_list("data", flat=True)
        return Counter(factor_texts.key_of(text) for data in found for text in factor_texts.texts(data))

    def encrypt_some(self, key: str, most: int) -> int:
        done = 0
        for row in _model().objects.select_for_update().order_by("pk"):
            person = row.user_id
            stale = [each for each in factor_texts.texts(row.data) if factor_texts.key_of(each) != key]
            if stale and done < most:
                data = factor_texts.changed(row.data, partial(factor_texts.encrypted, person=person))
                _model().objects.filter(pk=row.pk).update(data=data)
                done += len(stale)
        return done


def _model() -> type[Authenticator]:
    from allauth.mfa.models import Authenticator  # noqa: PLC0415 - Django imports the sessions before there are models

    found: type[Authenticator] = Authenticator
    return found


def of_people() -> Sequence[Place]:
    from ocmconsole.models import Session  # noqa: PLC0415 - as above

    table = Session._meta.db_table  # noqa: SLF001 - Django's documented name
    return [Authenticators(), Column("sessions", table, "session_key", "session_data", ("session_key",), (SESSION,))]


places.declare(of_people)
