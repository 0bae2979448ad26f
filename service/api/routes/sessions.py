"""Sessions: create, view, list, change and delete them, read what stands beside their state, move them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from pydantic import BeforeValidator, Field

from ...errors import UnknownSessionError
from ...learners.specs import shown_as_is
from ...models.events import MAX_SEGMENT_BYTES
from ...sessions.pages import MAX_PAGE, ArmSort, HintCode
from ...sessions.segments import SegmentSort
from ...telemetry.logs import LEFT, NOTED_IN_SCOPE
from ..calls import Call, Reply
from ..openapi import EMPTY, EXAMPLES, PROBLEMS, describe_answers
from ..path_operations import CallRoute
from ..runtime import ADMINS, READERS, VIEWERS, Logged, access
from ..schemas import (
    ArmPage,
    ChangeArms,
    ChangeSession,
    Comparison,
    CreateSession,
    DecisionPage,
    ExportedSession,
    FeaturePage,
    History,
    OfVisitor,
    ReplaceArms,
    SegmentPage,
    SessionList,
    SessionView,
    VisitorArms,
)

MAX_CURSOR = 12_000
"""Characters; a cursor of sessions carries ids, of up to 128, that a scan of the store brought beyond its page."""


def _digits(text: object) -> object:
    if isinstance(text, str) and not re.fullmatch("[0-9]{1,9}", text):
        raise ValueError("must be a whole number")
    return text


Cursor = Annotated[str | None, Query(description="``next_cursor`` or ``cursor`` of a page.", max_length=MAX_CURSOR)]
OfSegment = Annotated[
    Annotated[str, Field(max_length=MAX_SEGMENT_BYTES), shown_as_is("segment")] | None,
    Query(description="Name of a segment; the empty name stands for acts without a segment."),
]
Limit = Annotated[
    int, BeforeValidator(_digits), Query(ge=1, le=MAX_PAGE, description="Largest number of rows on a page.")
]
Wait = Annotated[float, Query(ge=0, le=30, description="How long to wait for the next entry if there is none.")]
WithHint = Annotated[HintCode | None, Query(description="List only sessions with this hint.")]
SortSegments = Annotated[
    SegmentSort, Query(description="Order of the segments; with ``-`` before it the order is reversed.")
]
WithRemoved = Annotated[bool, Query(description="Whether removed arms are listed, too.")]
Sort = Annotated[ArmSort, Query(description="Order of the arms; with ``-`` before it the largest come first.")]

Compared = Annotated[str, Query(description="Id of the session.")]

of_two = APIRouter(prefix="/v1/compare", tags=["sessions"], responses=PROBLEMS, route_class=CallRoute)
router = APIRouter(prefix="/v1/sessions", tags=["sessions"], responses=PROBLEMS, route_class=CallRoute)


def _changed(example: str, text: str) -> dict[str, Any]:
    """Describe the success of what changes a session: its view afterwards."""
    return describe_answers(SessionView, example, {200: text}, keyed=True)


_CREATED = {200: "The session exists already, with the same fields", 201: "Created"}


@router.post("", status_code=201, **describe_answers(SessionView, "view", _CREATED, keyed=True))
@access(ADMINS)
async def create_session(
    call: Call, body: Annotated[CreateSession, Body(openapi_examples=EXAMPLES["create"])]
) -> Reply:
    """Create a session: one learner, its parameters, and how its losses are read.

    If a session with this id and the same fields exists, the answer is that session. Other fields are refused.
    """
    key = await call.idempotency()
    created = await call.runtime.sessions.create(body.session_id, body.specification, key, call.rights)
    call.scope[NOTED_IN_SCOPE] = {"session": created.session_id}
    return Reply(created.answer.body, 201 if created.new else 200, created.answer.replayed)


@router.get("", **describe_answers(SessionList, "list", {200: "A page of sessions"}))
@access(READERS, logged=Logged.SAMPLE)
async def list_sessions(call: Call, cursor: Cursor = None, limit: Limit = 100, hint: WithHint = None) -> Reply:
    """List sessions, a page at a time, without their distributions.

    With ``hint`` a page may have fewer than ``limit`` sessions, or none, and still not be the last.
    """
    return Reply(await call.runtime.sessions.list(cursor, limit, call.rights.prefix, hint))


@router.get("/{session_id}", **describe_answers(SessionView, "view", {200: "The session as it is now"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def view_session(call: Call, session_id: str, segment: OfSegment = None) -> Reply:
    """View a session. This changes nothing, and does not extend its idle deadline.

    With ``segment``, the fields that exist for a segment show the values of that segment.
    """
    sessions = call.runtime.sessions
    return Reply(await (sessions.view(session_id) if segment is None else sessions.segment(session_id, segment)))


@of_two.get("", **describe_answers(Comparison, "compared", {200: "The groups, and the verdict"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def compare(call: Call, learner: Compared, control: Compared) -> Reply:
    """Compare two sessions over arms, which have the same range of losses or rewards.

    There is a verdict from 200 acts of both together on.
    """
    call.scope[NOTED_IN_SCOPE] = {"session": learner}
    if not learner.startswith(call.rights.prefix) or not control.startswith(call.rights.prefix):
        raise UnknownSessionError
    return Reply(await call.runtime.sessions.compare(learner, control))


@router.patch("/{session_id}", **_changed("session_changed", "The session with these fields"))
@access(ADMINS)
async def change_session(
    call: Call, session_id: str, body: Annotated[ChangeSession, Body(openapi_examples=EXAMPLES["change_session"])]
) -> Reply:
    """Change a session's window, its idle time, or its floor."""
    fields = {name: getattr(body, name) for name in body.model_fields_set}
    key = await call.idempotency()
    answer = await call.runtime.sessions.change(session_id, fields, key)
    return Reply(answer.body, 200, answer.replayed)


@router.patch("/{session_id}/arms", **_changed("changed", "The session with its arms changed"))
@access(ADMINS)
async def change_arms(
    call: Call, session_id: str, body: Annotated[ChangeArms, Body(openapi_examples=EXAMPLES["change"])]
) -> Reply:
    """Remove arms by label, add new ones, resume and pause some, in a session with labels.

    At least one arm must stay unpaused. A paused arm is not drawn. It keeps what it has learned, and still learns
    from feedback.

    A new arm gets the next index and starts at probability 1/n, where n is the new number of arms. The others keep
    their ratios. Outstanding decisions of a removed arm are settled as removed; feedback for them changes nothing.
    """
    labels = {"add": body.add, "remove": body.remove, "pause": body.pause, "resume": body.resume}
    return await _change_arms(call, session_id, labels)


@router.put("/{session_id}/arms", **_changed("changed", "The session with these arms"))
@access(ADMINS)
async def replace_arms(
    call: Call, session_id: str, body: Annotated[ReplaceArms, Body(openapi_examples=EXAMPLES["replace"])]
) -> Reply:
    """Replace the arms of a session, by label: missing arms are added, then arms that are not named are removed.

    Use it to replace a whole catalogue. Arms that stay keep what they have learned, and stay paused if they were
    paused.
    """
    return await _change_arms(call, session_id, {"catalogue": body.arms})


async def _change_arms(call: Call, session_id: str, labels: Mapping[str, Sequence[str]]) -> Reply:
    key = await call.idempotency()
    answer = await call.runtime.sessions.change_arms(session_id, labels, key, call.rights)
    return Reply(answer.body, 200, answer.replayed)


@router.delete("/{session_id}", **EMPTY, response_description="The session is deleted")
@access(ADMINS)
async def delete_session(call: Call, session_id: str) -> Reply:
    """Delete a session and all its data."""
    await call.runtime.sessions.delete(session_id)
    return Reply(status=204)


@router.get("/{session_id}/features", **describe_answers(FeaturePage, "features", {200: "The session's features"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_features(call: Call, session_id: str) -> Reply:
    """List the features of a session, with the shares of its latest acts that left them out."""
    return Reply(await call.runtime.sessions.features(session_id))


@router.post("/{session_id}/probabilities", **describe_answers(VisitorArms, "visitor_arms", {200: "The arms"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def view_visitor(
    call: Call, session_id: str, body: Annotated[OfVisitor, Body(openapi_examples=EXAMPLES["visitor"])]
) -> Reply:
    """View the probability of each arm in an act for a visitor. This opens no slot and changes nothing."""
    return Reply(await call.runtime.sessions.visitor(session_id, body.features))


@router.get("/{session_id}/arms", **describe_answers(ArmPage, "arms", {200: "A page of arms"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_arms(
    call: Call,
    session_id: str,
    cursor: Cursor = None,
    limit: Limit = 100,
    sort: Sort = "index",
    segment: OfSegment = None,
    removed: WithRemoved = False,
) -> Reply:
    """List the arms of a session with their counts, a page at a time; removed arms are left out if not asked for.

    With ``segment`` the list has the probabilities in that segment, and no counts.
    """
    arms = call.runtime.sessions.arms
    return Reply(await arms(session_id, cursor, limit, sort, segment, with_removed=removed))


@router.get("/{session_id}/segments", **describe_answers(SegmentPage, "segments", {200: "A page of segments"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_segments(
    call: Call, session_id: str, cursor: Cursor = None, limit: Limit = 100, sort: SortSegments = "segment"
) -> Reply:
    """List the segments that a session keeps, a page at a time.

    If there are more than 1,000 segments, the list can be sorted by ``segment`` only.
    """
    return Reply(await call.runtime.sessions.segments(session_id, cursor, limit, sort))


@router.get(
    "/{session_id}/decisions", **describe_answers(DecisionPage, "decisions", {200: "A page of the decision log"})
)
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_decisions(
    call: Call, session_id: str, cursor: Cursor = None, limit: Limit = 100, wait_seconds: Wait = 0
) -> Reply:
    """Read the decision log of a session that was created with ``decision_log``, oldest entries first.

    To follow the log, pass each page's ``cursor`` to the next call, with ``wait_seconds``.
    """
    page, left = call.runtime.sessions.logs.page, call.scope.get("extensions", {}).get(LEFT)
    return Reply(await page(session_id, cursor, limit, wait_seconds, left))


@router.get("/{session_id}/history", **describe_answers(History, "history", {200: "The session over time"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def show_history(call: Call, session_id: str) -> Reply:
    """Read how a session developed: samples, oldest first. Older samples are further apart."""
    return Reply(await call.runtime.sessions.history(session_id))


@router.get("/{session_id}/export", **describe_answers(ExportedSession, "exported", {200: "The whole session"}))
@access(ADMINS)
async def export_session(call: Call, session_id: str) -> Reply:
    """Export a whole session, at one version. The document contains the seed: keep it secret.

    It does not contain the decision log and the answers stored under idempotency keys.
    """
    return Reply(await call.runtime.sessions.export(session_id))


@router.post("/import", status_code=201, **describe_answers(SessionView, "view", {201: "Created"}, keyed=True))
@access(ADMINS, max_body_bytes=lambda settings: settings.max_import_bytes, names_no_session=True)
async def import_session(
    call: Call,
    body: Annotated[ExportedSession, Body(openapi_examples=EXAMPLES["import"])],  # noqa: ARG001 - read as it came, see below
) -> Reply:
    """Create a session from an exported document, with the same id and the same state.

    A document that was changed, is incomplete, or was written by a newer version is refused.
    """
    key = await call.idempotency()
    # The digest is that of the document itself, not of what validation made of it.
    restored = await call.runtime.sessions.restore(call.posted or {}, call.rights, key)
    return Reply(restored.body, 201, restored.replayed)
