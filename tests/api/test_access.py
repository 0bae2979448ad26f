"""Every route says who may call it and what of it is logged; the roles are those of docs/security.md."""

import json

import pytest
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from service.api.access import ADMINS, CLIENTS, READERS, VIEWERS, Logged, access, access_of
from service.api.parsing.strict_route import StrictRouter
from service.api.routes import ROUTES
from service.settings import SecretText

ADMIN, CLIENT, READER, SHOP = (f"{name}-0123456789abcdef" for name in ("admin", "client", "reader", "shop"))
KEYS = [
    {"name": "ops", "role": "admin", "key": ADMIN},
    {"name": "app", "role": "client", "key": CLIENT},
    {"name": "board", "role": "reader", "key": READER},
    {"name": "setup", "role": "admin", "key": SHOP, "session_prefix": "shop-"},
]
OPEN, ANY_KEY, BOTH, READ, ADMIN_ONLY = (
    "without a key",
    "every key",
    "client and admin",
    "reader and admin",
    "admin",
)
ROLES = {VIEWERS: ANY_KEY, CLIENTS: BOTH, READERS: READ, ADMINS: ADMIN_ONLY}
SESSION = "/v1/sessions/{session_id}"
MATRIX = {
    ("POST", "/v1/sessions"): (ADMIN_ONLY, Logged.ALL),
    ("GET", "/v1/sessions"): (READ, Logged.SAMPLE),
    ("GET", SESSION): (ANY_KEY, Logged.SAMPLE),
    ("DELETE", SESSION): (ADMIN_ONLY, Logged.ALL),
    ("PATCH", SESSION): (ADMIN_ONLY, Logged.ALL),
    ("GET", f"{SESSION}/history"): (ANY_KEY, Logged.SAMPLE),
    ("GET", f"{SESSION}/arms"): (ANY_KEY, Logged.SAMPLE),
    ("PATCH", f"{SESSION}/arms"): (ADMIN_ONLY, Logged.ALL),
    ("PUT", f"{SESSION}/arms"): (ADMIN_ONLY, Logged.ALL),
    ("GET", f"{SESSION}/export"): (ADMIN_ONLY, Logged.ALL),
    ("POST", "/v1/sessions/import"): (ADMIN_ONLY, Logged.ALL),
    ("GET", f"{SESSION}/decisions"): (ANY_KEY, Logged.SAMPLE),
    ("GET", f"{SESSION}/segments"): (ANY_KEY, Logged.SAMPLE),
    ("POST", f"{SESSION}/act"): (BOTH, Logged.SAMPLE),
    ("POST", f"{SESSION}/acts"): (BOTH, Logged.SAMPLE),
    ("POST", f"{SESSION}/feedback"): (BOTH, Logged.SAMPLE),
    ("POST", f"{SESSION}/feedbacks"): (BOTH, Logged.SAMPLE),
    ("GET", "/livez"): (OPEN, Logged.SAMPLE),
    ("GET", "/readyz"): (OPEN, Logged.CHANGES),
    ("GET", "/metrics"): (READ, Logged.SAMPLE),
    ("GET", "/v1/key"): (ANY_KEY, Logged.SAMPLE),
    ("GET", "/"): (OPEN, Logged.ALL),
    ("GET", "/dashboard-assets"): (OPEN, Logged.ALL),
    ("GET", "/docs"): (READ, Logged.ALL),
    ("GET", "/openapi.json"): (READ, Logged.ALL),
    ("GET", "/docs-assets"): (READ, Logged.ALL),
}
"""Method and path of every route: who may call it, and which of its successes are logged."""
MOUNTS = {route.path for route in ROUTES if isinstance(route, Mount)}
MATRIX |= {("HEAD", path): row for (method, path), row in MATRIX.items() if method == "GET" and path not in MOUNTS}


def calls():
    """Method, path and route of all that is served."""
    for route in ROUTES:
        for method in ("GET",) if isinstance(route, Mount) else sorted(route.methods):
            yield method, route.path, route


async def silent(request=None):
    return Response()


def test_no_route_is_missing_from_the_matrix():
    assert {(method, path) for method, path, _ in calls()} == MATRIX.keys()


async def test_whatever_can_be_read_answers_head(client, create):
    await create(session_id="s", decision_log={"max_entries": 10})
    gets = {path for method, path, route in calls() if method == "GET" and not isinstance(route, Mount)}
    for path in (path.replace("{session_id}", "s") for path in gets):
        read, head = await client.get(path), await client.head(path)

        assert (head.status_code, head.content) == (read.status_code, b""), path
        assert head.headers.get("Content-Type") == read.headers.get("Content-Type")


@pytest.mark.parametrize(
    ("method", "path", "route"), [pytest.param(*call, id=f"{call[0]} {call[1]}") for call in calls()]
)
def test_every_route_says_who_may_call_it_and_what_is_logged(method, path, route):
    declared = access_of(route)
    who = OPEN if declared.keyless else ROLES[declared.roles]

    assert (who, declared.logged) == MATRIX[method, path]
    assert not declared.roles & {"reader"} or method in ("GET", "HEAD")


def test_of_views_a_sample_is_logged():
    """Dashboards ask for them several times a second; an export shows a seed, and is always logged."""
    views = [
        (path, access_of(route).logged)
        for method, path, route in calls()
        if (method, path[:4]) == ("GET", "/v1/") and not path.endswith("/export")
    ]

    assert {logged for _, logged in views} == {Logged.SAMPLE}


def test_what_is_read_may_be_read_by_readers():
    """But not an export, which has a session's seed."""
    closed = [path for method, path, route in calls() if method == "GET" and "reader" not in access_of(route).roles]

    assert [path for path in closed if not path.endswith("/export")] == []


@pytest.mark.parametrize(
    "route",
    [Route("/a", silent), APIRoute("/a", silent), Mount("/a", Response())],
    ids=lambda route: type(route).__name__,
)
def test_a_silent_route_is_an_error(route):
    with pytest.raises(TypeError, match="does not say who may call it"):
        access_of(route)


async def test_a_silent_route_ends_the_start(make_client, monkeypatch):
    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, APIRoute("/a", silent)])

    with pytest.raises(TypeError, match=r"/a.* does not say who may call it"):
        await make_client()


@pytest.mark.parametrize(
    ("roles", "statuses"), [(CLIENTS, [401, 200, 200]), (ADMINS, [401, 403, 200])], ids=["clients", "admins"]
)
async def test_what_a_new_route_says_is_what_holds(make_client, monkeypatch, roles, statuses):
    router = StrictRouter(prefix="/v1/new")

    @router.get("/{name}")
    @access(roles)
    async def new(request: Request, name: str) -> Response:
        return Response(f"{request.method} {name}")

    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, *router.routes])
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    headers = ({}, {"X-API-Key": CLIENT}, {"X-API-Key": ADMIN})
    answers = [await client.get("/v1/new/a", headers=each) for each in headers]

    heads = [await client.head("/v1/new/a", headers=each) for each in headers]

    assert [answer.status_code for answer in answers] == statuses
    assert [head.status_code for head in heads] == statuses
    assert answers[-1].text == "GET a"


@pytest.mark.parametrize(
    ("method", "path"), [pytest.param(*call[:2], id=f"{call[0]} {call[1]}") for call in calls()]
)
async def test_the_matrix_is_what_requests_meet(make_client, method, path):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    files = {"/docs-assets": "swagger-ui.css", "/dashboard-assets": "icon.svg"}
    target = f"{path.replace('{session_id}', 's')}/{files.get(path, '')}".removesuffix("/") or "/"
    refused = []
    for key in (None, READER, CLIENT, ADMIN):
        answer = await client.request(method, target, headers={"X-API-Key": key} if key else {})
        refused.append(answer.status_code in (401, 403))

    who, _ = MATRIX[method, path]
    assert (
        refused
        == {
            OPEN: [False, False, False, False],
            ANY_KEY: [True, False, False, False],
            BOTH: [True, True, False, False],
            READ: [True, False, True, False],
            ADMIN_ONLY: [True, True, True, False],
        }[who]
    )


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_rights_are_those_of_the_route_that_the_router_finds(make_client, method):
    """It finds a route also behind a line feed at the end of its path."""
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))

    for path in ("/metrics", "/metrics%0a"):
        assert (await client.request(method, path, headers={"X-API-Key": SHOP})).status_code == 403
