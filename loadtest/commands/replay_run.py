"""How a replay runs in a terminal: its progress, its interruption, its exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from loadtest.commands.output import messages, print_error
from loadtest.replay.driver import Driver
from loadtest.replay.replay import Record, Replay

INTERRUPTED = 130
PROGRESS_EVERY = 50
"""Slots between two updates of the progress bar."""


def run(replaying: Replay, slots: int, label: str, *, drain: bool) -> Record:
    """Play a replay under a progress bar; a first signal ends it after its slot."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=messages) as progress, _stoppable() as stops:
        task = progress.add_task(label, total=slots)

        def advance(slot: int) -> None:
            if slot % PROGRESS_EVERY == 0 or slot == slots:
                progress.update(task, completed=slot)

        return replaying.run(drain=drain, stopped=lambda: bool(stops), advance=advance)


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """Yield the signals received; the first one of a kind ends the replay after its slot, the second at once."""
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


def described(driver: Driver, record: Record) -> dict[str, Any]:
    """How the session was driven, where it can still be asked."""
    if record.counts is None:
        return {"driver": "unknown"}
    facts = driver.describe()
    return facts | {"rates": (facts["parameters"] or {}).get("rates")}


def exit_with(record: Record) -> None:
    """Exit 1 where the run doesn't count, 130 where it was interrupted."""
    for problem in record.problems():
        print_error(problem)
    if record.problems():
        raise typer.Exit(1)
    if record.interrupted:
        raise typer.Exit(INTERRUPTED)
