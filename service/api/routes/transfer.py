"""Moving sessions between stores: export and import."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Request, Response

from ..access import ADMINS, access
from ..openapi.answer_examples import EXPORTED, VIEW
from ..openapi.answers import PROBLEMS, describe_answers
from ..openapi.body_examples import IMPORT
from ..parsing.dependencies import idempotency_of, rights_of
from ..parsing.strict_route import StrictRouter
from ..responses import body_response, json_response
from ..runtime import runtime_of
from ..schemas import ExportedSession, SessionView

router = StrictRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)


@router.get("/{session_id}/export", **describe_answers(ExportedSession, EXPORTED, {200: "The whole session"}))
@access(ADMINS)
async def export_session(request: Request, session_id: str) -> Response:
    """Export a whole session, at one version. The document contains the seed: keep it secret.

    It does not contain the decision log and the answers stored under idempotency keys.
    """
    return body_response(await runtime_of(request).sessions.export(session_id))


@router.post("/import", status_code=201, **describe_answers(SessionView, VIEW, {201: "Created"}, keyed=True))
@access(ADMINS, max_body_bytes=lambda settings: settings.max_import_bytes, names_no_session=True)
async def import_session(
    request: Request,
    body: Annotated[ExportedSession, Body(openapi_examples=IMPORT)],  # noqa: ARG001 - read as it came, see below
) -> Response:
    """Create a session from an exported document, with the same id and the same state.

    A document that was changed, is incomplete, or was written by a newer version is refused.
    """
    key = await idempotency_of(request)
    # The digest is that of the document itself, not of what validation made of it.
    restored = await runtime_of(request).sessions.restore(request.state.body, rights_of(request), key)
    return json_response(restored, 201)
