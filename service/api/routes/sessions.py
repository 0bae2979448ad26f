"""Sessions: create, view, list, delete."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Body, Query, Request, Response

from ...sessions import changes as operations
from ...sessions.pages import ArmSort
from ...sessions.segments import SegmentSort
from ...sessions.service import ArmsRequest
from ..examples import (
    ARMS,
    CHANGE,
    CHANGE_SESSION,
    CHANGED,
    CREATE,
    DECISIONS,
    EXPORTED,
    HISTORY,
    IMPORT,
    LIST,
    REPLACE,
    SEGMENTS,
    SESSION_CHANGED,
    VIEW,
)
from ..openapi import PROBLEMS, describe_answers
from ..request_body import Cursor, Limit, OfSegment, idempotency_of, rights_of
from ..responses import body_response, json_response
from ..runtime import ADMINS, READERS, VIEWERS, Logged, access, runtime_of
from ..schemas import (
    ArmPage,
    ChangeArms,
    ChangeSession,
    CreateSession,
    DecisionPage,
    ExportedSession,
    History,
    ReplaceArms,
    SegmentPage,
    SessionList,
    SessionView,
)
from ..strict_route import StrictRouter

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


# -- What is kept beside a session's state: its arms with their counts, its decision log, and its history.

router_of_pages = StrictRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"], responses=PROBLEMS)

SortSegments = Annotated[
    SegmentSort, Query(description="Order of the segments; with ``-`` before it the order is reversed.")
]
Sort = Annotated[ArmSort, Query(description="Order of the arms; with ``-`` before it the largest come first.")]


@router_of_pages.get("/arms", **describe_answers(ArmPage, ARMS, {200: "A page of arms"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_arms(
    request: Request,
    session_id: str,
    cursor: Cursor = None,
    limit: Limit = 100,
    sort: Sort = "index",
    segment: OfSegment = None,
) -> Response:
    """List the arms of a session with their counts, a page at a time; removed arms are left out.

    With ``segment`` the list has the probabilities in that segment, and no counts.
    """
    return body_response(await runtime_of(request).sessions.arms(session_id, cursor, limit, sort, segment))


@router_of_pages.get("/segments", **describe_answers(SegmentPage, SEGMENTS, {200: "A page of segments"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_segments(
    request: Request, session_id: str, cursor: Cursor = None, limit: Limit = 100, sort: SortSegments = "segment"
) -> Response:
    """List the segments that a session keeps, a page at a time.

    If there are more than 1,000 segments, the list can be sorted by ``segment`` only.
    """
    return body_response(await runtime_of(request).sessions.segments(session_id, cursor, limit, sort))


@router_of_pages.get("/decisions", **describe_answers(DecisionPage, DECISIONS, {200: "A page of the decision log"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_decisions(request: Request, session_id: str, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Read the decision log of a session that was created with ``decision_log``, oldest entries first."""
    return body_response(await runtime_of(request).sessions.decisions(session_id, cursor, limit))


@router_of_pages.get("/history", **describe_answers(History, HISTORY, {200: "The session over time"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def show_history(request: Request, session_id: str) -> Response:
    """Read how a session developed: samples, oldest first. Older samples are further apart."""
    return body_response(await runtime_of(request).sessions.history(session_id))


# -- Moving sessions between stores: export and import.

router_of_transfer = StrictRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS)


@router_of_transfer.get(
    "/{session_id}/export", **describe_answers(ExportedSession, EXPORTED, {200: "The whole session"})
)
@access(ADMINS)
async def export_session(request: Request, session_id: str) -> Response:
    """Export a whole session, at one version. The document contains the seed: keep it secret.

    It does not contain the decision log and the answers stored under idempotency keys.
    """
    return body_response(await runtime_of(request).sessions.export(session_id))


@router_of_transfer.post(
    "/import", status_code=201, **describe_answers(SessionView, VIEW, {201: "Created"}, keyed=True)
)
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
