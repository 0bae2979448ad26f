"""The table of calls: what path operations take and may not ask for, who may call them, and what each refuses."""

import asyncio
import inspect
import itertools
import json
from functools import partial
from typing import Annotated

import pytest
from fastapi import APIRouter, Body, Cookie, Depends, File, Form, Header, Path, Query, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import Mount, Route

from service.api.calls import Call, Reply
from service.api.path_operations import CallRoute, PathOperation
from service.api.routes import ROUTES
from service.api.runtime import ADMINS, CLIENTS, Logged, access, access_of
from service.settings import SecretText
from service.store import open_store
from service.store.base import StoreOptions
from tests.support.problems import assert_problem
from tests.support.real_redis import free_port


class Point(BaseModel):
    x: float


def check():
    raise AssertionError("never called")


def asking(returns=Reply, **parameters):
    """A handler of these parameters: the annotation of each, or a pair with its default."""

    async def handler(**_):
        return Reply()

    def parameter(name, asked):
        kind = inspect.Parameter.VAR_POSITIONAL if name == "arguments" else inspect.Parameter.KEYWORD_ONLY
        annotation, default = asked if isinstance(asked, tuple) else (asked, inspect.Parameter.empty)
        return inspect.Parameter(name, kind, annotation=annotation, default=default)

    handler.__signature__ = inspect.Signature(
        itertools.starmap(parameter, parameters.items()), return_annotation=returns
    )
    return handler


def sync_handler() -> Reply:
    return Reply()


IN_BODY = Annotated[Point, Body()]


NO_SOURCE = "which is not Annotated with one Query() or Body()"


def made(path, handler, **options):
    """A row of the table for a route with these options."""
    return PathOperation(CallRoute(path, access(CLIENTS)(handler), response_model=None, **options), Reply)


@pytest.mark.parametrize(
    ("path", "handler", "what"),
    [
        ("/a", sync_handler, "a handler that is no coroutine function annotated to return a Reply"),
        (
            "/a",
            asking(inspect.Signature.empty),
            "a handler that is no coroutine function annotated to return a Reply",
        ),
        ("/a", asking(dict[str, int]), "a handler that is no coroutine function annotated to return a Reply"),
        ("/a", asking(a=Annotated[object, Depends(check)]), "parameter a, which is a second or other Depends"),
        ("/a", asking(a=(None, Depends(check))), f"parameter a, {NO_SOURCE}"),
        *(
            ("/a", asking(a=Annotated[str, source()]), f"parameter a, which is a second or other {source.__name__}")
            for source in (Header, Cookie, Form, File)
        ),
        ("/a/{item}", asking(item=int), "path parameter item that is not plain text"),
        ("/a/{item:int}", asking(item=str), "path parameter item that is not plain text"),
        (
            "/a/{item}",
            asking(item=Annotated[str, Path(max_length=3)]),
            "path parameter item that is not plain text",
        ),
        ("/a/{item}", asking(), "path parameter item the handler does not take"),
        ("/a", asking(a=str), f"parameter a, {NO_SOURCE}"),
        ("/a", asking(response=Response), f"parameter response, {NO_SOURCE}"),
        ("/a", asking(first=Request, second=Request), f"parameter second, {NO_SOURCE}"),
        ("/a", asking(arguments=str), f"parameter arguments, {NO_SOURCE}"),
        ("/a", asking(a=Annotated[list[str], Query()]), "query parameter a of several values or with an alias"),
        ("/a", asking(a=Annotated[Point, Query()]), "query parameter a of several values or with an alias"),
        ("/a", asking(a=Annotated[str, Query(alias="b")]), "query parameter a of several values or with an alias"),
        ("/a", asking(a=Annotated[str, Query(default_factory=str)]), "parameter a with a default factory"),
        ("/a", asking(a=IN_BODY, b=IN_BODY), "parameter b, which is a second or other Body"),
        ("/a", asking(a=Annotated[Point, Body(embed=True)]), "body a that is not one JSON object"),
        ("/a", asking(a=Annotated[list[Point], Body()]), "body a that is not one JSON object"),
        ("/a", asking(a=Annotated[str, Body(media_type="text/plain")]), "body a that is not one JSON object"),
    ],
)
def test_handlers_are_refused_with_route_and_reason(path, handler, what):
    with pytest.raises(TypeError) as error:
        PathOperation(CallRoute(path, access(CLIENTS)(handler), methods=["POST"], response_model=None), Reply)

    assert str(error.value) == f"POST {path}: the dispatcher does not carry out {what}"


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"dependencies": [Depends(check)]}, "dependencies"),
        ({"response_class": HTMLResponse}, "response_class HTMLResponse"),
        ({"response_model_exclude_unset": True}, "response_model_exclude_unset"),
        ({"response_model_by_alias": False}, "response_model_by_alias"),
        ({"response_model_include": {"x"}}, "response_model_include"),
    ],
)
def test_options_of_the_decorator_are_refused(options, what):
    with pytest.raises(TypeError, match=f"^POST /a: the dispatcher does not carry out {what}$"):
        made("/a", asking(), methods=["POST"], **options)


@pytest.mark.parametrize(("kind", "what"), [(APIRoute, "a class but CallRoute"), (CallRoute, "dependencies")])
async def test_a_route_that_asks_for_more_ends_the_start(make_client, monkeypatch, kind, what):
    router = APIRouter(prefix="/v1/new", route_class=kind, dependencies=[Depends(check)])
    router.get("", response_model=None)(access(CLIENTS)(asking()))
    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, *router.routes])

    with pytest.raises(TypeError, match=f"GET.* /v1/new: the dispatcher does not carry out {what}$"):
        await make_client()


async def every_source(
    call: Call,
    item: str,
    needed: Annotated[int, Query(ge=1)],
    body: Annotated[Point, Body()],
    free: Annotated[str, Query()] = "default",
) -> Reply:
    return Reply(f"{call.method} {item} {needed} {body.x} {free}".encode())


@pytest.fixture
async def new_client(make_client, monkeypatch):
    router = APIRouter(prefix="/v1/a", route_class=CallRoute)
    router.post("/{item}", response_model=None)(access(CLIENTS)(every_source))
    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, *router.routes])
    return await make_client()


async def test_a_handler_gets_call_path_query_and_body(new_client):
    post = partial(new_client.post, json={"x": 0.5})

    assert (await post("/v1/a/b?needed=2")).text == "POST b 2 0.5 default"
    assert (await post("/v1/a/b?needed=2&free=c")).text == "POST b 2 0.5 c"


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("", "needed", "Field required"),
        ("?free=c", "needed", "Field required"),
        ("?needed=0", "needed", "Input should be greater than or equal to 1"),
        ("?needed=1&needed=1", "needed", "may be given once"),
        ("?needed=1&other=1", "other", "there is no such query parameter"),
    ],
)
async def test_query_parameters_are_checked(new_client, query, field, message):
    answer = await new_client.post(f"/v1/a/b{query}", json={"x": 0.5})

    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"index": None, "field": field, "message": message}]


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
    mine = [(method, path) for method, path, route in calls() if "reader" in access_of(route).roles]
    reading = "/v1/clicks", "/v1/sessions/{session_id}/probabilities"
    assert {method for method, path in mine if path not in reading} == {"GET", "HEAD"}


def test_what_is_read_may_be_read_by_readers():
    """But not an export, which has a session's seed."""
    closed = [path for method, path, route in calls() if method == "GET" and "reader" not in access_of(route).roles]

    assert [path for path in closed if not path.endswith("/export")] == []


@pytest.mark.parametrize(
    "route",
    [Route("/a", silent), APIRoute("/a", silent), Mount("/a", Response())],
    ids=lambda route: type(route).__name__,
)
async def test_a_silent_route_ends_the_start(make_client, monkeypatch, route):
    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, route])

    with pytest.raises(TypeError, match=r"/a.* does not say who may call it"):
        await make_client()


@pytest.mark.parametrize(
    ("roles", "statuses"), [(CLIENTS, [401, 200, 200]), (ADMINS, [401, 403, 200])], ids=["clients", "admins"]
)
async def test_what_a_new_route_says_is_what_holds(make_client, monkeypatch, roles, statuses):
    router = APIRouter(prefix="/v1/new", route_class=CallRoute)

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


SESSION = "/v1/sessions/{session_id}"


CALLS = [
    (method, route.path)
    for route in ROUTES
    if isinstance(route, APIRoute) and route.path.startswith(SESSION)
    for method in sorted(route.methods)
]


@pytest.fixture
def call(document):
    """Make a call with the first body that its route shows as an example."""

    async def answer(client, method, path, session_id):
        content = document["paths"][path].get(method.lower(), {}).get("requestBody", {}).get("content", {})
        examples = content.get("application/json", {}).get("examples", {})
        body = next((example["value"] for example in examples.values()), None)
        return await client.request(method, path.replace("{session_id}", session_id), json=body)

    return answer


def assert_refused(method, answer, status, code):
    assert answer.status_code == status
    if method != "HEAD":
        assert_problem(answer, status, code)


def test_there_are_routes_of_one_session():
    assert len(CALLS) >= 18


@pytest.mark.parametrize("session_id", ["unknown", "no*id"])
@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_an_id_that_no_session_has_is_unknown(client, call, method, path, session_id):
    assert_refused(method, await call(client, method, path, session_id), 404, "unknown_session")


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_while_the_store_is_away_clients_are_to_come_again(make_client, call, method, path):
    store = open_store(f"redis://127.0.0.1:{free_port()}/0", options=StoreOptions(retry_seconds=0.1))

    answer = await call(await make_client(store), method, path, "s")

    assert_refused(method, answer, 503, "store_unavailable")
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_line_feed_behind_the_path_is_no_fault(client, create):
    """The router's patterns take it, and may not call a path operation past the dispatcher."""
    path = await create()
    answers = [await client.post(f"{path}/act%0A"), await client.get(f"{path}/arms%0a")]
    answers += [await client.get("/v1/sessions%0A"), await client.get("/v1/key%0a")]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 200]
    assert (await client.get(f"{path}%0A")).status_code == 404


@pytest.mark.parametrize(("method", "ends"), [("GET", ""), ("POST", "/nothing")], ids=["views", "refused"])
async def test_many_calls_of_one_session_let_those_of_others_come_between(make_client, method, ends):
    client, order = await make_client(), []
    for name in ("hot", "quiet"):
        fields = {"session_id": name, "learner": {"kind": "dexp3", "n_arms": 3}}
        assert (await client.post("/v1/sessions", json=fields)).status_code == 201

    async def ask(session):
        await client.request(method, f"/v1/sessions/{session}{ends}")
        order.append(session)

    left, *asking = [asyncio.create_task(ask("hot")) for _ in range(40)]
    asking.append(asyncio.create_task(ask("quiet")))
    for _ in range(3):
        await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, *asking, return_exceptions=True)

    assert len(order) >= 40
    assert order.index("quiet") <= 8
