"""Imports run one way: every part of the service may import only the parts listed for it."""

import ast
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(path for package in ("service", "loadtest") for path in (ROOT / package).rglob("*.py"))

LEAVES = {"settings", "errors", "cooperative", "telemetry", "command_line", "flag_parser", "row_files", "tokens"}
"""What every folder of the server may import; they import nothing else of the project."""

ARROWS = {
    "__main__": {"server", "evaluation", "commands"},
    "commands": {"client", "store", "serialization", "api_keys", "server.pool"},
    "server": {"app", "store", "api_keys"},
    "testing": {"client", "app", "store"},
    "app": {"api", "sessions", "store", "api_keys"},
    "api": {"sessions", "models", "engine", "learners", "api_keys"},
    "sessions": {"commit", "models", "serialization", "engine", "learners", "store.base"},
    "commit": {"serialization", "models", "engine", "learners", "store.base"},
    "serialization": {"engine", "learners", "store.base"},
    "models": {"engine", "learners", "store.base"},
    "engine": {"learners"},
    "learners": set(),
    "store": set(),
    "evaluation": set(),
    "api_keys": set(),
    "settings": set(),
    "command_line": {"settings"},
    "flag_parser": set(),
    "row_files": set(),
    "errors": set(),
    "cooperative": set(),
    "telemetry": {"settings", "errors"},
    "tokens": {"settings", "errors"},
    "client": set(),
}
"""Folder (or file) of ``service/`` to the folders it may import beside itself and the leaves."""
LOADTEST = {"engine", "learners", "client"}
LOADTEST_ALSO = {
    "loadtest.bench.turns": {"app", "server.worker", "store.memory", *LEAVES},
    "loadtest.bench.floors": {"server.worker", "store.redis.connection"},
    "loadtest.bench.peers": {"server.worker"},
    "loadtest.evaluate": {"evaluation"},
    "loadtest.chaos.audit": {"sessions.transfer", *LEAVES},
    "loadtest.digits": {"models"},
}
"""What these drive within their own process."""
CLIENT = {"httpx", "httpcore"}
"""What the client needs beside Python: httpx, and what that makes its connections with."""
PURE = {
    *("__future__", "abc", "collections", "contextlib", "dataclasses", "enum", "fractions", "functools"),
    *("hashlib", "itertools", "math", "numpy", "operator", "pydantic", "struct", "threading", "typing"),
}
"""What a learner is made of: nothing here reads a clock, a file, a socket or global randomness."""


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path) for path in FILES}


@cache
def nodes(path):
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path):
    """Modules that a file imports; of ``from a import b`` it is ``a.b`` where that is a module."""
    package = list(path.relative_to(ROOT).parts[:-1])
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, node.module] if node.module else above)
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in MODULES else module


def test_the_service_imports_itself_by_relative_names():
    """The wheel installs ``service/`` as ``delayed_bandits``: the folder's own name works in a checkout only."""
    absolute = [
        (str(path), node.lineno)
        for path in FILES
        if path.is_relative_to(ROOT / "service")
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == "service"
    ]

    assert absolute == []


def ours(path):
    return {name for name in imports(path) if name.split(".")[0] in {"service", "loadtest"}} - {name_of(path)}


def folder_of(name):
    """The folder or file of ``service/`` that a module belongs to."""
    return name.split(".")[1] if name.startswith("service.") else ""


def allowed(name):
    """What a module may import of ``service/``."""
    if name.startswith("loadtest"):
        return LOADTEST | LOADTEST_ALSO.get(name, set())
    folder = folder_of(name)
    return {folder} | ARROWS[folder] | (set() if folder in LEAVES | {"client"} else LEAVES)


def within(name, folders):
    inner = name.removeprefix("service.")
    return any(inner == folder or inner.startswith(f"{folder}.") for folder in folders)


@pytest.mark.parametrize("path", [path for path in FILES if path != ROOT / "service/__init__.py"], ids=name_of)
def test_a_module_imports_only_what_its_folder_may(path):
    imported = {
        name for name in ours(path) if name.startswith("service.")
    }  # `service` itself has the version alone, and the client's names when they are asked for

    assert not {name for name in imported if not within(name, allowed(name_of(path)))}


def test_every_folder_has_its_arrows():
    assert {folder_of(name) for name in MODULES} - {""} == set(ARROWS)


@pytest.mark.parametrize("path", sorted((ROOT / "service/client").rglob("*.py")), ids=name_of)
def test_the_client_needs_httpx_alone(path):
    imported = {name.split(".")[0] for name in imports(path)} - {"service"}

    assert imported - sys.stdlib_module_names <= CLIENT


def test_the_load_test_is_not_imported_by_the_service():
    service = [path for path in FILES if (ROOT / "service") in path.parents]

    assert not {name for path in service for name in ours(path) if name.startswith("loadtest")}


def test_there_are_no_circles():
    graph = {name_of(path): ours(path) for path in FILES if path != ROOT / "service/__init__.py"}

    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(
    "path", [path for path in FILES if {"learners", "engine"} & set(path.relative_to(ROOT).parts)], ids=name_of
)
def test_a_learner_is_arithmetic(path):
    foreign = {name.split(".")[0] for name in imports(path)} - {"service"}

    assert foreign <= PURE


def test_nobody_is_called_by_a_name_that_says_nothing():
    vague = {"utils", "helpers", "common", "manager", "core"}

    assert not {name for name in MODULES if vague & set(name.split("."))}
