"""Strict routes refuse, when they are made, what FastAPI offers and they would ignore."""

from copy import copy
from functools import partial
from types import SimpleNamespace
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Body, Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from service.api import problems
from service.api.runtime import CLIENTS, access
from service.api.strict_route import StrictRoute
from service.settings import Settings
from service.telemetry.metrics import Labels, Metrics
from tests.support.refused_handlers import (
    Point,
    any_arguments,
    bounded_path,
    check,
    cookie,
    embedded,
    file,
    form,
    header,
    list_body,
    no_annotation,
    no_response,
    number_in_path,
    of_item,
    old_style_dependency,
    parameter_dependency,
    plain,
    query_alias,
    query_factory,
    query_model,
    several_values,
    sync_handler,
    takes_response,
    text_body,
    two_bodies,
    two_requests,
    unmarked,
)


@pytest.mark.parametrize(
    ("path", "handler", "what"),
    [
        ("/a", sync_handler, "handler sync_handler that is no coroutine function"),
        ("/a", no_annotation, "handler no_annotation that is not annotated to return a Response"),
        ("/a", no_response, "handler no_response that is not annotated to return a Response"),
        ("/a", parameter_dependency, "parameter a, which is Depends"),
        ("/a", old_style_dependency, "parameter a, which is not Annotated with one Query() or Body()"),
        ("/a", header, "parameter a, which is Header"),
        ("/a", cookie, "parameter a, which is Cookie"),
        ("/a", form, "parameter a, which is Form"),
        ("/a", file, "parameter a, which is File"),
        ("/a/{item}", number_in_path, "path parameter item that is not plain text"),
        ("/a/{item:int}", of_item, "path parameter item that is not plain text"),
        ("/a/{item}", bounded_path, "path parameter item that is not plain text"),
        ("/a/{item}", plain, "path parameter item the handler does not take"),
        ("/a", unmarked, "parameter a, which is not Annotated with one Query() or Body()"),
        ("/a", takes_response, "parameter response, which is not Annotated with one Query() or Body()"),
        ("/a", two_requests, "parameter second, which is not Annotated with one Query() or Body()"),
        ("/a", any_arguments, "parameter *arguments: str"),
        ("/a", several_values, "query parameter a of several values"),
        ("/a", query_model, "query parameter a of several values"),
        ("/a", query_alias, "parameter a with an alias"),
        ("/a", query_factory, "parameter a with a default factory"),
        ("/a", two_bodies, "parameter b, which is a second Body"),
        ("/a", embedded, "body a embedded in an object"),
        ("/a", list_body, "body a that is not a JSON object"),
        ("/a", text_body, "body a that is not a JSON object"),
    ],
)
def test_handlers_are_refused_with_route_and_reason(path, handler, what):
    with pytest.raises(TypeError) as error:
        StrictRoute(path, handler, methods=["POST"], response_model=None)

    assert str(error.value).endswith(what)
    assert str(error.value).startswith(f"POST {path}: strict routes do not carry out ")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"dependencies": [Depends(check)]}, "dependencies"),
        ({"response_class": HTMLResponse}, "response_class HTMLResponse"),
        ({"response_model": Point, "response_model_exclude_unset": True}, "response_model_exclude_unset"),
        ({"response_model": Point, "response_model_by_alias": False}, "response_model_by_alias"),
        ({"response_model": Point, "response_model_include": {"x"}}, "response_model_include"),
    ],
)
def test_options_of_the_decorator_are_refused(options, what):
    router = APIRouter(route_class=StrictRoute)

    with pytest.raises(TypeError, match=f"^GET /a: strict routes do not carry out {what}$"):
        router.get("/a", **options)(plain)


def test_dependencies_of_the_router_are_refused():
    router = APIRouter(route_class=StrictRoute, dependencies=[Depends(check)])

    with pytest.raises(TypeError, match=r"^GET /a: strict routes do not carry out dependencies$"):
        router.get("/a")(plain)


def test_dependencies_of_a_router_around_are_refused():
    router = APIRouter(route_class=StrictRoute)
    router.get("/a")(plain)
    app = FastAPI()

    def include():
        app.include_router(router, dependencies=[Depends(check)])
        app.openapi()  # newer versions of FastAPI make included routes when they are first looked at

    with pytest.raises(
        TypeError, match=r"^GET /a: strict routes do not carry out (dependencies|routers included in others)$"
    ):
        include()


def test_all_reasons_are_told():
    with pytest.raises(TypeError, match=r"dependencies; handler sync_handler that is no coroutine function$"):
        StrictRoute("/a", sync_handler, dependencies=[Depends(check)])


def test_a_route_is_described_once_that_is_asked_for():
    route = StrictRoute("/a/{item}", of_item, methods=["POST"], response_model=Point)
    assert not [value for value in vars(route).values() if isinstance(value, APIRoute)]

    field = route.response_field

    assert field.field_info.annotation is Point
    assert route.response_field is field
    assert [each.name for each in route.dependant.path_params] == ["item"]
    assert not hasattr(route, "what_no_route_has")
    assert copy(route) == route


@access(CLIENTS)
async def every_source(
    request: Request,
    item: str,
    needed: Annotated[int, Query(ge=1)],
    body: Annotated[Point, Body()],
    free: Annotated[str, Query()] = "default",
) -> Response:
    return Response(f"{request.method} {item} {needed} {body.x} {free}")


@pytest.fixture
async def client():
    router = APIRouter(route_class=StrictRoute)
    router.post("/a/{item}")(every_source)
    app = FastAPI(routes=router.routes)
    app.state.runtime = SimpleNamespace(settings=Settings())
    problems.install(app, Metrics(Labels(codes=["invalid_request"])), 1)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        yield client


async def test_a_handler_gets_request_path_query_and_body(client):
    post = partial(client.post, json={"x": 0.5})

    assert (await post("/a/b?needed=2")).text == "POST b 2 0.5 default"
    assert (await post("/a/b?needed=2&free=c")).text == "POST b 2 0.5 c"


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
async def test_query_parameters_are_checked(client, query, field, message):
    answer = await client.post(f"/a/b{query}", json={"x": 0.5})

    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"index": None, "field": field, "message": message}]
