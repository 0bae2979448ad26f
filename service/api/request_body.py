"""Query parameters of lists that are read a page at a time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import Annotated, Any, NamedTuple

from fastapi import Query, Request
from pydantic import BeforeValidator
from starlette.requests import ClientDisconnect

from ..api_keys import ApiKey
from ..asgi_scope import KEY_IN_SCOPE
from ..cooperative import LARGE_INPUT_BYTES, FairYield, json_chunks, run_in_thread_if_large
from ..errors import (
    InvalidRequestError,
    PayloadTooLargeError,
    RequestTimeoutError,
    ServiceError,
    UnsupportedMediaTypeError,
)
from ..models.events import MAX_NAMES, MAX_SEGMENT_BYTES, PRINTABLE_ASCII, Idempotency, digest, digest_of
from ..sessions.pages import MAX_PAGE
from ..sessions.views import ALL, Rights
from ..settings import Settings
from .runtime import access_of, runtime_of

# -- What handlers ask of a request beside its path, query and body, by plain calls: see ``strict_route``.

IDEMPOTENCY_KEY = "Idempotency-Key"
MAX_KEY_LENGTH = 255
IDEMPOTENCY_PARAMETER: dict[str, Any] = {
    "name": IDEMPOTENCY_KEY,
    "in": "header",
    "required": False,
    "description": "A request with the same key and body gets the first answer again and changes nothing.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": PRINTABLE_ASCII},
}
"""What the OpenAPI document says of the header."""
_SORTED = json.JSONEncoder(sort_keys=True)

KEYED = {"parameters": [IDEMPOTENCY_PARAMETER]}


def api_key_of(request: Request) -> ApiKey | None:
    """Return the API key of a request; None where the service has no keys."""
    key: ApiKey | None = request.scope.get(KEY_IN_SCOPE)
    return key


def rights_of(request: Request) -> Rights:
    """Return what the holder of the request's API key may create."""
    return rights_of_key(api_key_of(request))


def rights_of_key(key: ApiKey | None) -> Rights:
    """Return what the holder of an API key may create; all where there are no keys."""
    return ALL if key is None else Rights(key.session_prefix, key.max_sessions, key.max_arms)


async def idempotency_of(request: Request) -> Idempotency | None:
    """Read the Idempotency-Key, and digest it and what the request asks; None without the header.

    The same key counts apart for another API key, method, route or session. Bodies that differ in spaces or in the
    order of fields are the same.

    Raises
    ------
    InvalidRequestError
        for a key that is empty, too long, not printable ASCII, or sent twice.
    """
    keys = request.headers.getlist(IDEMPOTENCY_KEY)
    if not keys:
        return None
    if len(keys) > 1 or len(keys[0]) > MAX_KEY_LENGTH or not re.fullmatch(PRINTABLE_ASCII, keys[0]):
        raise InvalidRequestError.of(IDEMPOTENCY_KEY, f"must be 1 to {MAX_KEY_LENGTH} printable ASCII characters")
    scope: tuple[str, ...] = (
        request.method,
        request.scope["route"].path,
        request.path_params.get("session_id", ""),
    )
    if (api_key := api_key_of(request)) is not None:
        scope = (*scope, api_key.name)
    body = json_chunks(getattr(request.state, "body", None) or {}, _SORTED)
    return Idempotency(
        digest(keys[0], *scope), await digest_of(chain([request.url.query, "\n"], body), FairYield())
    )


# -- Reading a body: of bounded size, one JSON object, with finite numbers and no field named twice.

JSON = "application/json"
EMPTY = b"{}"
MAX_MEDIA_TYPE = 200
"""Characters of a Content-Type."""
MAX_DIGITS = 400
"""Characters of one number: a float has at most 309 digits before the point."""
MAX_FIELDS = 100
"""Fields of one object: no valid one has half as many, and each unknown one is an error to report.

Only the ``probabilities`` of a learner have one for each arm.
"""

_PARAMETER = re.compile(r"\s*([!#$%&'+.^_`|~\w-]+)=\"?([!#$%&'+.^_`|~\w-]+)\"?\s*", re.ASCII)


class PartLimits(NamedTuple):
    """How many parts a body may have: reading an array keeps all other requests waiting."""

    objects: int
    """Objects and arrays."""
    fields: int
    texts: int
    """Names of fields, and values that are texts."""

    @classmethod
    def of(cls, settings: Settings) -> PartLimits:
        """Make the limits that allow the longest batch, the most labels, and the longest lists beside them."""
        events, arms = settings.max_events, settings.max_arms
        warm = min(arms, settings.max_arms_centred)
        return cls(
            objects=max(2 * events, warm) + MAX_FIELDS,
            fields=max(5 * events, arms, 3 * warm) + MAX_FIELDS,
            texts=max(8 * events + 2 * arms, arms + 4 * warm, MAX_NAMES) + MAX_FIELDS,
        )

    def allow(self, outside: bytes, quotes: int) -> bool:
        """Return whether a body may have so many quotes, and these characters outside its texts.

        Parameters
        ----------
        outside : the body without its texts, or all of it, which has no fewer brackets and colons
        quotes : double quotes in the body, where those within texts may be left out
        """
        brackets = outside.count(b"[") + outside.count(b"{")
        return brackets <= self.objects and outside.count(b":") <= self.fields and quotes <= 2 * self.texts


async def read_object(request: Request) -> dict[str, Any] | None:
    """Read the object in a request's body; None where the body is empty.

    The object is left in ``request.state.body``, from which idempotency digests it, and its size in
    ``request.state.body_bytes``.

    Raises
    ------
    PayloadTooLargeError, RequestTimeoutError, UnsupportedMediaTypeError, InvalidRequestError
        for a body that is too large, too slow, not said to be JSON, or not one strict JSON object.
    """
    settings = runtime_of(request).settings
    body = await _read(request, settings)
    request.state.body_bytes = len(body)
    if not body:
        request.state.body = None
        return None
    _check_media_type(request, body)
    request.state.body = await run_in_thread_if_large(len(body), parse, body, PartLimits.of(settings))
    value: dict[str, Any] = request.state.body
    return value


async def _read(request: Request, settings: Settings) -> bytes:
    """Read the whole body, unless it is too large or too slow."""
    declared = request.headers.get("content-length", "0")
    if declared == "0" and "transfer-encoding" not in request.headers:
        return b""
    limit = access_of(request.scope["route"]).max_body_bytes(settings)
    if (api_key := api_key_of(request)) is not None and api_key.max_body_bytes is not None:
        limit = min(limit, api_key.max_body_bytes)
    if declared.isdecimal() and int(declared[:20]) > limit:
        raise PayloadTooLargeError(f"The body may have {limit} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(settings.body_timeout_seconds):
            async for chunk in request.stream():
                if len(body) + len(chunk) > limit:
                    raise PayloadTooLargeError(f"The body may have {limit} bytes")
                body += chunk
    except TimeoutError as error:
        raise RequestTimeoutError from error
    except ClientDisconnect as error:
        raise InvalidRequestError("The body was cut off") from error
    return bytes(body)


def _check_media_type(request: Request, body: bytes) -> None:
    """Refuse a body that is not declared as plain JSON; an empty object needs no Content-Type."""
    types, encodings = (request.headers.getlist(name) for name in ("content-type", "content-encoding"))
    if not encodings and (types == [JSON] or (not types and body == EMPTY)):
        return
    if any(encoding.strip().lower() != "identity" for encoding in encodings):
        raise UnsupportedMediaTypeError("Content-Encoding is not supported; send the body as it is")
    if len(types) != 1 or not _is_json(types[0]):
        raise UnsupportedMediaTypeError("Content-Type must be application/json (UTF-8), once")


def _is_json(media_type: str) -> bool:
    """Return whether a media type is JSON in UTF-8; parameters other than ``charset`` only need the right form."""
    kind, *parameters = media_type[:MAX_MEDIA_TYPE].split(";")
    given = [_PARAMETER.fullmatch(parameter) for parameter in parameters if parameter.strip()]
    charsets = [each[2].lower() for each in given if each and each[1].lower() == "charset"]
    return (
        len(media_type) <= MAX_MEDIA_TYPE
        and kind.strip().lower() == JSON
        and all(given)
        and charsets in ([], ["utf-8"], ["utf8"])
    )


def parse(body: bytes, limits: PartLimits) -> dict[str, Any]:
    """Parse the object in a body.

    Parameters
    ----------
    body : as it was received
    limits : of parts; they hold for bodies from ``LARGE_INPUT_BYTES`` on

    Raises
    ------
    InvalidRequestError
        for anything but one JSON object in UTF-8 with strict numbers and each key once.
    """
    _check_parts(body, limits)
    large: list[dict[str, Any]] = []
    try:
        value = _decoder(large).decode(body.decode("utf-8"))
    except ServiceError:
        raise
    except RecursionError as error:
        raise InvalidRequestError("The body has too many objects and arrays within each other") from error
    except ValueError as error:
        raise InvalidRequestError(_not_json(error)) from error
    if not isinstance(value, dict):
        raise InvalidRequestError(_no_object(value))
    if large and [id(each) for each in large] != [id(_probabilities(value))]:
        raise InvalidRequestError(f"An object has more than {MAX_FIELDS} fields")
    return value


def _not_json(error: ValueError) -> str:
    """Say where a text ceases to be JSON, without the text."""
    if isinstance(error, json.JSONDecodeError):
        where = f"line {error.lineno}, column {error.colno}; names and texts stand in double quotes"
    elif isinstance(error, UnicodeDecodeError):
        where = f"byte {error.start} is not UTF-8"
    else:
        return "The body is not valid JSON"
    return f"The body is not valid JSON: {where}"


def _no_object(value: Any) -> str:
    text = "The body must be a JSON object"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f'{text}; post a list of events to /feedbacks as {{"events": [...]}}'
    return text


def _probabilities(body: dict[str, Any]) -> Any:
    learner = body.get("learner")
    return learner.get("probabilities") if isinstance(learner, dict) else None


def _check_parts(body: bytes, limits: PartLimits) -> None:
    """Refuse a large body with more parts than any valid one: parsing them keeps all other requests waiting."""
    if len(body) < LARGE_INPUT_BYTES or limits.allow(body, body.count(b'"')):
        return
    # Without escaped quotes every second part between quotes is outside of texts.
    body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = body.count(b'"')
    if quotes > 2 * limits.texts or not limits.allow(b"".join(body.split(b'"')[::2]), quotes):
        raise InvalidRequestError("The body has too many parts")


# The JSON decoder lets other threads run only where it calls Python, so numbers are read by functions of ours.


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise InvalidRequestError(f"A number has more than {MAX_DIGITS} characters")
    return int(text)


def _fraction(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise InvalidRequestError(f"A number has more than {MAX_DIGITS} characters")
    return float(text)


def _unique(large: list[dict[str, Any]], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its fields; one with many is added to ``large``."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise InvalidRequestError("The body names a field twice")
    if len(pairs) > MAX_FIELDS:
        large.append(value)
    return value


def _no_constant(name: str) -> Any:
    raise InvalidRequestError(f"{name} is not a JSON number")


def _decoder(large: list[dict[str, Any]]) -> json.JSONDecoder:
    """Make a decoder of one body, which collects the objects with many fields."""
    return json.JSONDecoder(
        object_pairs_hook=partial(_unique, large),
        parse_constant=_no_constant,
        parse_int=_integer,
        parse_float=_fraction,
    )


# -- Lists that are too long are found before they are validated: validating them keeps all other requests
# waiting.


def check_lengths(body: Mapping[str, Any], settings: Settings) -> None:
    """Refuse a body with a list that is longer than the settings allow.

    Parameters
    ----------
    body : as it was parsed, not validated yet
    settings : of the service: most events of a batch, and largest dimension

    Raises
    ------
    InvalidRequestError
    """
    dim = settings.max_dim
    values = {"losses": dim + 1, "gradient": dim}
    _check(body, {"events": settings.max_events, **values})
    if isinstance(events := body.get("events"), list):
        for index, event in enumerate(events):
            _check(event, values, index=index)
    if "learner" in body:
        feasible_set = _inner(body["learner"], "feasible_set")
        _check(feasible_set, {"center": dim, "lower": dim, "upper": dim}, "learner.feasible_set.")


def _check(value: Any, limits: Mapping[str, int], place: str = "", index: int | None = None) -> None:
    for name, limit in limits.items():
        listed = _inner(value, name)
        if isinstance(listed, list) and len(listed) > limit:
            raise InvalidRequestError.of(place + name, f"at most {limit} in one call", index)


def _inner(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


MAX_CURSOR = 12_000
"""Characters; a cursor of sessions carries ids, of up to 128, that a scan of the store brought beyond its page."""


def _digits(text: object) -> object:
    if isinstance(text, str) and not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError("must be a whole number")
    return text


Cursor = Annotated[str | None, Query(description="``next_cursor`` of the previous page.", max_length=MAX_CURSOR)]
OfSegment = Annotated[
    str | None,
    Query(
        description="Name of a segment; the empty name stands for acts without a segment.",
        max_length=MAX_SEGMENT_BYTES,
    ),
]
Limit = Annotated[
    int, BeforeValidator(_digits), Query(ge=1, le=MAX_PAGE, description="Largest number of rows on a page.")
]
