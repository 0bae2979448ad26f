"""The interactive documentation, with its page assets served from here.

All addresses are relative to the page, so that it loads behind a proxy that strips a prefix, and without
any other host.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

ASSETS = "docs-assets"

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Show the OpenAPI document as a page."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title=request.app.title,
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon-32x32.png",
    )


def install(app: FastAPI) -> None:
    """Serve the page and its assets."""
    app.include_router(router)
    app.mount(f"/{ASSETS}", StaticFiles(packages=[("fastapi_swagger", "resources")]))
