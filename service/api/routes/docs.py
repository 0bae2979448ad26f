"""The interactive documentation, with its page's assets served from here.

All addresses are relative to the page, so that it loads behind a proxy that strips a prefix, and without any other
host.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ...cooperative import run_in_thread
from ...settings import Settings
from ..access import READERS, access

ASSETS = "docs-assets"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
"""A script that stands in a page."""

router = APIRouter(include_in_schema=False)


def _opened(settings: Settings) -> bool:
    return settings.open_docs


@router.head("/docs")
@router.get("/docs")
@access(READERS, opened_by=_opened)
async def docs(request: Request) -> HTMLResponse:
    """Show the OpenAPI document as a page."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json",
        title=request.app.title,
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon-32x32.png",
    )
    page.headers.update(_HEADERS | {"Content-Security-Policy": _policy(bytes(page.body))})
    return page


def _policy(page: bytes) -> str:
    """Allow what is served from here, and the script that stands in the page, by its hash."""
    hashes = (b64encode(sha256(script).digest()).decode("ascii") for script in _SCRIPT.findall(page))
    scripts = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@access(READERS, opened_by=_opened)
async def openapi(request: Request) -> JSONResponse:
    """Show the OpenAPI document, made for the first request that asks for it: few workers are ever asked."""
    # Making it takes as long as a fifth of a start, so other requests are served meanwhile.
    document = request.app.openapi_schema or await run_in_thread(request.app.openapi)
    return JSONResponse(document, headers=_HEADERS)


class _Assets(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        """Find a file; browsers take it for what its type says."""
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        return response


router.add_route("/openapi.json", openapi, include_in_schema=False)
_assets = _Assets(packages=[("fastapi_swagger", "resources")])
router.mount(f"/{ASSETS}", access(READERS, opened_by=_opened)(_assets))
