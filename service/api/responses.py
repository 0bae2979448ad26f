"""Successes as HTTP responses."""

from __future__ import annotations

from fastapi import Response

from service.api.requests import JSON
from service.sessions import Answer

REPLAYED = {"Idempotent-Replayed": "true"}


def json_response(answer: Answer, status: int = 200) -> Response:
    """A success; marked where it is the answer of an earlier request with the same key."""
    return Response(answer.body, status, REPLAYED if answer.replayed else None, JSON)
