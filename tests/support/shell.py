"""Commands in the shell blocks of the pages, taken apart and checked without running them."""

from __future__ import annotations

import importlib.util
import re
import shlex
from itertools import pairwise
from pathlib import Path

import typer

from loadtest.commands import app
from service.__main__ import WORDS
from service.command_line import read_settings
from service.commands.run import parse
from service.evaluation.command import parser
from tests.support.compose import COMPOSE, ROOT
from tests.support.requirements import PROJECT

EXTRAS = PROJECT["optional-dependencies"]
SYNTAX = {"for", "do", "done"}
OTHER_PROGRAMS = {
    ".",
    "cyclonedx-py",
    "git",
    "nox",
    "pip-audit",
    "pre-commit",
    "prometheus",
    "pytest",
    "uv",
    "uvicorn",
}
"""Programs that are not of this project: only the syntax of their commands is checked."""


def commands(text: str) -> list[list[str]]:
    """The words of each command, without variables before it and redirections after it."""
    lines = re.sub(r"(^|\s)#.*", "", text.replace("\\\n", " "), flags=re.M)
    found = [shlex.split(re.sub(r" *>.*", "", part)) for part in re.split(r"&&|;|\n", lines)]
    return [words for each in found if (words := _without_variables(each)) and words[0] not in SYNTAX]


def _without_variables(words: list[str]) -> list[str]:
    words = words[1:] if words[:1] == ["do"] else words
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    return words


def check_command(words: list[str]) -> None:
    """Check that a command is one that exists, with options that exist."""
    match words:
        case ["delayed-bandits", *rest]:
            _check_service(rest)
        case ["python", "-m", "service", *rest]:
            _check_service(rest)
        case ["python", "-m", "loadtest", *arguments]:
            _check_loadtest(arguments)
        case ["python", "-m", module, *_]:
            assert importlib.util.find_spec(module), module
        case ["python" | "sh", path, *_] if path.startswith("deploy/"):
            assert (ROOT / path).is_file(), path
        case ["python", "-c", code]:
            compile(code, "<page>", "exec")
        case [pip, "install", *what] if Path(pip).name == "pip":
            _check_install(what)
        case ["docker", "compose", *arguments]:
            _check_compose(arguments)
        case ["docker", "run", *_]:
            assert words[-1] == "delayed-bandits"
        case _:
            assert words[0] in OTHER_PROGRAMS, words


def _check_service(words: list[str]) -> None:
    match words:
        case ["evaluate", *arguments]:
            parser("delayed-bandits").parse_args(arguments)
        case [word, *arguments] if word in WORDS:
            read_settings(parse(word, arguments, "delayed-bandits").settings)
        case ["serve", *flags] | flags:
            read_settings(flags)


def _check_loadtest(arguments: list[str]) -> None:
    group = typer.main.get_command(app)
    with group.make_context("loadtest", arguments) as context:
        name, command, rest = group.resolve_command(context, arguments)
        command.make_context(name, rest, parent=context).close()


def _check_install(what: list[str]) -> None:
    for each in what:
        if each.startswith(".["):
            assert set(each[2:-1].split(",")) <= EXTRAS.keys(), each
        if each.endswith(".lock"):
            assert (ROOT / each).exists(), each


def _check_compose(arguments: list[str]) -> None:
    services = COMPOSE["services"]
    profiles = {profile for service in services.values() for profile in service.get("profiles", [])}
    for option, value in pairwise(arguments):
        assert option != "--profile" or value in profiles, value
        assert option != "--scale" or value.split("=")[0] in services, value
    if {"run", "restart"} & set(arguments):
        assert arguments[-1] in services, arguments
