"""The table of calls: what path operations take, and what they may not ask for."""

from functools import partial
from typing import Annotated

import pytest
from fastapi import APIRouter, Body, Depends, Query
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from service.api.calls import Call, Reply
from service.api.path_operations import CallRoute, PathOperation
from service.api.routes import ROUTES
from service.api.runtime import CLIENTS, access
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
    several_values,
    sync_handler,
    takes_response,
    text_body,
    two_bodies,
    two_requests,
    unmarked,
)


def made(path, handler, **options):
    """A row of the table for a route that FastAPI has made."""
    return PathOperation(APIRoute(path, access(CLIENTS)(handler), response_model=None, **options), Reply)


@pytest.mark.parametrize(
    ("path", "handler", "what"),
    [
        ("/a", sync_handler, "a handler that is no coroutine function annotated to return a Reply"),
        ("/a", no_annotation, "a handler that is no coroutine function annotated to return a Reply"),
        ("/a", no_response, "a handler that is no coroutine function annotated to return a Reply"),
        ("/a", parameter_dependency, "parameter a, which is a second or other Depends"),
        ("/a", old_style_dependency, "parameter a, which is not Annotated with one Query() or Body()"),
        ("/a", header, "parameter a, which is a second or other Header"),
        ("/a", cookie, "parameter a, which is a second or other Cookie"),
        ("/a", form, "parameter a, which is a second or other Form"),
        ("/a", file, "parameter a, which is a second or other File"),
        ("/a/{item}", number_in_path, "path parameter item that is not plain text"),
        ("/a/{item:int}", of_item, "path parameter item that is not plain text"),
        ("/a/{item}", bounded_path, "path parameter item that is not plain text"),
        ("/a/{item}", plain, "path parameter item the handler does not take"),
        ("/a", unmarked, "parameter a, which is not Annotated with one Query() or Body()"),
        ("/a", takes_response, "parameter response, which is not Annotated with one Query() or Body()"),
        ("/a", two_requests, "parameter second, which is not Annotated with one Query() or Body()"),
        ("/a", any_arguments, "parameter arguments, which is not Annotated with one Query() or Body()"),
        ("/a", several_values, "query parameter a of several values or with an alias"),
        ("/a", query_alias, "query parameter a of several values or with an alias"),
        ("/a", query_factory, "parameter a with a default factory"),
        ("/a", two_bodies, "parameter b, which is a second or other Body"),
        ("/a", embedded, "body a that is not one JSON object"),
        ("/a", list_body, "body a that is not one JSON object"),
        ("/a", text_body, "body a that is not one JSON object"),
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
        made("/a", plain, methods=["POST"], **options)


@pytest.mark.parametrize("kind", [APIRoute, CallRoute])
async def test_a_route_that_asks_for_more_ends_the_start(make_client, monkeypatch, kind):
    router = APIRouter(prefix="/v1/new", route_class=kind, dependencies=[Depends(check)])
    router.get("", response_model=None)(access(CLIENTS)(plain))
    monkeypatch.setattr("service.app.ROUTES", [*ROUTES, *router.routes])

    with pytest.raises(TypeError, match=r"GET.* /v1/new: the dispatcher does not carry out dependencies$"):
        await make_client()


def test_a_route_is_described_once_that_is_asked_for():
    route = CallRoute("/a/{item}", of_item, methods=["POST"], response_model=Point)
    assert not [value for value in vars(route).values() if isinstance(value, APIRoute)]

    field = route.response_field
    assert field is route.response_field
    assert field.field_info.annotation is Point


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
    router = APIRouter(prefix="/v1/a")
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
