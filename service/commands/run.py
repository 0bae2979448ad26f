"""Which word runs what, and what its errors look like: one line, and an exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from ..client import ApiError, BanditsError, PermissionDeniedError
from ..command_line import WRONG_USE
from ..command_line import FlagParserFlagParser as FlagParser
from .screen import CommandError, Screen

FAILED, INTERRUPTED = 1, 130
"""Exit codes beside 0 and that of wrong use; ``doctor`` has its own."""
WORDS = {
    "demo": ".demo",
    "doctor": ".doctor",
    "sessions": ".sessions",
    "export": ".transfer.export_command",
    "import": ".transfer.import_command",
    "version": ".version",
}
"""Word of the command line to the module that runs it."""


class Command(Protocol):
    """What the module of a word has."""

    DESCRIPTION: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags of the word."""

    def run(self, options: argparse.Namespace, screen: Screen) -> int:
        """Run the word, and return the exit code.

        Parameters
        ----------
        options : the flags of the word, and ``settings``: the flags of ``serve``, not read yet
        screen : where the word prints

        Raises
        ------
        CommandError, BanditsError, ValueError, OSError
            where it can't go on; the text is shown to the user.
        """


def command_of(word: str) -> Command:
    """Return the module of a word.

    Parameters
    ----------
    word : one of ``WORDS``
    """
    module: Command = import_module(WORDS[word], __package__)
    return module


def parser(word: str, program: str) -> FlagParser:
    """Return the parser of what stands behind a word.

    Parameters
    ----------
    word : one of ``WORDS``
    program : what stands before the word, in messages
    """
    command = command_of(word)
    made = FlagParser(f"{program} {word}", description=command.DESCRIPTION, allow_abbrev=False)
    made.add_argument("--json", action="store_true", help="print JSON")
    command.add_arguments(made)
    return made


def parse(word: str, arguments: Sequence[str], program: str) -> argparse.Namespace:
    """Read what stands behind a word; flags of ``serve`` are in ``settings``, where the word takes them.

    Parameters
    ----------
    word : one of ``WORDS``
    arguments : what stands behind the word
    program : what stands before it, in messages

    Raises
    ------
    SystemExit
        for ``--help``, and for wrong arguments after a message on standard error.
    """
    made = parser(word, program)
    options, rest = made.parse_known_args(arguments)
    if rest and not hasattr(options, "settings"):
        made.error(f"unrecognized arguments: {' '.join(rest)}")
    options.settings = rest
    return options


def main(word: str, arguments: Sequence[str], program: str) -> int:
    """Run a word of the command line.

    Parameters
    ----------
    word : one of ``WORDS``
    arguments : what stands behind it
    program : what stands before it, in messages

    Returns
    -------
    The exit code of the process.
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
