"""Slots: act, and feed losses back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

from fastapi import Body, Query, Request, Response

from ...asgi_scope import is_gone_of
from ...errors import InvalidRequestError
from ...models.events import Event, Surplus
from ...sessions.act import Act
from ...sessions.feedback import SettleFeedback
from ...settings import Settings
from .. import schemas
from ..examples import ACT, ACTION, ACTIONS, ACTS, EVENT, EVENTS, SETTLEMENT
from ..openapi import PROBLEMS, describe_answers
from ..request_body import idempotency_of
from ..responses import json_response
from ..runtime import CLIENTS, Logged, access, runtime_of
from ..schemas import Action, Actions, Acts, Feedbacks, Settlement
from ..strict_route import StrictRouter

# -- What the calls about slots ask of a session: the operations that the routes and ``hot_routes`` make alike.

ANY_ARM = schemas.Act()
"""The body of an act that may draw every arm."""


def act_of(settings: Settings, body: schemas.Act, is_gone: Callable[[], bool] | None) -> Act:
    """Make the operation of a call of act.

    Parameters
    ----------
    settings : of the service: the largest act
    body : of the request, checked
    is_gone : whether the client has left; None where nobody knows
    """
    if body is ANY_ARM:
        return Act(1, settings.max_act_cells, single=True, is_gone=is_gone)
    return Act(1, settings.max_act_cells, single=True, choice=body.choice, segment=body.segment, is_gone=is_gone)


def acts_of(settings: Settings, body: schemas.Acts, is_gone: Callable[[], bool] | None) -> Act:
    """Make the operation of a call of acts.

    Parameters
    ----------
    settings : of the service: the largest act, and most acts of a call
    body : of the request, checked
    is_gone : whether the client has left; None where nobody knows

    Raises
    ------
    InvalidRequestError
        for more acts than the settings allow.
    """
    if body.count > settings.max_acts:
        raise InvalidRequestError.of("count", f"must not exceed {settings.max_acts}")
    return Act(
        body.count,
        settings.max_act_cells,
        choice=body.choice,
        distinct=body.distinct,
        segment=body.segment,
        is_gone=is_gone,
    )


def feedback_of(events: Sequence[Event], on_surplus: Surplus | None) -> SettleFeedback:
    """Make the operation of a call of feedback.

    Parameters
    ----------
    events : the one event of the request, checked
    on_surplus : as the query says; None where it does not say
    """
    return SettleFeedback(events, on_surplus, single=True)


def feedbacks_of(
    events: Sequence[Event], on_surplus: Surplus | None, *, skips_invalid: bool = False
) -> SettleFeedback:
    """Make the operation of a call of feedbacks.

    Parameters
    ----------
    events : of the request, checked
    on_surplus : as the query says; None where it does not say
    skips_invalid : whether events that do not fit the session are skipped
    """
    return SettleFeedback(events, on_surplus, skips_invalid=skips_invalid)


router = StrictRouter(prefix="/v1/sessions/{session_id}", tags=["slots"], responses=PROBLEMS)

OnSurplus = Annotated[
    Surplus | None,
    Query(
        description="What to do with events that match no outstanding decision: refuse the whole request (409), or "
        "skip these events. The default is skip in sessions with expiry, and refuse in others."
    ),
]


OnInvalid = Annotated[
    Literal["refuse", "skip"],
    Query(
        description="What to do with events that do not fit the session (arm, label, slot, range, length): refuse "
        "the whole request (422), or skip these events. Events that do not match the schema are always refused."
    ),
]


@router.post("/act", **describe_answers(Action, ACTION, {200: "The action of a new slot"}, keyed=True))
@access(CLIENTS, logged=Logged.SAMPLE)
async def act(
    request: Request,
    session_id: str,
    body: Annotated[schemas.Act, Body(openapi_examples=ACT)] = ANY_ARM,
) -> Response:
    """Open the next slot and draw an arm, one that may be drawn, or play a point."""
    operation = act_of(runtime_of(request).settings, body, is_gone_of(request.scope))
    return await _answer(request, session_id, operation)


@router.post("/acts", **describe_answers(Actions, ACTIONS, {200: "The actions of new slots"}, keyed=True))
@access(CLIENTS, logged=Logged.SAMPLE)
async def acts(
    request: Request,
    session_id: str,
    body: Annotated[Acts, Body(openapi_examples=ACTS)],
) -> Response:
    """Open several slots in a row: the same actions as that many calls of act.

    With ``distinct`` each arm is drawn at most once, for different arms on one page.
    """
    operation = acts_of(runtime_of(request).settings, body, is_gone_of(request.scope))
    return await _answer(request, session_id, operation)


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
    return await _answer(request, session_id, feedback_of([body], on_surplus))


@router.post(
    "/feedbacks", **describe_answers(Settlement, SETTLEMENT, {200: "How the events were settled"}, keyed=True)
)
@access(CLIENTS, logged=Logged.SAMPLE)
async def feedbacks(
    request: Request,
    session_id: str,
    body: Annotated[Feedbacks, Body(openapi_examples=EVENTS)],
    on_surplus: OnSurplus = None,
    on_invalid: OnInvalid = "refuse",
) -> Response:
    """Report a batch of events: all are applied, or none."""
    operation = feedbacks_of(body.events, on_surplus, skips_invalid=on_invalid == "skip")
    return await _answer(request, session_id, operation)


async def _answer(request: Request, session_id: str, operation: Act | SettleFeedback) -> Response:
    operation.idempotency = await idempotency_of(request)
    return json_response(await runtime_of(request).sessions.submit(session_id, operation))
