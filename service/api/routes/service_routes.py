"""What is no session: health, metrics, what an API key may do, clicks of pages, documentation, and dashboard.

Pages and their files hold no data, and all addresses in them are relative: they load behind a proxy that strips a
prefix, and without any other host.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache, partial
from hashlib import sha256
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ... import __version__, install
from ...cooperative import run_in_thread
from ...errors import OverloadedError, StoreUnavailableError
from ...sessions.clicks import settle_clicks
from ...sessions.feedback import SettleFeedback
from ...settings import Settings
from ...telemetry.logs import NOTED_IN_SCOPE
from ...telemetry.metrics import CONTENT_TYPE
from ...tokens import read
from ..calls import Call, Headers, Reply
from ..json_body import JSON, PartLimits, check_media_type, parse, parse_small
from ..openapi import CLICK_PROBLEMS, EMPTY, EXAMPLES, PROBLEMS, describe_answers
from ..path_operations import CallRoute
from ..problems import validated
from ..runtime import CLICKS, CLICKS_SCRIPT, READERS, VIEWERS, Logged, access
from ..schemas import Clicks, KeyView

# -- Health and metrics.

router = APIRouter(tags=["health"])

OK = b'{"status":"ok"}'
DRAINING = "The service is about to stop"


HEALTHY: dict[int | str, dict[str, Any]] = {200: {"content": {JSON: {"example": {"status": "ok"}}}}}
UNREADY: dict[int | str, dict[str, Any]] = {
    503: {"description": "The store does not answer or refuses commands, or the service is about to stop"}
}
MEASURED: dict[int | str, dict[str, Any]] = {200: {"content": {CONTENT_TYPE: {}}}}
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
    if request.app.state.runtime.draining():
        raise OverloadedError(DRAINING)
    if (reason := await request.app.state.runtime.readiness.failure()) is not None:
        raise StoreUnavailableError(reason)
    return Response(OK, media_type=JSON)


@router.head("/metrics", response_class=Response, include_in_schema=False)
@router.get("/metrics", response_class=Response, response_description="All metrics", responses=MEASURED)
@access(READERS, opened_by=lambda settings: settings.open_metrics, of_all_sessions=True, logged=Logged.SAMPLE)
async def metrics(request: Request) -> Response:
    """Show the metrics of all workers in Prometheus' text format."""
    return Response(await request.app.state.runtime.metrics.text(), media_type=CONTENT_TYPE)


# -- What the API key of a request may do.

router_of_keys = APIRouter(prefix="/v1/key", tags=["keys"], responses=PROBLEMS, route_class=CallRoute)


@router_of_keys.get("", **describe_answers(KeyView, "key", {200: "The key"}))
@access(VIEWERS, logged=Logged.SAMPLE)
async def show_key(call: Call) -> Reply:
    """Return the rights of this request's API key; if the service has no keys, everybody may do everything."""
    key = call.api_key
    view = KeyView() if key is None else KeyView(name=key.name, role=key.role, session_prefix=key.session_prefix)
    return Reply(view.model_dump_json().encode())


# -- Clicks from browsers: the one route that pages of any origin may call, and the script that calls it for them.

MAX_BYTES = 100_000
"""Of a body: 100 tokens, and their goals."""
_LIMITS = PartLimits(objects=102, fields=300, texts=600)
TEXT = "text/plain"
_PREFLIGHT: Headers = [
    (b"access-control-allow-methods", b"POST"),
    (b"access-control-allow-headers", b"Content-Type"),
    (b"access-control-max-age", b"86400"),
]

router_of_clicks = APIRouter(tags=["clicks"], route_class=CallRoute)


def _for_pages(scope: Scope, settings: Settings) -> Headers:
    """Return the headers by which a browser lets a page of another origin read the answer."""
    listed = {each.strip().lower() for each in settings.allowed_origins.split(",")}
    origin = next((value for name, value in scope["headers"] if name == b"origin"), b"")
    headers = [(b"vary", b"Origin")]
    if "*" in listed or origin.decode("latin-1").lower() in listed - {""}:
        headers.append((b"access-control-allow-origin", b"*" if "*" in listed else origin))
    return headers


async def _read_clicks(call: Call, body: bytes) -> Clicks:
    """Read a token, a click or a list of these, of whatever type a browser says that it is."""
    headers, text = call.scope["headers"], body.strip()
    is_typed = any(name == b"content-type" for name, _ in headers)
    check_media_type(headers if is_typed else [*headers, (b"content-type", TEXT.encode())], body, (TEXT,))
    if text[:1] in (b"{", b"["):
        listed = b'{"events":%b}' % text if text[:1] == b"[" else text
        posted = (parse_small(listed) if listed.count(b":") <= _LIMITS.fields else None) or parse(listed, _LIMITS)
        posted = posted if listed is not text else {"events": [posted]}
    else:
        posted = {"events": [{"token": text.decode("ascii", "replace")}]}
    # Wrong ones count too, but of a list that is too long no more than a list may have.
    call.runtime.clicks.take((call.scope.get("client") or [""])[0], min(len(posted["events"]), 100))
    return validated(Clicks, posted)


_TOKEN = re.compile(rb"[\w-]{24,}\.[\w-]{22}", re.ASCII)


def _session_of(body: bytes) -> str | None:
    """Return the session of all tokens in a body, if it is one; whether they are genuine is looked at later."""
    tokens = map(read, map(bytes.decode, _TOKEN.findall(body)))
    found = {token.session_id for token in tokens if token is not None}
    return found.pop() if len(found) == 1 else None


_OPEN: dict[str, Any] = {"keyless": True, "logged": Logged.SAMPLE, "headers": _for_pages}
_ALSO_TEXT = {"requestBody": {"content": {TEXT: {"schema": {"type": "string"}}}}}
_COUNTED = "The tokens are genuine, whatever became of the clicks"


@router_of_clicks.post(
    CLICKS, **EMPTY, response_description=_COUNTED, responses=CLICK_PROBLEMS, openapi_extra=_ALSO_TEXT
)
@access(VIEWERS, max_body_bytes=lambda _: MAX_BYTES, session_of=_session_of, **_OPEN)
async def click(
    call: Call, body: Annotated[Clicks, Body(openapi_examples=EXAMPLES["clicks"]), _read_clicks]
) -> Reply:
    """Report clicks by their tokens, from any page and without an API key. A token counts once.

    Each click is the best reward (or loss) of its session's range, or what its goal is worth. A list is judged
    whole: if one of it is refused, none counts.
    """
    if (token := read(body.events[0].token)) is not None:
        call.scope[NOTED_IN_SCOPE] = {"session": token.session_id}
    settle = partial(SettleFeedback, on_surplus="skip", by_browser=True)
    await settle_clicks(call.runtime.sessions.submit, settle, call.runtime.sessions.tokens, body.events)
    return Reply(status=204)


@router_of_clicks.options(CLICKS, **EMPTY, include_in_schema=False)
@access(VIEWERS, **_OPEN)
async def allow_clicks(call: Call) -> Reply:  # noqa: ARG001 - the headers are those of every answer here
    """Tell a browser what pages of other origins may send."""
    return Reply(status=204, headers=_PREFLIGHT)


@cache
def _script() -> tuple[bytes, bytes]:
    """Read the script; return it and its ETag."""
    text = Path(__file__).parents[1].joinpath("clicks.js").read_bytes()
    return text, f'"{sha256(text).hexdigest()[:16]}"'.encode()


@router_of_clicks.get(CLICKS_SCRIPT, response_model=None, include_in_schema=False)
@access(VIEWERS, keyless=True, logged=Logged.SAMPLE)
async def clicks_script(call: Call, v: Annotated[str | None, Query()] = None) -> Reply:
    """Load the script by which a page reports clicks; ``v`` is the service's version: it is then kept for ever."""
    text, tag = _script()
    kept = b"public, max-age=31536000, immutable" if v == __version__ else b"public, max-age=3600"
    headers = [(b"cache-control", kept), (b"etag", tag), (b"cross-origin-resource-policy", b"cross-origin")]
    if tag in call.given.get(b"if-none-match", b""):
        return Reply(status=304, headers=headers)
    return Reply(text, headers=headers, media_type=b"text/javascript; charset=utf-8")


# -- The interactive documentation, with its page's assets served from here.
#
# All addresses are relative to the page, so that it loads behind a proxy that strips a prefix, and without any
# other host.

ASSETS = "docs-assets"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
_SCRIPT = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
"""A script that stands in a page."""

router_of_docs = APIRouter(include_in_schema=False)


@router_of_docs.head("/docs")
@router_of_docs.get("/docs")
@access(READERS, opened_by=attrgetter("open_docs"))
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


@access(READERS, opened_by=attrgetter("open_docs"))
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


router_of_docs.add_route("/openapi.json", openapi, include_in_schema=False)
_assets = _Assets(packages=[("fastapi_swagger", "resources")])
router_of_docs.mount(f"/{ASSETS}", access(READERS, opened_by=attrgetter("open_docs"))(_assets))

ASSETS_OF_DASHBOARD = "dashboard-assets"
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

router_of_dashboard = APIRouter(include_in_schema=False)


@cache
def charts_folder() -> Path | None:
    """Return where the package plotly keeps ``CHARTS``; None where it is not installed."""
    found = find_spec("plotly")
    folders = [] if found is None else found.submodule_search_locations or []
    candidates = (Path(folder) / "package_data" for folder in folders)
    return next((folder for folder in candidates if (folder / CHARTS).is_file()), None)


@router_of_dashboard.head("/")
@router_of_dashboard.get("/")
@access(VIEWERS, keyless=True)
async def root(request: Request) -> Response:
    """Show browsers the dashboard, and others an index."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(INDEX, headers=HEADERS)
    if not request.app.state.runtime.settings.dashboard:
        return RedirectResponse("docs", headers=HEADERS)
    if charts_folder() is None:
        return HTMLResponse(MISSING, headers=HEADERS)
    return FileResponse(FOLDER / "index.html", headers=HEADERS)


class _DashboardAssets(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        """Find a file of the page, or the one of the chart package; browsers ask again whether it has changed."""
        charts = charts_folder() if path == CHARTS else None
        found: Any = super() if charts is None else StaticFiles(directory=charts)
        response: Response = await found.get_response(path, scope)
        response.headers.update(HEADERS)
        return response


router_of_dashboard.mount(
    f"/{ASSETS_OF_DASHBOARD}", access(VIEWERS, keyless=True)(_DashboardAssets(directory=FOLDER / "assets"))
)

ROUTERS = (router, router_of_keys, router_of_clicks, router_of_docs, router_of_dashboard)
