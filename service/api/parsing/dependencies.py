"""What handlers ask of a request beside its path, query and body, by plain calls: see ``strict_route``."""

from __future__ import annotations

import json
import re
from itertools import chain
from typing import Any

from fastapi import Request

from ...api_keys import ApiKey
from ...asgi_scope import KEY_IN_SCOPE
from ...cooperative import FairYield, json_chunks
from ...errors import InvalidRequestError
from ...models.events import PRINTABLE_ASCII, Idempotency, digest, digest_of
from ...sessions.views import ALL, Rights

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
