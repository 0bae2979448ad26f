"""Routes whose requests are read by this service's rules.

FastAPI describes them; their requests skip its dependency solver, which costs more than acting does. A handler
may take ``request``, path parameters (texts), query parameters, and one body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import QueryParams

from ...cooperative.offload import run_in_thread_if_large
from ...settings import Settings
from .json_body import read_object
from .list_limits import check_lengths
from .validation_errors import from_pydantic_errors

Errors = list[dict[str, Any]]


class StrictRoute(APIRoute):
    """Reads the body strictly, validates what the handler takes, and calls it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Make the handler of requests."""
        endpoint: Callable[..., Coroutine[Any, Any, Response]] = self.endpoint
        takes_request = self.dependant.request_param_name
        defaults = {field.name: field.default for field in self.dependant.query_params}
        bodiless = self._bodiless()

        async def answer(request: Request) -> Response:
            errors: Errors = []
            asked = request.scope["query_string"]
            values = request.path_params | (self._query(request.query_params, errors) if asked else defaults)
            if self.body_field is not None:
                body = await read_object(request)
                size = request.state.body_bytes
                if size == 0 and bodiless is not None:
                    values |= bodiless
                else:
                    values |= await run_in_thread_if_large(
                        size, self._body, body, request.app.state.settings, errors
                    )
            if errors:
                raise from_pydantic_errors(errors)
            if takes_request:
                values[takes_request] = request
            return await endpoint(**values)

        async def handle(request: Request) -> Response:
            try:
                return await answer(request)
            finally:
                # The server keeps a connection's last request until the next one comes.
                request.state.body = None

        return handle

    def _bodiless(self) -> dict[str, Any] | None:
        """What the handler takes where there is no body, if it may do without."""
        field = self.body_field
        return None if field is None or field.field_info.is_required() else {field.name: field.default}

    def _query(self, given: QueryParams, errors: Errors) -> dict[str, Any]:
        fields = {field.alias: field for field in self.dependant.query_params}
        counts = Counter(name for name, _ in given.multi_items())
        errors += [
            {"type": "extra_forbidden", "loc": ("query", name), "msg": "there is no such query parameter"}
            for name in counts
            if name not in fields
        ]
        values = {}
        for alias, field in fields.items():
            values[field.name] = field.default
            if counts[alias] > 1:
                errors.append({"type": "repeated", "loc": ("query", alias), "msg": "may be given once"})
            elif alias in given:
                values[field.name], found = field.validate(given[alias], loc=("query", alias))
                errors += found
        return values

    def _body(self, body: dict[str, Any] | None, settings: Settings, errors: Errors) -> dict[str, Any]:
        field = self.body_field
        assert field is not None  # noqa: S101 - only called with one
        if body is not None:
            check_lengths(body, settings)
        value, found = field.validate({} if body is None else body, loc=("body",))
        errors += [{"type": "missing", "loc": ("body",), "msg": ""}] if body is None else found
        return {field.name: value}
