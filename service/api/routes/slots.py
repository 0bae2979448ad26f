"""Slots: act, and feed losses back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query

from ...errors import InvalidRequestError
from ...models.events import Event, Idempotency, PlainEvents
from ...sessions.act import Act as ActOperation
from ...sessions.feedback import SettleFeedback
from ...telemetry.logs import PART, WAITED
from ..bulk import NDJSON, read_lines, settle_here, settle_lines
from ..calls import Call, Reply
from ..json_body import plain_event, plain_events
from ..openapi import EXAMPLES, PROBLEMS, describe_answers
from ..path_operations import CallRoute
from ..runtime import CLIENTS, Logged, access
from ..schemas import Act, Action, Actions, Acts, BulkFeedbacks, BulkSettlement, Feedbacks, Settlement

router = APIRouter(prefix="/v1/sessions/{session_id}", tags=["slots"], responses=PROBLEMS, route_class=CallRoute)
ANY_ARM = Act()

_ON_SURPLUS = (
    "What to do with events that match no outstanding decision: refuse the whole request (409), or skip these "
    "events. The default is skip in sessions with expiry, and refuse in others."
)
OnSurplus = Annotated[Literal["refuse", "skip"] | None, Query(description=_ON_SURPLUS)]
_ON_INVALID = (
    "What to do with events that do not fit the session (arm, label, slot, range, length): refuse the whole "
    "request (422), or skip these events, and those that do not match the schema."
)
OnInvalid = Annotated[Literal["refuse", "skip"], Query(description=_ON_INVALID)]


@router.post("/act", **describe_answers(Action, "action", {200: "The action of a new slot"}, keyed=True))
@access(CLIENTS, logged=Logged.SAMPLE)
async def act(
    call: Call, session_id: str, body: Annotated[Act, Body(openapi_examples=EXAMPLES["act"])] = ANY_ARM
) -> Reply:
    """Open the next slot and draw an arm, one that may be drawn, or play a point."""
    operation = ActOperation(1, call.runtime.settings.max_act_cells, single=True, is_gone=call.is_gone)
    if body is not ANY_ARM:
        operation.choice, operation.segment, operation.visitor = body.choice, body.segment, body.visitor
        operation.features = body.features
    return await _submitted(call, session_id, operation)


@router.post("/acts", **describe_answers(Actions, "actions", {200: "The actions of new slots"}, keyed=True))
@access(CLIENTS, logged=Logged.SAMPLE)
async def acts(
    call: Call, session_id: str, body: Annotated[Acts, Body(openapi_examples=EXAMPLES["acts"])]
) -> Reply:
    """Open several slots in a row: the same actions as that many calls of act.

    With ``distinct`` each arm is drawn at most once, for different arms on one page.
    """
    settings = call.runtime.settings
    if body.count > settings.max_acts:
        raise InvalidRequestError.of("count", f"must not exceed {settings.max_acts}")
    operation = ActOperation(body.count, settings.max_act_cells, distinct=body.distinct, is_gone=call.is_gone)
    operation.choice, operation.segment, operation.visitor = body.choice, body.segment, body.visitor
    operation.features = body.features
    return await _submitted(call, session_id, operation)


def _settled(text: str) -> dict[str, Any]:
    return describe_answers(Settlement, "settlement", {200: text}, keyed=True)


@router.post("/feedback", **_settled("How the event was settled"))
@access(CLIENTS, logged=Logged.SAMPLE)
async def feedback(
    call: Call,
    session_id: str,
    body: Annotated[Event, Body(openapi_examples=EXAMPLES["event"]), plain_event],
    on_surplus: OnSurplus = None,
) -> Reply:
    """Report the loss of one decision."""
    events = body if isinstance(body, PlainEvents) else [body]
    return await _submitted(call, session_id, SettleFeedback(events, on_surplus, single=True))


@router.post("/feedbacks", **_settled("How the events were settled"))
@access(CLIENTS, logged=Logged.SAMPLE)
async def feedbacks(
    call: Call,
    session_id: str,
    body: Annotated[Feedbacks, Body(openapi_examples=EXAMPLES["events"]), plain_events],
    on_surplus: OnSurplus = None,
    on_invalid: OnInvalid = "refuse",
) -> Reply:
    """Report a batch of events: all are applied, or none."""
    operation = SettleFeedback(body.events, on_surplus, skips_invalid=on_invalid == "skip")
    return await _submitted(call, session_id, operation)


bulk = APIRouter(prefix="/v1", tags=["slots"], responses=PROBLEMS, route_class=CallRoute)
_SKIPS = Query(description="Wrong events and surplus are always skipped here.")
_OF_MANY = describe_answers(BulkSettlement, "settlement_of_many", {200: "How the events were settled"}, keyed=True)
_OF_MANY["openapi_extra"] = _OF_MANY["openapi_extra"] | {
    "requestBody": {"content": {NDJSON: {"schema": {"type": "string", "description": "An event in each line."}}}}
}


@bulk.post("/feedbacks", **_OF_MANY)
@access(CLIENTS, logged=Logged.SAMPLE)
async def feedbacks_of_many(
    call: Call,
    body: Annotated[BulkFeedbacks, Body(openapi_examples=EXAMPLES["events_of_many"]), read_lines],
    on_surplus: Annotated[Literal["skip"], _SKIPS] = "skip",  # noqa: ARG001 - all else is refused
    on_invalid: Annotated[Literal["skip"], _SKIPS] = "skip",  # noqa: ARG001
) -> Reply:
    """Report events of many sessions: those of each are applied, or none of them."""
    events: Any = body.events
    if PART in call.scope:
        session_id, *key = call.scope[PART]
        waited = call.scope.get(WAITED, 0.0)
        return await settle_here(call.runtime, session_id, events, Idempotency(*key) if key else None, waited)
    return await settle_lines(call, events)


async def _submitted(call: Call, session_id: str, operation: ActOperation | SettleFeedback) -> Reply:
    operation.idempotency = await call.idempotency()
    operation.waited = call.scope.get(WAITED, 0.0)
    answer = await call.runtime.sessions.submit(session_id, operation)
    return Reply(answer.body, 200, answer.replayed)
