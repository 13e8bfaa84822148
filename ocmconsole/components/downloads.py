"""Files that are written while they are read: exports. Each holds a thread of the console until its reader is done.

So that slow readers never take all of them, a process sends few at a time, and a person one. A file that cannot be
finished says so in its last line, and the connection ends without the last chunk: the status was sent long before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.http import StreamingHttpResponse

from ocmconsole.kubeapi import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

AT_ONCE = 2  # of the console's threads
INCOMPLETE = "# INCOMPLETE: the export failed here; lines are missing. Export again.\n"

_lock = threading.Lock()
_readers: set[str] = set()


class Download:
    """The lines, for one reader; Django closes it when the answer is over, however it ends."""

    def __init__(self, lines: Iterable[bytes | str], reader: str) -> None:
        self._lines = iter(lines)
        self._reader = reader

    def __iter__(self) -> Iterator[bytes | str]:
        """The lines; an error in them ends the file with ``INCOMPLETE`` and is raised to the server."""
        try:
            yield from self._lines
        except Exception:
            yield f"\n{INCOMPLETE}"
            raise

    def close(self) -> None:
        with _lock:
            _readers.discard(self._reader)


def download(lines: Iterable[bytes | str], *, reader: str, name: str, content_type: str) -> StreamingHttpResponse:
    """An attachment. Raises TooManyRequests while the reader, or too many others, are still reading."""
    with _lock:
        if reader in _readers or len(_readers) >= AT_ONCE:
            raise errors.TooManyRequests("Another export is being read; wait until it is done, then ask again.")
        _readers.add(reader)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingHttpResponse(Download(lines, reader), content_type=content_type, headers=headers)
