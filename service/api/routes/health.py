"""Health and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from ...errors import OverloadedError, StoreUnavailableError
from ...telemetry.metrics import CONTENT_TYPE
from ..access import READERS, VIEWERS, Logged, access
from ..parsing.json_body import JSON
from ..runtime import runtime_of

router = APIRouter(tags=["health"])

OK = b'{"status":"ok"}'
DRAINING = "The service is about to stop"


HEALTHY: dict[int | str, dict[str, Any]] = {200: {"content": {JSON: {"example": {"status": "ok"}}}}}
UNREADY: dict[int | str, dict[str, Any]] = {
    503: {"description": "The store does not answer or refuses commands, or the service is about to stop"}
}
SERVES, READY = "The process serves requests", "The store can commit"


@router.head("/livez", response_class=Response, response_description=SERVES)
@router.get("/livez", response_class=Response, response_description=SERVES, responses=HEALTHY)
@access(VIEWERS, keyless=True, logged=Logged.SAMPLE)
async def livez() -> Response:
    """Answer 200 while the process serves requests, even when the store is down."""
    return Response(OK, media_type=JSON)


@router.head("/readyz", response_class=Response, response_description=READY, responses=UNREADY)
@router.get("/readyz", response_class=Response, response_description=READY, responses=HEALTHY | UNREADY)
@access(VIEWERS, keyless=True, logged=Logged.CHANGES)
async def readyz(request: Request) -> Response:
    """Answer 200 while the store can commit, and else 503 with the reason; also 503 once a stop has begun."""
    if runtime_of(request).draining():
        raise OverloadedError(DRAINING)
    if (reason := await runtime_of(request).readiness.failure()) is not None:
        raise StoreUnavailableError(reason)
    return Response(OK, media_type=JSON)


@router.head("/metrics", response_class=Response, include_in_schema=False)
@router.get(
    "/metrics",
    response_class=Response,
    response_description="All metrics",
    responses={200: {"content": {CONTENT_TYPE: {}}}},
)
@access(READERS, opened_by=lambda settings: settings.open_metrics, of_all_sessions=True, logged=Logged.SAMPLE)
async def metrics(request: Request) -> Response:
    """Show the metrics of all workers in Prometheus' text format."""
    return Response(await runtime_of(request).metrics.exposition.text(), media_type=CONTENT_TYPE)
