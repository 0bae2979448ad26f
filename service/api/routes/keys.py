"""What the API key of a request may do."""

from __future__ import annotations

from fastapi import Request, Response

from ..access import VIEWERS, Logged, access
from ..openapi.answer_examples import KEY
from ..openapi.answers import PROBLEMS, describe_answers
from ..parsing.dependencies import api_key_of
from ..parsing.strict_route import StrictRouter
from ..schemas import KeyView

router = StrictRouter(prefix="/v1/key", tags=["keys"], responses=PROBLEMS)


@router.get("", **describe_answers(KeyView, KEY, {200: "The key"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def show_key(request: Request) -> Response:
    """Return the rights of this request's API key; if the service has no keys, everybody may do everything."""
    key = api_key_of(request)
    view = KeyView() if key is None else KeyView(name=key.name, role=key.role, session_prefix=key.session_prefix)
    return Response(view.model_dump_json(), media_type="application/json")
