"""Public functions with two or more parameters say what each of them is, as numpydoc has it."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import service
from service.store.base import History, Reminders, Store

MODULES = [
    found.name
    for found in pkgutil.walk_packages(service.__path__, "service.")
    # Docstrings of routes are texts of the OpenAPI document.
    if not found.name.endswith("__main__") and not found.name.startswith("service.api.routes.")
]
OF_STORES = {name for protocol in (Reminders, History, Store) for name in vars(protocol)}
"""Methods whose parameters the protocols document, for every store."""
PROTOCOLS = Store.__module__
SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+$|\Z)", re.DOTALL | re.MULTILINE)
NAMES = re.compile(r"^([\w*, ]+) : ", re.MULTILINE)


def functions(module: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions and methods that a module defines, but for those that override one."""
    for name, found in vars(import_module(module)).items():
        if getattr(found, "__module__", None) != module or name.startswith("_"):
            continue
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found):
            defined_in = dict(
                vars(found)
            )  # pydantic compiles some models, and changes them, when they are looked at
            for method, defined in defined_in.items():
                function = getattr(defined, "__func__", defined)
                is_new = not any(method in vars(base) for base in found.__mro__[1:])
                if inspect.isfunction(function) and not method.startswith("_") and is_new:
                    yield f"{name}.{method}", function


def undocumented(function: Callable[..., Any]) -> list[str]:
    """Parameters that the docstring does not name."""
    section = SECTION.search(inspect.getdoc(function) or "")
    lines = NAMES.findall(section[1]) if section else []
    named = {name.strip(" *") for line in lines for name in line.split(",")}
    parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    return [name for name in parameters if name not in named] if len(parameters) > 1 else []


@pytest.mark.parametrize("module", MODULES)
def test_every_parameter_is_documented(module: str) -> None:
    found = {
        name: missing
        for name, function in functions(module)
        if (module == PROTOCOLS or name.rpartition(".")[2] not in OF_STORES) and (missing := undocumented(function))
    }

    assert found == {}, "name them in a section Parameters"


def test_a_parameter_that_is_left_out_is_found() -> None:
    def one(a: int) -> None:
        """Take one."""

    def two(a: int, b: int) -> None:
        """Take two.

        Parameters
        ----------
        a : the first

        Returns
        -------
        b : nothing
        """

    assert undocumented(one) == []
    assert undocumented(two) == ["b"]
