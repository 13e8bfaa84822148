"""Endpoints that store nothing: reviews, token requests, lists that are always empty.

Apps register them here once; the API view dispatches to them, discovery and OpenAPI describe them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ocmconsole.kubeapi.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.protobuf import Message
    from ocmconsole.kubeapi.schema import Schema

Answer = Callable[["Actor", str, str, "Doc"], "Doc"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``answer(actor, namespace, name, doc)`` returns the filled document.

    One with a ``subresource`` is described by its parent kind's subresources.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    answer: Answer
    subresource: str = ""
    protobuf: Message | None = None
    schema: Schema | None = None
    short_names: tuple[str, ...] = ()


_endpoints: dict[tuple[str, str, str, str], Endpoint] = {}
_delete_options: list[Message] = []


def register(endpoint: Endpoint) -> None:
    """Raises ValueError for a second endpoint of the same path."""
    key = endpoint.group, endpoint.version, endpoint.plural, endpoint.subresource
    if key in _endpoints:
        raise ValueError(f"{endpoint.plural} of {endpoint.group}/{endpoint.version} is registered twice")
    _endpoints[key] = endpoint


def find(group: str, version: str, plural: str, subresource: str = "") -> Endpoint | None:
    return _endpoints.get((group, version, plural, subresource))


def described() -> Iterator[Endpoint]:
    """Those that no stored kind describes."""
    return (endpoint for endpoint in _endpoints.values() if not endpoint.subresource)


def register_delete_options(message: Message) -> None:
    """The protobuf table of DeleteOptions, which every typed DELETE may carry (wire.md 2.2)."""
    _delete_options.append(message)


def delete_options() -> Message | None:
    return _delete_options[0] if _delete_options else None
