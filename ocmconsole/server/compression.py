"""Pages, scripts and styles are sent compressed; what is compressed already, streams and the API's answers are not.

A page's length reveals no secret: Django pads it by a random number of bytes and masks its CSRF token anew each
time. The API has its own rule (``exchange``), and its listener never comes here. First in the chain but for the
listener.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from django.middleware.gzip import GZipMiddleware

from ocmconsole.kubeapi.watch.stream_response import AsyncStreamResponse

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

COMPRESSIBLE = ("text/", "application/json", "application/javascript", "image/svg+xml")


class CompressionMiddleware(GZipMiddleware):
    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        media = response.headers.get("Content-Type", "")
        if (
            isinstance(response, AsyncStreamResponse)
            or response.status_code != HTTPStatus.OK
            or not media.startswith(COMPRESSIBLE)
        ):
            return response
        return super().process_response(request, response)
