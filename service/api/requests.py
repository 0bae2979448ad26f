"""Bodies as this service reads them: bounded, JSON only, every number finite, every key once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from email.message import Message
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from service.errors import (
    InvalidRequestError,
    PayloadTooLargeError,
    RequestTimeoutError,
    ServiceError,
    UnsupportedMediaTypeError,
)
from service.settings import Settings

JSON = "application/json"


class StrictRequest(Request):
    """A request whose body has been read and parsed."""

    parsed: dict[str, Any]

    async def json(self) -> Any:
        """The body's object."""
        return self.parsed


class StrictRoute(APIRoute):
    """Reads and parses the body before FastAPI sees it, so that every fault gets this service's answer."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()
        has_body = self.body_field is not None

        async def strict(request: Request) -> Response:
            request = StrictRequest(request.scope, request.receive)
            if has_body:
                body = await _read(request, request.app.state.settings)
                request._body = body  # noqa: SLF001 - where Starlette keeps a body it has read
                if body:
                    _check_media_type(request)
                    request.parsed = parse(body)
            return await handle(request)

        return strict


async def _read(request: Request, settings: Settings) -> bytes:
    """The whole body, as long as it is neither too large nor too slow."""
    declared = request.headers.get("content-length", "0")
    limit = settings.max_body_bytes
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise PayloadTooLargeError(f"The body may have {limit} bytes")
    chunks, size = [], 0
    try:
        async with asyncio.timeout(settings.body_timeout_seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise PayloadTooLargeError(f"The body may have {limit} bytes")
                chunks.append(chunk)
    except TimeoutError as error:
        raise RequestTimeoutError from error
    except ClientDisconnect as error:
        raise InvalidRequestError("The body was cut off") from error
    return b"".join(chunks)


def _check_media_type(request: Request) -> None:
    if request.headers.get("content-type") == JSON and "content-encoding" not in request.headers:
        return
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise UnsupportedMediaTypeError("Content-Encoding is not supported; send the body as it is")
    header = Message()
    header["content-type"] = request.headers.get("content-type", "")
    charset = header.get_param("charset", "utf-8")
    if header.get_content_type() != JSON or str(charset).lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaTypeError("Content-Type must be application/json (UTF-8)")


def parse(body: bytes) -> dict[str, Any]:
    """The object in a body.

    Raises
    ------
    InvalidRequestError
        for anything but one JSON object in UTF-8 with strict numbers and each key once.
    """
    try:
        text = body.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except ServiceError:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError("The body is not valid JSON") from error
    if not isinstance(value, dict):
        raise InvalidRequestError("The body must be a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise InvalidRequestError("The body names a field twice")
    return value


def _no_constant(name: str) -> Any:
    raise InvalidRequestError(f"{name} is not a JSON number")
