"""A response whose body is an asynchronous stream: watches and server-sent events.

The view's thread is free as soon as the response is returned; ocmconsole.server.reply drains the stream on
the event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from django.http import StreamingHttpResponse

# Writes chunks to the client at once and returns True; False, with nothing written, where the client does not read.
# Without chunks it says whether it would write.
Sink = Callable[[Sequence[bytes]], bool]


class AsyncStreamResponse(StreamingHttpResponse):
    """The headers go out at once, then every chunk as it comes, until the stream ends or somebody hangs up.

    The producer must bound what it keeps for a slow reader: the next chunk is asked for only when the last was taken.
    It should be an async generator, so that its ``finally`` runs as soon as the client has gone. ``attach`` is given a
    sink where the server has one: the producer may use it while it is asked for its next chunk. ``end`` asks the
    producer to say its last and end, because the server stops; a stream without it is ended by the server.
    """

    def __init__(
        self,
        stream: AsyncIterator[bytes],
        *,
        content_type: str,
        headers: Mapping[str, str] | None = None,
        attach: Callable[[Sink], None] | None = None,
        end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(stream, content_type=content_type)
        self.stream = stream
        self.attach = attach
        self.end = end
        for name, value in (headers or {}).items():
            self[name] = value
