"""What is kept beside a session's state: its arms with their counts, its decision log, and its history."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response

from ...sessions.pages import ArmSort
from ...sessions.segments import SegmentSort
from ..access import VIEWERS, Logged, access
from ..openapi.answer_examples import ARMS, DECISIONS, HISTORY, SEGMENTS
from ..openapi.answers import PROBLEMS, describe_answers
from ..parsing.paging import Cursor, Limit, OfSegment
from ..parsing.strict_route import StrictRouter
from ..responses import body_response
from ..runtime import runtime_of
from ..schemas import ArmPage, DecisionPage, History, SegmentPage

router = StrictRouter(prefix="/v1/sessions/{session_id}", tags=["sessions"], responses=PROBLEMS)

SortSegments = Annotated[
    SegmentSort, Query(description="Order of the segments; with ``-`` before it the order is reversed.")
]
Sort = Annotated[ArmSort, Query(description="Order of the arms; with ``-`` before it the largest come first.")]


@router.get("/arms", **describe_answers(ArmPage, ARMS, {200: "A page of arms"}))
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


@router.get("/segments", **describe_answers(SegmentPage, SEGMENTS, {200: "A page of segments"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_segments(
    request: Request, session_id: str, cursor: Cursor = None, limit: Limit = 100, sort: SortSegments = "segment"
) -> Response:
    """List the segments that a session keeps, a page at a time.

    If there are more than 1,000 segments, the list can be sorted by ``segment`` only.
    """
    return body_response(await runtime_of(request).sessions.segments(session_id, cursor, limit, sort))


@router.get("/decisions", **describe_answers(DecisionPage, DECISIONS, {200: "A page of the decision log"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def list_decisions(request: Request, session_id: str, cursor: Cursor = None, limit: Limit = 100) -> Response:
    """Read the decision log of a session that was created with ``decision_log``, oldest entries first."""
    return body_response(await runtime_of(request).sessions.decisions(session_id, cursor, limit))


@router.get("/history", **describe_answers(History, HISTORY, {200: "The session over time"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def show_history(request: Request, session_id: str) -> Response:
    """Read how a session developed: samples, oldest first. Older samples are further apart."""
    return body_response(await runtime_of(request).sessions.history(session_id))
