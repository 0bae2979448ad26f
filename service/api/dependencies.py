"""What handlers ask for, as types."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Depends, Header, Request

from service.errors import InvalidRequestError
from service.events import PRINTABLE_ASCII, digest
from service.sessions import Sessions
from service.settings import Settings
from service.specification import Idempotency


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


def _settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=PRINTABLE_ASCII,
        description="Send the request again with the same key and body and get the answer of the first time.",
    ),
]


async def _idempotency(request: Request, key: IdempotencyKey = None) -> Idempotency | None:
    """The key within its route and session, and the body in a form that ignores spelling."""
    if key is None:
        return None
    if len(request.headers.getlist("idempotency-key")) > 1:
        raise InvalidRequestError.of("Idempotency-Key", "must be sent once")
    scope = (request.method, request.scope["route"].path, request.path_params.get("session_id", ""))
    body = json.dumps(await request.json(), sort_keys=True) if await request.body() else "{}"
    return Idempotency(digest(key, *scope), digest(body, request.url.query))


SessionsDep = Annotated[Sessions, Depends(_sessions)]
SettingsDep = Annotated[Settings, Depends(_settings)]
IdempotencyDep = Annotated[Idempotency | None, Depends(_idempotency)]
