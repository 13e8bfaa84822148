"""Texts of second factors, bound to what they are and to the person: one in the row of another person is refused.

allauth encrypts a text before there is a row, and decrypts what a row holds without saying whose that is. So a text of
a row is a ``BoundText``, which knows its person once the row is made or read; a ``NewText`` becomes one then. Texts
from before were bound to what they are alone. They open until everything was encrypted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.db.models.signals import post_init

from ocmconsole.kubeapi.encryption import stored_text

if TYPE_CHECKING:
    from allauth.mfa.models import Authenticator

FACTOR = "second factor"
SECRETS = ("secret", "seed", "migrated_codes")  # in the data of an authenticator; the last is a list of them


class NewText(str):
    """Encrypted, and nobody's yet."""

    __slots__ = ()


class BoundText(str):
    """As a row has it, with the id of the row's person."""

    __slots__ = ("person",)
    person: int

    @classmethod
    def of(cls, text: str, person: int) -> BoundText:
        bound = cls(text)
        bound.person = person
        return bound


def read(text: str) -> str:
    """Of a text of a row. Raises Unreadable for that of another person."""
    if isinstance(text, BoundText):
        return opened(text, text.person)
    return stored_text.decrypt(text, FACTOR) if isinstance(text, NewText) else opened(text, None)


def opened(text: str, person: int | None) -> str:
    """Raises Unreadable."""
    found = stored_text.kept(text)
    if person is None:
        return stored_text.decrypt(found, FACTOR)
    try:
        return stored_text.decrypt(found, FACTOR, person)
    except stored_text.Unreadable:
        if not stored_text.is_settled() and is_of_before(text):
            return stored_text.decrypt(text, FACTOR)
        raise


def is_of_before(text: str) -> bool:
    """Whether it is bound to nobody."""
    try:
        stored_text.decrypt(text, FACTOR)
    except stored_text.Unreadable:
        return False
    return stored_text.key_of(text) != ""


def key_of(text: str) -> str:
    """The id of the key, "" for what is to be encrypted anew with the newest: in clear, or bound to nobody."""
    key = stored_text.key_of(text)
    return "" if key and is_of_before(text) and key == stored_text.newest().id else key


def encrypted(text: str, person: int) -> str:
    """Anew. Raises Unreadable."""
    return stored_text.encrypt(opened(text, person), FACTOR, person)


def texts(data: dict[str, Any]) -> Iterator[str]:
    for name in SECRETS:
        value = data.get(name)
        yield from (each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str))


def changed(data: dict[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    def anew(value: Any) -> Any:
        if isinstance(value, list):
            return [anew(each) for each in value]
        return change(value) if isinstance(value, str) else value

    return {name: anew(value) if name in SECRETS else value for name, value in data.items()}


def listen() -> None:
    """Called once Django has its models."""
    from allauth.mfa.models import Authenticator  # noqa: PLC0415 - models, which are not there before

    post_init.connect(_bind, sender=Authenticator, dispatch_uid=__name__)


def _bind(instance: Authenticator, **_: Any) -> None:
    if "data" not in instance.__dict__ or instance.user_id is None or not isinstance(instance.data, dict):
        return
    person = int(instance.user_id)

    def bound(text: str) -> str:
        if isinstance(text, NewText):
            text = stored_text.encrypt(stored_text.decrypt(text, FACTOR), FACTOR, person)
        return BoundText.of(text, person)

    instance.data = changed(instance.data, bound)
