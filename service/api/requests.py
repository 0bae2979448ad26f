"""Bodies as this service reads them: bounded, JSON only, every number finite, every key once."""

from __future__ import annotations

import asyncio
import json
from email.message import Message
from typing import Any

from fastapi import Request
from starlette.requests import ClientDisconnect

from service.api.dependencies import api_key_of
from service.errors import (
    InvalidRequestError,
    PayloadTooLargeError,
    RequestTimeoutError,
    ServiceError,
    UnsupportedMediaTypeError,
)
from service.pieces import aside
from service.settings import Settings

JSON = "application/json"
MAX_FIELDS = 100
"""Fields of one object: far more than any has, and few enough to tell what is wrong with all of them."""


async def read_object(request: Request) -> dict[str, Any] | None:
    """The object in a request's body; None where the body is empty.

    It is left in ``request.state.body`` for who needs it beside the handler's own.

    Raises
    ------
    ServiceError
        for a body that is too large, too slow, of another kind, or not one strict JSON object.
    """
    body = await _read(request, request.app.state.settings)
    request.state.body_bytes = len(body)
    if not body:
        request.state.body = None
        return None
    _check_media_type(request)
    request.state.body = await aside(len(body), parse, body)
    value: dict[str, Any] = request.state.body
    return value


async def _read(request: Request, settings: Settings) -> bytes:
    """The whole body, as long as it is neither too large nor too slow."""
    declared = request.headers.get("content-length", "0")
    limit = settings.max_body_bytes
    if (api_key := api_key_of(request)) is not None and api_key.max_body_bytes is not None:
        limit = min(limit, api_key.max_body_bytes)
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
    if len(pairs) > MAX_FIELDS:
        raise InvalidRequestError(f"An object has more than {MAX_FIELDS} fields")
    value = dict(pairs)
    if len(value) != len(pairs):
        raise InvalidRequestError("The body names a field twice")
    return value


def _no_constant(name: str) -> Any:
    raise InvalidRequestError(f"{name} is not a JSON number")
