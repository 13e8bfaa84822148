"""What the API answers and stores nowhere: reviews, token requests, empty lists, collections that are always the same.

Apps register them here once; the API view dispatches to them, discovery and OpenAPI describe them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ocmconsole.kubeapi.access.actor import Actor
    from ocmconsole.kubeapi.errors import Doc
    from ocmconsole.kubeapi.formats.protobuf import Message
    from ocmconsole.kubeapi.kinds import Served
    from ocmconsole.kubeapi.schema.compiled_schema import Schema

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


@dataclass(frozen=True, slots=True)
class Collection:
    """Objects that follow from the program: read and watched like stored ones, and the same until the next start.

    ``refusal`` says why nobody can add to them or take one away.
    """

    served: Served
    objects: Callable[[], list[Doc]]
    refusal: str


@dataclass(frozen=True, slots=True)
class StaticDocument:
    """A document at a path outside resources that the machinery knows nothing of; ``read`` returns its JSON form."""

    path: str
    content_type: str
    read: Callable[[], Doc]


class RegisteredView(NamedTuple):
    """A path outside resources with a view of its own: ``route`` as in Django's ``path``, ``name`` dotted.

    The module of the view is imported with the routes of the API.
    """

    route: str
    name: str


_endpoints: dict[tuple[str, str, str, str], Endpoint] = {}
_collections: dict[tuple[str, str, str], Collection] = {}
_documents: dict[str, StaticDocument] = {}
_views: list[RegisteredView] = []
_delete_options: list[Message] = []


def register(endpoint: Endpoint) -> None:
    """Raises ValueError for a second endpoint of the same path."""
    key = endpoint.group, endpoint.version, endpoint.plural, endpoint.subresource
    if key in _endpoints:
        raise ValueError(f"{endpoint.plural} of {endpoint.group}/{endpoint.version} is registered twice")
    _endpoints[key] = endpoint


def find_endpoint(group: str, version: str, plural: str, subresource: str = "") -> Endpoint | None:
    return _endpoints.get((group, version, plural, subresource))


def described() -> Iterator[Endpoint]:
    """Those that no stored kind describes."""
    return (endpoint for endpoint in _endpoints.values() if not endpoint.subresource)


def register_collection(added: Collection) -> None:
    kind, version = added.served
    _collections[version.group, version.version, kind.plural] = added


def collection(group: str, version: str, plural: str) -> Collection | None:
    return _collections.get((group, version, plural))


def collected() -> Iterator[Served]:
    """The kinds of all collections."""
    return (each.served for each in _collections.values())


def register_document(added: StaticDocument) -> None:
    _documents[added.path] = added


def find_document(path: str) -> StaticDocument | None:
    return _documents.get(path)


def document_paths() -> list[str]:
    """Their paths."""
    return list(_documents)


def register_views(*views: RegisteredView) -> None:
    _views.extend(views)


def views() -> tuple[RegisteredView, ...]:
    return tuple(_views)


def register_delete_options(message: Message) -> None:
    """The protobuf table of DeleteOptions, which every typed DELETE may carry (W170)."""
    _delete_options.append(message)


def delete_options() -> Message | None:
    return _delete_options[0] if _delete_options else None
