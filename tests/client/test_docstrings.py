"""The docstrings of what users call name every parameter."""

import inspect
import re

import pytest

from service.client import Bandits, ReportRules, Session, Sessions

METHODS = [
    pytest.param(method, id=f"{kind.__name__}.{name}")
    for kind in (Bandits, Sessions, Session)
    for name, method in vars(kind).items()
    if inspect.isfunction(method) and not name.startswith("_")
]


def described(docstring):
    """Names in the section of parameters, or of attributes."""
    section = re.search(r"(?:Parameters|Attributes)\n-+\n((?:.+\n?)+)", inspect.cleandoc(docstring))
    entries = re.findall(r"^([a-z_, ]+) : ", section[1], re.M) if section else []
    return {name for entry in entries for name in entry.split(", ")}


@pytest.mark.parametrize("method", METHODS)
def test_methods_name_every_parameter(method):
    assert described(method.__doc__) == set(inspect.signature(method).parameters) - {"self"}


@pytest.mark.parametrize("kind", [Bandits, ReportRules])
def test_classes_name_every_parameter(kind):
    assert described(kind.__doc__) == set(inspect.signature(kind).parameters)
