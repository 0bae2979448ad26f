"""The interactive documentation, with its page's assets served from here.

All addresses are relative to the page, so that it loads behind a proxy that strips a prefix, and without any other
host.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles

from ...settings import Settings
from ..access import READERS, access

ASSETS = "docs-assets"

router = APIRouter(include_in_schema=False)


def _opened(settings: Settings) -> bool:
    return settings.open_docs


@router.get("/docs")
@access(READERS, opened_by=_opened)
async def docs(request: Request) -> HTMLResponse:
    """Show the OpenAPI document as a page."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title=request.app.title,
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon-32x32.png",
    )


@access(READERS, opened_by=_opened)
async def openapi(request: Request) -> JSONResponse:
    """Show the OpenAPI document."""
    return JSONResponse(request.app.openapi())


router.add_route("/openapi.json", openapi, include_in_schema=False)
_assets = StaticFiles(packages=[("fastapi_swagger", "resources")])
router.mount(f"/{ASSETS}", access(READERS, opened_by=_opened)(_assets))
