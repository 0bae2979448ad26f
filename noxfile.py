"""A contributor's tasks: ``nox`` checks a change, ``nox -l`` lists all; ``nox -s test -- ARGUMENTS`` for pytest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|venv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "test"]


@nox.session
def lint(session: nox.Session) -> None:
    """Check format and style."""
    session.install(".[lint]")
    session.run("ruff", "format", "--check", *session.posargs)
    session.run("ruff", "check", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.install(".[lint,test]")
    session.run("mypy", *session.posargs)


@nox.session
def test(session: nox.Session) -> None:
    """Run the quick tests, as the README's command does."""
    session.install(".[test]")
    session.run("pytest", *session.posargs)


@nox.session(name="test-all")
def test_all(session: nox.Session) -> None:
    """Run all tests but the recipes, with coverage; a program that is missing is a failure."""
    _run(session, "--all", ["--cov", "--cov-report=", "--cov-fail-under=0"], ["--cov", "--cov-append"])


@nox.session(name="test-rest")
def test_rest(session: nox.Session) -> None:
    """Run what the quick tests leave out; a program that is missing is a failure."""
    _run(session, "--rest")


def _run(session: nox.Session, which: str, together: Sequence[str] = (), alone: Sequence[str] = ()) -> None:
    session.install(".[test]")
    for tests in (["-m", "not alone", *together], ["-m", "alone", "-n", "0", *alone]):
        session.run("pytest", which, *tests, *session.posargs, env={"REQUIRE_PROGRAMS": "1"})


@nox.session(name="test-recipes")
def test_recipes(session: nox.Session) -> None:
    """Run what takes minutes, one after the other; a program that is missing is a failure."""
    session.install(".[browser,test]")
    tests = ("-m", "recipes", "-n", "0", "--timeout=900")
    session.run("pytest", *tests, *session.posargs, env={"REQUIRE_PROGRAMS": "1"})


@nox.session(name="test-lowest", venv_backend="uv")
def test_lowest(session: nox.Session) -> None:
    """Run what touches other packages on the lowest version of each that is allowed (needs uv)."""
    session.install("-r", "pyproject.toml", "--extra", "test", "--resolution", "lowest-direct")
    session.run("pytest", *(session.posargs or TOUCHING_OTHER_PACKAGES))


TOUCHING_OTHER_PACKAGES = (
    "tests/api/test_listing.py",
    "tests/api/test_openapi.py",
    "tests/api/test_sessions.py",
    "tests/api/test_validation_errors.py",
    "tests/client",
    "tests/cooperative/test_answer_body.py",
    "tests/engine/test_draws.py",
    "tests/packaging",
    "tests/server",
    "tests/store",
    "tests/telemetry",
    "tests/test_secret_files.py",
    "tests/test_settings.py",
)


@nox.session
def build(session: nox.Session) -> None:
    """Build the source distribution and the wheel in ``dist``, and check what package indexes check."""
    session.install("build", "twine")
    session.run("python", "-m", "build", *session.posargs)
    session.run("twine", "check", "--strict", *map(str, Path("dist").glob("delayed_bandits-*")))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site of the documentation for this version in ``build/site``, and check that its pages are true."""
    session.install(".[test]")
    session.run("python", "docs/build.py", "build/site")
    session.run("pytest", "tests/docs", *session.posargs)
