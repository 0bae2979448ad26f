"""Handlers that ask for what strict routes do not carry out."""

from typing import Annotated

from fastapi import Body, Cookie, Depends, File, Form, Header, Path, Query, Request, Response
from pydantic import BaseModel


class Point(BaseModel):
    x: float


def check():
    raise AssertionError("never called")


def sync_handler() -> Response:
    return Response()


async def no_annotation():
    return Response()


async def no_response() -> dict[str, int]:
    return {}


async def plain() -> Response:
    return Response()


async def of_item(item: str) -> Response:
    return Response(item)


async def parameter_dependency(a: Annotated[object, Depends(check)]) -> Response:
    return Response()


async def old_style_dependency(a: None = Depends(check)) -> Response:
    return Response()


async def header(a: Annotated[str, Header()]) -> Response:
    return Response(a)


async def cookie(a: Annotated[str, Cookie()]) -> Response:
    return Response(a)


async def form(a: Annotated[str, Form()]) -> Response:
    return Response(a)


async def file(a: Annotated[bytes, File()]) -> Response:
    return Response(a)


async def number_in_path(item: int) -> Response:
    return Response(str(item))


async def bounded_path(item: Annotated[str, Path(max_length=3)]) -> Response:
    return Response(item)


async def unmarked(a: str) -> Response:
    return Response(a)


async def takes_response(response: Response) -> Response:
    return response


async def two_requests(first: Request, second: Request) -> Response:
    return Response()


async def any_arguments(*arguments: str) -> Response:
    return Response()


async def several_values(a: Annotated[list[str] | None, Query()] = None) -> Response:
    return Response()


async def query_model(a: Annotated[Point, Query()]) -> Response:
    return Response()


async def query_alias(a: Annotated[str, Query(alias="b")]) -> Response:
    return Response(a)


async def query_factory(a: Annotated[str, Query(default_factory=str)]) -> Response:
    return Response(a)


async def two_bodies(a: Annotated[Point, Body()], b: Annotated[Point, Body()]) -> Response:
    return Response()


async def embedded(a: Annotated[Point, Body(embed=True)]) -> Response:
    return Response()


async def list_body(a: Annotated[list[Point], Body()]) -> Response:
    return Response()


async def text_body(a: Annotated[str, Body(media_type="text/plain")]) -> Response:
    return Response(a)
