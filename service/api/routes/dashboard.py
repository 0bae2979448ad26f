"""The dashboard: at the address of the service a page for browsers, and an index for everybody else.

The page and its files hold no data, so they ask for no API key: the page asks its reader for one. Charts are drawn
by one file of the package plotly. All addresses are relative to the page: it loads behind a proxy that strips a
prefix, and without any other host.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ... import install
from ..access import VIEWERS, access
from ..runtime import runtime_of

ASSETS = "dashboard-assets"
CHARTS = "plotly.min.js"
"""The file of the package plotly that draws charts."""
FOLDER = Path(__file__).parents[2] / "dashboard"
HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
    "X-Content-Type-Options": "nosniff",
}
MISSING = (
    "<!doctype html><html lang='en'><meta charset='utf-8'><title>delayed bandits</title>"
    f"<p>The dashboard is not installed: <code>{install('dashboard')}</code> brings it. "
    "The API is described <a href='docs'>here</a>.</p></html>"
)
INDEX = {"sessions": "v1/sessions", "docs": "docs", "openapi": "openapi.json", "metrics": "metrics"}
"""Addresses relative to this one."""

router = APIRouter(include_in_schema=False)


@cache
def charts_folder() -> Path | None:
    """Return where the package plotly keeps ``CHARTS``; None where it is not installed."""
    found = find_spec("plotly")
    folders = [] if found is None else found.submodule_search_locations or []
    candidates = (Path(folder) / "package_data" for folder in folders)
    return next((folder for folder in candidates if (folder / CHARTS).is_file()), None)


@router.head("/")
@router.get("/")
@access(VIEWERS, keyless=True)
async def root(request: Request) -> Response:
    """Show browsers the dashboard, and others an index."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(INDEX, headers=HEADERS)
    if not runtime_of(request).settings.dashboard:
        return RedirectResponse("docs", headers=HEADERS)
    if charts_folder() is None:
        return HTMLResponse(MISSING, headers=HEADERS)
    return FileResponse(FOLDER / "index.html", headers=HEADERS)


class _Assets(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        """Find a file of the page, or the one of the chart package; browsers ask again whether it has changed."""
        charts = charts_folder()
        if path == CHARTS and charts is not None:
            response = await StaticFiles(directory=charts).get_response(path, scope)
        else:
            response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


router.mount(f"/{ASSETS}", access(VIEWERS, keyless=True)(_Assets(directory=FOLDER / "assets")))
