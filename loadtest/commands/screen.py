"""Where commands print, and how they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from loadtest.errors import LoadTestError

console, messages = Console(), Console(stderr=True)


@contextmanager
def reported() -> Iterator[None]:
    """Turn what went wrong into one sentence and exit 1."""
    try:
        yield
    except LoadTestError as error:
        messages.print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
