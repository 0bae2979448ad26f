"""What commands print, and how they report errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from loadtest.errors import LoadTestError
from loadtest.studies.paper_jobs import on_all_cores

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


def print_error(text: str) -> None:
    """Print an error to stderr."""
    messages.print(f"error: {text}", style="red", markup=False, highlight=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Print a warning or a note to stderr."""
    messages.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


def write_summary(out: Path, summary: Any) -> None:
    """Write ``summary.json``."""
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def print_table(table: Table) -> None:
    """Print a table; a terminal that is narrower gets its words folded, not cut."""
    for column in table.columns:
        column.overflow = "fold"
    console.print(table)


def print_written(out: Path) -> None:
    """Print the folder of the results."""
    console.print(f"written: {out}", soft_wrap=True, highlight=False)


@contextmanager
def progress_bar(label: str, total: int, time_column: ProgressColumn | None = None) -> Iterator[Callable[[], None]]:
    """Show a bar of so many steps; what is yielded is called after each."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        time_column or TimeElapsedColumn(),
    )
    with Progress(*columns, console=messages) as progress:
        task = progress.add_task(label, total=total)
        yield lambda: progress.advance(task)


def on_cores_with_progress(label: str, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``on_all_cores`` under a progress bar."""
    with progress_bar(label, len(items)) as advance:
        return on_all_cores(work, items, lambda _: advance())
