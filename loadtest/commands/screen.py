"""Where commands print, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtest.errors import LoadTestError
from loadtest.studies import on_all_cores

console, messages = Console(), Console(stderr=True)
T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def reported() -> Iterator[None]:
    """Turn what went wrong into one sentence and exit 1."""
    try:
        yield
    except LoadTestError as error:
        messages.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error


def on_cores_with_progress(label: str, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``on_all_cores`` under a progress bar."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=messages) as progress:
        task = progress.add_task(label, total=len(items))
        return on_all_cores(work, items, lambda _: progress.advance(task))
