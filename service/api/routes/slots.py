"""Slots: act, and feed losses back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response

from ...errors import InvalidRequestError, SurplusFeedbackError
from ...models.events import Event
from ...models.specification import Surplus
from ...sessions.operations import Act, SettleFeedback
from ..access import CLIENTS, Logged, access
from ..openapi.examples import ACTION, ACTIONS, EVENT, EVENTS, PROBLEMS, SETTLEMENT, describe_answers
from ..parsing.dependencies import idempotency_of
from ..parsing.strict_route import StrictRoute
from ..responses import json_response
from ..runtime import runtime_of
from ..schemas import Action, Actions, Acts, Feedbacks, Nothing, Settlement

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["slots"], route_class=StrictRoute, responses=PROBLEMS)

NOTHING = Nothing()

OnSurplus = Annotated[
    Surplus | None,
    Query(
        description="What to do with events that match no outstanding decision: refuse the whole request (409), or "
        "skip these events. The default is skip in sessions with expiry, and refuse in others."
    ),
]


@router.post("/act", **describe_answers(Action, ACTION, {200: "The action of a new slot"}, keyed=True))
@access(CLIENTS, logged=Logged.SAMPLE)
async def act(
    request: Request,
    session_id: str,
    body: Annotated[Nothing, Body()] = NOTHING,  # noqa: ARG001 - an empty body and an empty object mean the same
) -> Response:
    """Open the next slot and draw an arm, or play a point."""
    operation = Act(
        1, runtime_of(request).settings.max_act_cells, single=True, idempotency=await idempotency_of(request)
    )
    return json_response(await runtime_of(request).sessions.submit(session_id, operation))


@router.post("/acts", **describe_answers(Actions, ACTIONS, {200: "The actions of new slots"}, keyed=True))
@access(CLIENTS, logged=Logged.SAMPLE)
async def acts(
    request: Request,
    session_id: str,
    body: Annotated[Acts, Body(examples=[{"count": 2}])],
) -> Response:
    """Open several slots in a row: the same actions as that many calls of act."""
    if body.count > runtime_of(request).settings.max_acts:
        raise InvalidRequestError.of("count", f"must not exceed {runtime_of(request).settings.max_acts}")
    operation = Act(
        body.count, runtime_of(request).settings.max_act_cells, idempotency=await idempotency_of(request)
    )
    return json_response(await runtime_of(request).sessions.submit(session_id, operation))


@router.post(
    "/feedback", **describe_answers(Settlement, SETTLEMENT, {200: "How the event was settled"}, keyed=True)
)
@access(CLIENTS, logged=Logged.SAMPLE)
async def feedback(
    request: Request,
    session_id: str,
    body: Annotated[Event, Body(openapi_examples=EVENT)],
    on_surplus: OnSurplus = None,
) -> Response:
    """Report the loss of one decision."""
    operation = SettleFeedback([body], on_surplus, single=True, idempotency=await idempotency_of(request))
    return await _feed(request, session_id, operation)


@router.post(
    "/feedbacks", **describe_answers(Settlement, SETTLEMENT, {200: "How the events were settled"}, keyed=True)
)
@access(CLIENTS, logged=Logged.SAMPLE)
async def feedbacks(
    request: Request,
    session_id: str,
    body: Annotated[Feedbacks, Body(openapi_examples=EVENTS)],
    on_surplus: OnSurplus = None,
) -> Response:
    """Report a batch of events: all are applied, or none."""
    operation = SettleFeedback(body.events, on_surplus, idempotency=await idempotency_of(request))
    return await _feed(request, session_id, operation)


async def _feed(request: Request, session_id: str, operation: SettleFeedback) -> Response:
    try:
        return json_response(await runtime_of(request).sessions.submit(session_id, operation))
    except (InvalidRequestError, SurplusFeedbackError):
        runtime_of(request).metrics.events["refused"](operation.weight)
        raise
