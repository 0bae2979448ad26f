"""What commands have in common: what they print, and the flags that say which service they call.

They print tables on a terminal, lines with tabs into a pipe, and JSON where it is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..client import Bandits
from ..client.attempts import KEY_VARIABLE, URL_VARIABLE

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
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")

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
    """What a word of the command line runs."""

    description: str
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
    parser.add_argument(
        "--url",
        default=os.environ.get(URL_VARIABLE) or DEFAULT_URL,
        help=f"address of the service ({URL_VARIABLE}, else {DEFAULT_URL}); its API key comes from {KEY_VARIABLE}",
    )


def http_client(url: str, seconds: float) -> httpx.Client:
    """Return connections for what ``Bandits`` has no method for, with the API key of the environment."""
    key = os.environ.get(KEY_VARIABLE, "")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=url, headers=headers, timeout=seconds)


def client_of(options: argparse.Namespace) -> Bandits:
    """Return a client of the service that the flags name.

    Raises
    ------
    ValueError
        for a wrong address or key.
    """
    return Bandits(options.url, timeout=CALL_SECONDS, max_retries=2)
