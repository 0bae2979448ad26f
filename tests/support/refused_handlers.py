"""Handlers that ask for what the dispatcher does not carry out."""

from typing import Annotated

from fastapi import Body, Cookie, Depends, File, Form, Header, Path, Query, Request, Response
from pydantic import BaseModel

from service.api.calls import Reply


class Point(BaseModel):
    x: float


def check():
    raise AssertionError("never called")


def sync_handler() -> Reply:
    return Reply()


async def no_annotation():
    return Reply()


async def no_response() -> dict[str, int]:
    return {}


async def plain() -> Reply:
    return Reply()


async def of_item(item: str) -> Reply:
    return Reply()


async def parameter_dependency(a: Annotated[object, Depends(check)]) -> Reply:
    return Reply()


async def old_style_dependency(a: None = Depends(check)) -> Reply:
    return Reply()


async def header(a: Annotated[str, Header()]) -> Reply:
    return Reply()


async def cookie(a: Annotated[str, Cookie()]) -> Reply:
    return Reply()


async def form(a: Annotated[str, Form()]) -> Reply:
    return Reply()


async def file(a: Annotated[bytes, File()]) -> Reply:
    return Reply()


async def number_in_path(item: int) -> Reply:
    return Reply()


async def bounded_path(item: Annotated[str, Path(max_length=3)]) -> Reply:
    return Reply()


async def unmarked(a: str) -> Reply:
    return Reply()


async def takes_response(response: Response) -> Reply:
    return Reply()


async def two_requests(first: Request, second: Request) -> Reply:
    return Reply()


async def any_arguments(*arguments: str) -> Reply:
    return Reply()


async def several_values(a: Annotated[list[str] | None, Query()] = None) -> Reply:
    return Reply()


async def query_model(a: Annotated[Point, Query()]) -> Reply:
    return Reply()


async def query_alias(a: Annotated[str, Query(alias="b")]) -> Reply:
    return Reply()


async def query_factory(a: Annotated[str, Query(default_factory=str)]) -> Reply:
    return Reply()


async def two_bodies(a: Annotated[Point, Body()], b: Annotated[Point, Body()]) -> Reply:
    return Reply()


async def embedded(a: Annotated[Point, Body(embed=True)]) -> Reply:
    return Reply()


async def list_body(a: Annotated[list[Point], Body()]) -> Reply:
    return Reply()


async def text_body(a: Annotated[str, Body(media_type="text/plain")]) -> Reply:
    return Reply()
