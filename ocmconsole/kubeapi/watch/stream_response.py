"""A response whose body is an asynchronous stream: watches and server-sent events.

The view's thread is free as soon as the response is returned; ocmconsole.server.request_threads drains the stream on
the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from django.http import StreamingHttpResponse


class AsyncStreamResponse(StreamingHttpResponse):
    """The headers go out at once, then every chunk as it comes, until the stream ends or somebody hangs up.

    The producer must bound what it keeps for a slow reader: the next chunk is asked for only when the last was taken.
    It should be an async generator, so that its ``finally`` runs as soon as the client has gone.
    """

    def __init__(
        self, stream: AsyncIterator[bytes], *, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(stream, content_type=content_type)
        self.stream = stream
        for name, value in (headers or {}).items():
            self[name] = value
