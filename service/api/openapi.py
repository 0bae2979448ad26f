"""The OpenAPI document: what FastAPI writes, with this service's one shape of errors."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from service.api.problems import Problem, ProblemError
from service.auth import read_keys

_FASTAPI_ERRORS = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> None:
    """Let ``app`` serve the document, made once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, routes=app.routes, description=app.description)
    schemas = document["components"]["schemas"]
    for name in _FASTAPI_ERRORS:
        schemas.pop(name, None)
    template = "#/components/schemas/{model}"
    for model in (Problem, ProblemError):
        schema = model.model_json_schema(ref_template=template)
        schema.pop("$defs", None)
        schemas[model.__name__] = schema
    _add_keys(document, needed=bool(read_keys(app.state.settings)))
    return document


def _add_keys(document: dict[str, Any], *, needed: bool) -> None:
    """Tell how API keys are sent; without any, requests may come without."""
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    document["security"] = [{"bearer": []}, {"header": []}, *([] if needed else [{}])]
    for path in ("/livez", "/readyz"):
        document["paths"][path]["get"]["security"] = []
