"""What a handler takes from a request: read from its signature once, when its route is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from fastapi import Request, params
from pydantic import ConfigDict, TypeAdapter, ValidationError
from starlette.convertors import Convertor, PathConvertor, StringConvertor

from .annotations import is_model, is_object, is_one_value
from .json_body import JSON

Errors = list[dict[str, Any]]
"""Errors of a request, in pydantic's form."""
REQUIRED = inspect.Parameter.empty
"""The default of parameters without a default."""
_MARKS = (params.Param, params.Body, params.Depends)
"""What FastAPI puts into annotations to say where a parameter comes from."""
_BY_NAME = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


class Field(NamedTuple):
    """A query parameter or a body: its name, default and annotation in the handler, and what its values are."""

    name: str
    default: Any
    annotation: Any
    adapter: TypeAdapter[Any]

    def validate(self, value: Any, place: tuple[str, ...], errors: Errors) -> Any:
        """Return the validated value; None where it is wrong, with the reasons added to ``errors``.

        Parameters
        ----------
        value : as it was parsed
        place : what the places of errors begin with
        errors : of the request so far; is extended
        """
        try:
            return self.adapter.validate_python(value)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
            errors += [{**each, "loc": (*place, *each["loc"])} for each in found]
            return None


class HandlerParameters:
    """The parameters of a handler by where they come from.

    Parameters
    ----------
    handler : of the route, with annotations of all its parameters
    convertors : the parameters in the route's path

    Attributes
    ----------
    request : name of the parameter that takes the request; None where there is none
    query : query parameters by name
    refused : what strict routes do not carry out, in words
    returned : the annotation of what the handler returns
    """

    def __init__(self, handler: Callable[..., Any], convertors: Mapping[str, Convertor[Any]]) -> None:
        self.request: str | None = None
        self.query: dict[str, Field] = {}
        self.body: Field | None = None
        self.refused: list[str] = []
        signature = inspect.signature(handler, eval_str=True)
        taken, self.returned = signature.parameters, signature.return_annotation
        for parameter in taken.values():
            self._add(parameter, convertors)
        self.refused += [f"path parameter {name} the handler does not take" for name in convertors.keys() - taken]

    def _add(self, parameter: inspect.Parameter, convertors: Mapping[str, Convertor[Any]]) -> None:
        name, annotation = parameter.name, parameter.annotation
        kind, *marks = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        sources = [mark for mark in marks if isinstance(mark, _MARKS)]
        if parameter.kind not in _BY_NAME:
            self.refused.append(f"parameter {parameter}")
        elif name in convertors:
            if kind is not str or marks or not isinstance(convertors[name], StringConvertor | PathConvertor):
                self.refused.append(f"path parameter {name} that is not plain text")
        elif kind is Request and not marks and self.request is None:
            self.request = name
        elif len(sources) == 1 and not isinstance(parameter.default, _MARKS):
            self._add_marked(parameter, sources[0])
        else:
            self.refused.append(f"parameter {name}, which is not Annotated with one Query() or Body()")

    def _add_marked(self, parameter: inspect.Parameter, source: Any) -> None:
        name, kind = parameter.name, type(source)
        if kind is params.Query:
            field = self.query[name] = _field(parameter)
            self.refused += _refused_of_query(source, field)
        elif kind is params.Body and self.body is None:
            self.body = _field(parameter)
            self.refused += _refused_of_body(source, self.body)
        else:
            second = "a second " if kind is params.Body else ""
            self.refused.append(f"parameter {name}, which is {second}{kind.__name__}")


def _field(parameter: inspect.Parameter) -> Field:
    kind = get_args(parameter.annotation)[0]
    if is_model(kind):  # Its marks change nothing of what it takes.
        adapter = TypeAdapter(kind)
    else:  # Most parameters of queries are given by few clients or by none: each is compiled when one is.
        adapter = TypeAdapter(parameter.annotation, config=ConfigDict(defer_build=True))
    return Field(parameter.name, parameter.default, parameter.annotation, adapter)


def _refused_of_query(source: params.Query, field: Field) -> list[str]:
    if not is_one_value(field.annotation, field.adapter):
        return [f"query parameter {field.name} of several values"]
    return _refused_of_both(source, field)


def _refused_of_body(source: params.Body, field: Field) -> list[str]:
    if source.embed:
        return [f"body {field.name} embedded in an object"]
    if source.media_type != JSON or not is_object(field.annotation, field.adapter):
        return [f"body {field.name} that is not a JSON object"]
    return _refused_of_both(source, field)


def _refused_of_both(source: params.Query | params.Body, field: Field) -> list[str]:
    ignored = {
        "an alias": source.alias is not None or source.validation_alias is not None,
        "a default factory": source.default_factory is not None,
    }
    return [f"parameter {field.name} with {what}" for what, given in ignored.items() if given]
