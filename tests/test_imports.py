"""Imports run one way: every part of the service may import only the parts listed for it."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(path for package in ("service", "loadtest") for path in (ROOT / package).rglob("*.py"))

METRICS = {
    "service.telemetry.metrics",
    "service.telemetry.multiprocess",
    "service.telemetry.exposition",
    "service.telemetry.fast_counters",
}
TRACES = {"service.telemetry.tracing_config", "service.telemetry.tracing", "service.telemetry.request_contexts"}
LEAVES = {"service.settings", "service.errors", "service.telemetry.logs", "service.pieces"} | METRICS | TRACES
SPEAK = {"service.models.specification", "service.models.events"}
"""What a session is made of and told, as clients post it."""
SESSIONS = {
    "service.sessions.service",
    "service.sessions.create",
    "service.sessions.read",
    "service.sessions.limits",
    "service.sessions.prefix_listing",
    "service.sessions.operations",
    "service.sessions.views",
    "service.sessions.readiness",
    "service.sessions.expiry_sweeper",
}
COMMITTER = {
    "service.commit.committer",
    "service.commit.queues",
    "service.commit.batch",
    "service.commit.session_cache",
    "service.commit.contention",
}
CONTRACT = {
    "service.store.base",
    "service.serialization.state",
    "service.serialization.records",
    "service.serialization.consistency",
}
LEARNERS = {"service.learners", "service.engine"}

ARROWS = {
    "service.__main__": {"service.server.cli"},
    "service.server.cli": {
        "service.api_keys",
        "service.server.supervisor",
        "service.server.listeners",
        "service.store",
    }
    | LEAVES,
    "service.server.worker": {"service.app", "service.server.http_protocol"} | LEAVES,
    "service.server.http_protocol": {"service.server.flow_control", "service.server.host_header"} | LEAVES,
    "service.server.flow_control": set(),
    "service.server.host_header": set(),
    "service.server.supervisor": {"service.store.embedded.server", "service.store.embedded.folder_lock"} | LEAVES,
    "service.server.listeners": set(),
    "service.api_keys": LEAVES,
    "service.app": {"service.api", "service.store"} | SESSIONS | CONTRACT | LEAVES,
    "service.api": {"service.api_keys"} | SESSIONS | SPEAK | LEARNERS | LEAVES,
    "sessions": SESSIONS | COMMITTER | SPEAK | CONTRACT | LEARNERS | LEAVES,
    "committer": COMMITTER | SPEAK | CONTRACT | LEARNERS | LEAVES,
    "specification": SPEAK | LEARNERS | LEAVES,
    "service.store": {"service.store"} | LEARNERS | LEAVES,
    "service.learners": {"service.learners"},
    "service.engine": LEARNERS,
    "metrics": METRICS,
    "traces": TRACES | {"service.telemetry.metrics"},
    "leaf": set(),
    "loadtest": {"loadtest"} | LEARNERS,
    "loadtest.bench.unserved": {"loadtest.errors", "service.app", "service.store.memory"} | LEAVES,
    "loadtest.bench.turns": {"loadtest", "service.server.worker"},
}
GROUPS = {
    "sessions": SESSIONS,
    "committer": COMMITTER,
    "specification": SPEAK,
    "metrics": METRICS,
    "traces": TRACES,
    "leaf": LEAVES - METRICS - TRACES,
}
PURE = {
    *("__future__", "abc", "collections", "contextlib", "dataclasses", "enum", "fractions", "functools"),
    *("itertools", "math", "numpy", "operator", "pydantic", "typing"),
}
"""What a learner is made of: nothing here reads a clock, a file, a socket or global randomness."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path) for path in FILES}


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports; of ``from a import b`` it is ``a.b`` where that is a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.split(".")[0] in {"service", "loadtest"}} - {name_of(path)}


def within(name: str, parts: set[str]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def part_of(name: str) -> str:
    for part, members in GROUPS.items():
        if within(name, members):
            return part
    return max((part for part in ARROWS if within(name, {part})), key=len, default="")


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_module_imports_only_what_its_part_may(path):
    name = name_of(path)
    part = part_of(name)
    allowed = ARROWS[part] | {part} if part else set()

    assert part or path.name == "__init__.py", f"{name} belongs to no part: give it a place in ARROWS"
    assert not {found for found in ours(path) if not within(found, allowed)}


def test_there_are_no_circles():
    graph = {name_of(path): ours(path) for path in FILES}

    assert list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize("path", [path for path in FILES if {"learners", "engine"} & set(path.parts)], ids=name_of)
def test_a_learner_is_arithmetic(path):
    foreign = {name.split(".")[0] for name in imports(path)} - {"service"}

    assert foreign <= PURE


def test_nobody_is_called_by_a_name_that_says_nothing():
    vague = {"utils", "helpers", "common", "manager", "core"}

    assert not {name for name in MODULES if vague & set(name.split("."))}
