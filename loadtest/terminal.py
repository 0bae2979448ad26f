"""What commands print, how they report errors and progress, and what they do on all cores."""

from __future__ import annotations

import json
import multiprocessing
import platform
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from loadtest.errors import LoadTestError

WIDEST = 10_000
"""Columns of lines where there is no terminal, so that nothing is cut or folded."""

console, messages = Console(width=None if sys.stdout.isatty() else WIDEST), Console(stderr=True)
T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def errors_reported() -> Iterator[None]:
    """Print a LoadTestError of the block as one sentence and exit with code 1."""
    try:
        yield
    except LoadTestError as error:
        print_error(str(error))
        raise typer.Exit(1) from error


@contextmanager
def own_processes(out: Path) -> Iterator[None]:
    """Report errors as ``errors_reported`` does, make the folder ``out``, and exit on SIGTERM too.

    The exit unwinds the block, so that the processes started within it end.

    Raises
    ------
    LoadTestError
        on systems other than Linux.
    """
    with errors_reported():
        if platform.system() != "Linux":
            raise LoadTestError("this needs Linux: workers are found in /proc, and end with their supervisor")
        out.mkdir(parents=True, exist_ok=True)
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


def print_error(text: str) -> None:
    """Print an error to stderr."""
    messages.print(f"error: {text}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_problems(problems: Sequence[str]) -> None:
    """Print what is wrong, and exit with code 1 where something is."""
    for problem in problems:
        print_error(problem)
    if problems:
        raise typer.Exit(1)


def print_note(text: str) -> None:
    """Print a warning or a note to stderr."""
    messages.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def print_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, in which a row of one cell begins a section; a narrow terminal folds words and cuts none."""
    columns = (Column(name, no_wrap=not place, overflow="fold") for place, name in enumerate(head))
    table = Table(*columns, title=title, title_justify="left")
    for cells in rows:
        if len(cells) == 1:
            table.add_section()
            table.add_row(f"[bold]{cells[0]}[/bold]")
        else:
            table.add_row(*cells)
    console.print(table)


def end_with(out: Path, summary: Any, problems: Sequence[str]) -> None:
    """Write ``summary.json``, say so, and exit with code 1 where something is wrong."""
    write_summary(out, summary)
    print_written(out)
    print_problems(problems)


def write_summary(out: Path, summary: Any) -> None:
    """Write ``summary.json``."""
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def print_written(*paths: Path) -> None:
    """Print the folder of the results, or their files."""
    console.print("written:", ", ".join(map(str, paths)), soft_wrap=True, highlight=False)


@contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[..., None]]:
    """Show a bar of so many steps; what is yielded is called after each, or with how many were done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=messages) as progress:
        task = progress.add_task(label, total=total)
        yield lambda steps=1: progress.advance(task, steps)


def on_all_cores(label: str, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return ``[work(item) for item in items]``, computed in one process per core, under a progress bar."""
    # Fresh processes: a fork would copy the progress bar's thread in the middle of whatever it does.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=fresh) as pool, progress_bar(label, len(items)) as done:
        futures = [pool.submit(work, item) for item in items]
        for future in as_completed(futures):
            future.result()
            done()
        return [future.result() for future in futures]


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """Yield the signals received; a second one of a kind ends the block at once."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: object) -> None:  # noqa: ARG001 - the signature of a handler
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
