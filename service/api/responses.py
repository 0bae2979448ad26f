"""Successes as HTTP responses."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Response
from starlette.types import Message, Receive, Scope, Send

from ..asgi_scope import is_gone_of
from ..cooperative import STREAMED_FROM_BYTES, Body, FairYield
from ..sessions.service import Answer
from .request_body import JSON

REPLAYED = {"Idempotent-Replayed": "true"}


def json_response(answer: Answer, status: int = 200) -> Response:
    """Make the response of a success; a header marks the stored answer of an earlier request with the same key.

    Parameters
    ----------
    answer : what the session answered
    status : of HTTP
    """
    return body_response(answer.body, status, REPLAYED if answer.replayed else None)


def body_response(body: Body, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Make the response of a success; a body in pieces is sent as it is made.

    Parameters
    ----------
    body : JSON, as bytes or in pieces of text
    status : of HTTP
    headers : beside ``Content-Type``
    """
    if isinstance(body, bytes):
        return Response(body, status, headers, JSON)
    return StreamedResponse(body, status, headers)


class StreamedResponse(Response):
    """A response whose body is made while it is sent, so that a slow client never keeps all of it in memory.

    Parameters
    ----------
    body : pieces of JSON, in order
    status : of HTTP
    headers : beside ``Content-Type``; None for none
    """

    def __init__(self, body: Iterator[str], status: int, headers: dict[str, str] | None) -> None:
        super().__init__(None, status, headers, JSON)
        del self.headers["content-length"]
        self._pieces = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Send the head, then the body in chunks of at least ``STREAMED_FROM_BYTES``, until the client has left."""
        is_gone = is_gone_of(scope)
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        chunk, size = [], 0
        fair_yield = FairYield()
        for piece in self._pieces:
            chunk.append(piece)
            size += len(piece)
            if size >= STREAMED_FROM_BYTES:
                await send(_part("".join(chunk).encode(), more=True))
                chunk, size = [], 0
                if is_gone is not None and is_gone():
                    break
            await fair_yield()
        await send(_part("".join(chunk).encode(), more=False))


def _part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}
