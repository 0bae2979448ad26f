"""Health and metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from ...errors import StoreDownError
from ...sessions.readiness import Readiness
from ...telemetry.exposition import CONTENT_TYPE
from ...telemetry.metrics import Metrics
from ..parsing.json_body import JSON

router = APIRouter(tags=["health"])

OK = b'{"status":"ok"}'


HEALTHY: dict[int | str, dict[str, Any]] = {200: {"content": {JSON: {"example": {"status": "ok"}}}}}
UNREADY: dict[int | str, dict[str, Any]] = {503: {"description": "The store does not answer or refuses commands"}}


@router.head("/livez", response_class=Response)
@router.get("/livez", response_class=Response, responses=HEALTHY)
async def livez() -> Response:
    """Answer 200 while the process serves requests, even when the store is down."""
    return Response(OK, media_type=JSON)


@router.head("/readyz", response_class=Response, responses=UNREADY)
@router.get("/readyz", response_class=Response, responses=HEALTHY | UNREADY)
async def readyz(request: Request) -> Response:
    """Answer 200 while the store can commit, and else 503 with the reason."""
    readiness: Readiness = request.app.state.readiness
    if (reason := await readiness.failure()) is not None:
        raise StoreDownError(reason)
    return Response(OK, media_type=JSON)


@router.get("/metrics", response_class=Response, responses={200: {"content": {CONTENT_TYPE: {}}}})
async def metrics(request: Request) -> Response:
    """Show the metrics of all workers in Prometheus' text format."""
    measured: Metrics = request.app.state.metrics
    return Response(await measured.exposition.text(), media_type=CONTENT_TYPE)
