"""Request cache: the user, groups and rights, and the head of the log are read once for a page, not dozens of times.

Invariant: only what reads has this memory, and it ends with it: a request (``middleware.RequestMiddleware``), the frame
of a page that answers a write (``shell``) and a live page's question what its person sees of some notices
(``live_updates``). The decision to accept a cluster has it up to its commit, which asks anew where rights have changed
since the actor was examined, and reads anew what it records under the counter's lock (``forgetting``). All else asks
each time: a right that was taken back is gone at the next question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from ocmconsole.kubeapi.storage import reader

if TYPE_CHECKING:
    from ocmconsole.kubeapi.kinds import Key, Kind
    from ocmconsole.kubeapi.models import Resource

T = TypeVar("T")

_answers: ContextVar[dict[Hashable, Any] | None] = ContextVar("answers", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Until the end of the block, ``cached`` computes each answer once."""
    token = _answers.set({})
    try:
        yield
    finally:
        _answers.reset(token)


@contextmanager
def sharing() -> Iterator[None]:
    """As ``remembering``, in the memory that there is already: for what only reads within a request that may write."""
    with nullcontext() if is_remembering() else remembering():
        yield


@contextmanager
def forgetting() -> Iterator[None]:
    """Until the end of the block each question is answered anew, whatever is remembered around it."""
    token = _answers.set(None)
    try:
        yield
    finally:
        _answers.reset(token)


def is_remembering() -> bool:
    """Whether this is a request that only reads."""
    return _answers.get() is not None


def cached(question: Hashable, answer: Callable[[], T]) -> T:
    """The answer to the question, asked anew unless somebody remembers it."""
    known = _answers.get()
    if known is None:
        return answer()
    if question not in known:
        known[question] = answer()
    found: T = known[question]
    return found


def remember(question: Hashable, answer: object) -> None:
    """The caller has read the answer anyway; ``cached`` returns it. Without effect where nothing is remembered."""
    known = _answers.get()
    if known is not None:
        known[question] = answer


def row_at(kind: Kind, key: Key) -> Resource | None:
    """As ``reader.read_row``, for rules that ask about the object that the request or decision is about."""
    return cached(("row", kind.resource, key), lambda: reader.read_row(kind, key))


def remember_row(kind: Kind, row: Resource) -> None:
    remember(("row", kind.resource, row.key), row)
