"""Room for the frames of Python's functions. Called where a process or a thread begins.

CPython keeps them in chunks of 16 KiB for each thread, and gives a chunk back to the kernel as soon as a call that was
the first in it returns. A loop that calls functions from the end of a chunk asks the kernel for memory at each call
(python/cpython#142183, in 3.11 and 3.12 and in earlier releases of 3.13 and 3.14): a sixth of the time of a page.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

# Words that such a frame asks for and does not use. CPython takes the next power of two, 1 MiB, of which what
# it calls has the other half, some thousands of frames. Memory that is not touched is only addresses.
WORDS = 70_000


def with_room(function: F) -> F:
    """Decorates a function under which the rest of a thread's calls take place."""
    function.__code__ = function.__code__.replace(co_stacksize=WORDS)
    return function


def make_room_in_threads() -> None:
    """In all that are started from now on."""
    with_room(threading.Thread.run)
