"""Tables of the pages hold what the code says."""

from __future__ import annotations

import re

from pydantic import ValidationError
from starlette.routing import Mount

from service.api.access import ADMINS, CLIENTS, READERS, VIEWERS, access_of
from service.api.routes import ROUTES
from service.errors import ServiceError
from service.learners import REGISTRY
from service.settings import Settings
from service.store.redis import keys
from tests.support.pages import ROOT, row, rows

SIZES = {"n_arms": 3, "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
THEOREM = {"horizon": 1000, "max_delay": 3, "total_delay": 100}


def spec(kind, fields):
    return REGISTRY[kind].model_validate(
        {"kind": kind} | {name: value for name, value in fields.items() if name in REGISTRY[kind].model_fields}
    )


def needs_rates(kind):
    try:
        spec(kind, SIZES)
    except ValidationError:
        return True
    return False


def test_the_learners_are_those_of_the_registry():
    """Each row is what a learner says of itself; after adding one, this shows the row that is missing."""
    expected = []
    for kind, cls in REGISTRY.items():
        name, _, description = cls.__doc__.splitlines()[0].partition(": ")
        information = spec(kind, SIZES | THEOREM).build().information
        rates = "given, or the theorem's" if needs_rates(kind) else "anytime"
        expected.append(row(f"`{kind}`", name, information, rates, description))

    assert rows("docs/learners.md", "`kind`", "learner", "feedback", "rates", "") == expected


def test_the_settings_are_those_of_the_code():
    expected = [
        row(f"`BANDIT_{name.upper()}`", f"`{field.default}`", field.description)
        for name, field in Settings.model_fields.items()
    ]

    assert rows("docs/settings.md", "variable", "default", "") == expected


def test_the_errors_are_those_of_the_code():
    errors = sorted(ServiceError.__subclasses__(), key=lambda error: (error.status, error.code))
    expected = [row(str(error.status), f"`{error.code}`", error.__doc__.splitlines()[0]) for error in errors]

    assert rows("docs/errors.md", "status", "`code`", "") == expected


def test_the_interface_page_has_every_route_with_its_role():
    """HEAD is named where it is described; mounts serve files only."""
    role_of = {VIEWERS: "any", CLIENTS: "client", READERS: "reader", ADMINS: "admin"}
    told = {
        (method, path): role
        for calls, role in (line.split(" | ")[:2] for line in rows("docs/api.md", "route", "role", "does"))
        for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", calls)
    }
    expected = {
        (method, route.path): "none" if access_of(route).keyless else role_of[access_of(route).roles]
        for route in ROUTES
        if not isinstance(route, Mount)
        for method in route.methods
        if method != "HEAD" or route.include_in_schema
    }

    assert told == expected


def test_the_security_page_names_the_calls_of_clients():
    """Those of ``@access(CLIENTS)`` that need a key."""
    (line,) = re.findall(r"^\| `role` \|.*", (ROOT / "docs/security.md").read_text(), re.M)
    named = {
        (method, path.replace("...", "/v1/sessions/{session_id}"))
        for method, path in re.findall(r"`([A-Z]+) ([^`]+)`", line)
    }
    routes = [(route, access_of(route)) for route in ROUTES]

    assert named == {
        (method, route.path)
        for route, declared in routes
        if "client" in declared.roles and not declared.keyless
        for method in route.methods - {"HEAD"}
    }


def test_the_deployment_page_has_every_variable_of_the_compose_file():
    used = set(re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text()))
    named = {
        name
        for line in rows("docs/deployment.md", "variable", "effect")
        for name in re.findall(r"`([A-Z_]+)`", line)
    }

    assert named == used


def test_the_architecture_page_knows_every_key():
    told = re.findall(r"^\| `bandit(:[^`]+)` \|", (ROOT / "docs/architecture.md").read_text(), re.M)
    spelled = re.findall(r"^``<prefix>(:.+?)``", keys.__doc__, re.M)

    assert [key.replace("{id}", "{<session id>}") for key in told] == spelled
