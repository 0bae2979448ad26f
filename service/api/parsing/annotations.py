"""What values an annotation is of: known from its types where they are plain, else from its JSON schema.

JSON schemas take long to make, and every start would wait for them.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, RootModel, TypeAdapter

_PLAIN = {str, int, float, bool, NoneType}
_UNIONS = {Union, UnionType}


def is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    """Return whether an annotation is a model, without marks."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def is_one_value(annotation: Any, adapter: TypeAdapter[Any]) -> bool:
    """Return whether an annotation is of plain values only, neither of lists nor of objects.

    Parameters
    ----------
    annotation : with its marks
    adapter : made of it
    """
    if all(get_origin(each) is Literal or each in _PLAIN for each in _members(annotation)):
        return True
    schema = adapter.json_schema()
    parts = (schema, *schema.get("anyOf", ()), *schema.get("$defs", {}).values())
    return not {"array", "object"} & {part.get("type") for part in parts}


def is_object(annotation: Any, adapter: TypeAdapter[Any]) -> bool:
    """Return whether an annotation is of JSON objects only.

    Parameters
    ----------
    annotation : with its marks
    adapter : made of it
    """
    if all(is_model(each) and not issubclass(each, RootModel) for each in _members(annotation)):
        return True
    return bool(adapter.json_schema().get("type", "object") == "object")


def _members(annotation: Any) -> list[Any]:
    """Return the members of a union, or the annotation alone; all without marks."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _members(arguments[0])
    if origin in _UNIONS:
        return [member for each in arguments for member in _members(each)]
    return [annotation]
