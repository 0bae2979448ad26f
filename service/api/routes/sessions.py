"""Sessions: create, view, list, delete."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Body, Request, Response

from ...sessions import changes as operations
from ...sessions.service import ArmsRequest
from ..access import ADMINS, READERS, VIEWERS, Logged, access
from ..openapi.answer_examples import CHANGED, LIST, SESSION_CHANGED, VIEW
from ..openapi.answers import PROBLEMS, describe_answers
from ..openapi.body_examples import CHANGE, CHANGE_SESSION, CREATE, REPLACE
from ..parsing.dependencies import idempotency_of, rights_of
from ..parsing.paging import Cursor, Limit, OfSegment
from ..parsing.strict_route import StrictRouter
from ..responses import body_response, json_response
from ..runtime import runtime_of
from ..schemas import ChangeArms, ChangeSession, CreateSession, ReplaceArms, SessionList, SessionView

router = StrictRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)


@router.post(
    "",
    status_code=201,
    **describe_answers(
        SessionView, VIEW, {200: "The session exists already, with the same fields", 201: "Created"}, keyed=True
    ),
)
@access(ADMINS)
async def create_session(
    request: Request, body: Annotated[CreateSession, Body(openapi_examples=CREATE)]
) -> Response:
    """Create a session: one learner, its parameters, and how its losses are read.

    If a session with this id and the same fields exists, the answer is that session. Other fields are refused.
    """
    key = await idempotency_of(request)
    created = await runtime_of(request).sessions.create(
        body.session_id, body.specification, key, rights_of(request)
    )
    return json_response(created.answer, 201 if created.new else 200)


@router.get("", **describe_answers(SessionList, LIST, {200: "A page of sessions"}))
@access(READERS, logged=Logged.SAMPLE)
async def list_sessions(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """List sessions, a page at a time, without their distributions."""
    return body_response(await runtime_of(request).sessions.list(cursor, limit, rights_of(request).prefix))


@router.get("/{session_id}", **describe_answers(SessionView, VIEW, {200: "The session as it is now"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def view_session(request: Request, session_id: str, segment: OfSegment = None) -> Response:
    """View a session. This changes nothing, and does not extend its idle deadline.

    With ``segment``, the fields that exist for a segment show the values of that segment.
    """
    return body_response(await runtime_of(request).sessions.view(session_id, segment))


@router.patch(
    "/{session_id}",
    **describe_answers(SessionView, SESSION_CHANGED, {200: "The session with these fields"}, keyed=True),
)
@access(ADMINS)
async def change_session(
    request: Request, session_id: str, body: Annotated[ChangeSession, Body(openapi_examples=CHANGE_SESSION)]
) -> Response:
    """Change a session's window, its idle time, or its floor."""
    fields = {name: getattr(body, name) for name in body.model_fields_set}
    key = await idempotency_of(request)
    return json_response(await runtime_of(request).sessions.change(session_id, fields, key))


@router.patch(
    "/{session_id}/arms",
    **describe_answers(SessionView, CHANGED, {200: "The session with its arms changed"}, keyed=True),
)
@access(ADMINS)
async def change_arms(
    request: Request, session_id: str, body: Annotated[ChangeArms, Body(openapi_examples=CHANGE)]
) -> Response:
    """Remove arms by label, add new ones, resume and pause some, in a session with labels.

    At least one arm must stay unpaused. A paused arm is not drawn. It keeps what it has learned, and still learns
    from feedback.

    A new arm gets the next index and starts at probability 1/n, where n is the new number of arms. The others keep
    their ratios. Outstanding decisions of a removed arm are settled as removed; feedback for them changes nothing.
    """
    change = partial(operations.ChangeArms, add=body.add, remove=body.remove, pause=body.pause, resume=body.resume)
    return await _change_arms(request, session_id, change)


@router.put(
    "/{session_id}/arms",
    **describe_answers(SessionView, CHANGED, {200: "The session with these arms"}, keyed=True),
)
@access(ADMINS)
async def replace_arms(
    request: Request, session_id: str, body: Annotated[ReplaceArms, Body(openapi_examples=REPLACE)]
) -> Response:
    """Replace the arms of a session, by label: missing arms are added, then arms that are not named are removed.

    Use it to replace a whole catalogue. Arms that stay keep what they have learned, and stay paused if they were
    paused.
    """
    return await _change_arms(request, session_id, partial(operations.ReplaceArms, arms=body.arms))


async def _change_arms(request: Request, session_id: str, change: ArmsRequest) -> Response:
    key = await idempotency_of(request)
    sessions = runtime_of(request).sessions
    return json_response(await sessions.change_arms(session_id, change, key, rights_of(request)))


@router.delete(
    "/{session_id}", status_code=204, response_class=Response, response_description="The session is deleted"
)
@access(ADMINS)
async def delete_session(request: Request, session_id: str) -> Response:
    """Delete a session and all its data."""
    await runtime_of(request).sessions.delete(session_id)
    return Response(status_code=204)
