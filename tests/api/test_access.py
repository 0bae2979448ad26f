"""Every route says who may call it, and which of its successes are logged; requests meet just that."""

import json

import pytest
from fastapi import APIRouter, Response
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from service.api.calls import Call, Reply
from service.api.routes import ROUTES
from service.api.runtime import ADMINS, CLIENTS, Logged, access, access_of
from service.settings import SecretText

ADMIN, CLIENT, READER, SHOP = (f"{name}-0123456789abcdef" for name in ("admin", "client", "reader", "shop"))
KEYS = [
    {"name": "ops", "role": "admin", "key": ADMIN},
    {"name": "app", "role": "client", "key": CLIENT},
    {"name": "board", "role": "reader", "key": READER},
    {"name": "setup", "role": "admin", "key": SHOP, "session_prefix": "shop-"},
]
LOGGED = {"/livez": Logged.SAMPLE, "/readyz": Logged.CHANGES, "/metrics": Logged.SAMPLE}
"""Of the paths outside /v1; the others are logged each time."""


def calls():
    """Method, path and route of all that is served."""
    for route in ROUTES:
        for method in ("GET",) if isinstance(route, Mount) else sorted(route.methods):
            yield method, route.path, route


EACH_ROUTE = pytest.mark.parametrize(
    ("method", "path", "route"), [pytest.param(*call, id=f"{call[0]} {call[1]}") for call in calls()]
)


async def silent(request=None):
    return Response()


async def test_whatever_can_be_read_answers_head(client, create):
    await create(session_id="s", decision_log={"max_entries": 10})
    gets = {path for method, path, route in calls() if method == "GET" and not isinstance(route, Mount)}
    for path in (path.replace("{session_id}", "s") for path in gets):
        read, head = await client.get(path), await client.head(path)

        assert (head.status_code, head.content) == (read.status_code, b""), path
        assert head.headers.get("Content-Type") == read.headers.get("Content-Type")


@EACH_ROUTE
def test_what_is_logged_follows_from_the_role(method, path, route):
    """Acts, events and views come all day; what changes a session, or shows its seed, is logged each time."""
    declared = access_of(route)
    rule = Logged.ALL if declared.roles == ADMINS else Logged.SAMPLE
    expected = rule if path.startswith("/v1/") else LOGGED.get(path, Logged.ALL)

    assert declared.logged is expected, f"{method} {path}: give @access the argument logged={expected}"


def test_readers_change_nothing():
    assert {method for method, _, route in calls() if "reader" in access_of(route).roles} == {"GET", "HEAD"}


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
    router = APIRouter(prefix="/v1/new")

    @router.get("/{name}", response_model=None)
    @access(roles)
    async def new(call: Call, name: str) -> Reply:
        return Reply(f"{call.method} {name}".encode())

    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, *router.routes])
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    headers = ({}, {"X-API-Key": CLIENT}, {"X-API-Key": ADMIN})
    answers = [await client.get("/v1/new/a", headers=each) for each in headers]

    heads = [await client.head("/v1/new/a", headers=each) for each in headers]

    assert [answer.status_code for answer in answers] == statuses
    assert [head.status_code for head in heads] == statuses
    assert answers[-1].text == "GET a"


@EACH_ROUTE
async def test_requests_meet_what_their_route_says(make_client, method, path, route):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    files = {"/docs-assets": "swagger-ui.css", "/dashboard-assets": "icon.svg"}
    target = f"{path.replace('{session_id}', 's')}/{files.get(path, '')}".removesuffix("/") or "/"
    served = set()
    for role, key in {None: None, "reader": READER, "client": CLIENT, "admin": ADMIN}.items():
        answer = await client.request(method, target, headers={"X-API-Key": key} if key else {})
        served |= set() if answer.status_code in (401, 403) else {role}

    declared = access_of(route)
    assert served == declared.roles | ({None} if declared.keyless else set())


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_rights_are_those_of_the_route_that_the_router_finds(make_client, method):
    """It finds a route also behind a line feed at the end of its path."""
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))

    for path in ("/metrics", "/metrics%0a"):
        assert (await client.request(method, path, headers={"X-API-Key": SHOP})).status_code == 403
