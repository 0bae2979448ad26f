"""``bench``: the service's throughput beside floors on the same stack."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TimeRemainingColumn
from rich.table import Column, Table

from loadtest.bench.throughput import SERVICE, TARGETS, Options
from loadtest.bench.throughput import bench as measure
from loadtest.commands.output import console, errors_reported, print_written, progress_bar, write_summary


def bench(
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds for which a target is called in each round.")
    ] = 3.0,
    repetitions: Annotated[int, typer.Option(min=1, help="Rounds; each calls every target.")] = 5,
    clients: Annotated[
        int, typer.Option(min=1, help="Connections; each sends a request after the answer to the one before.")
    ] = 32,
    n_arms: Annotated[int, typer.Option(min=2, max=100_000, help="Arms of the session.")] = 100,
    workers: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Number of worker processes; repeat it to measure several. 1 and 2 if not given."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for summary.json and the logs.")] = Path("runs/bench"),
) -> None:
    """Measure requests per second of the service on one session, beside endpoints that do less work."""
    options = Options(seconds, repetitions, clients, n_arms, workers or [1, 2])
    with errors_reported(), tempfile.TemporaryDirectory(prefix="bench-") as data:
        out.mkdir(parents=True, exist_ok=True)
        steps = repetitions * len(options.workers) * len(TARGETS)
        with progress_bar("bench", steps, TimeRemainingColumn()) as advance:
            summary = measure(options, Path(data), out, advance)
    write_summary(out, summary)
    for count, found in summary["workers"].items():
        console.print(_table(count, found))
    print_written(out)


def _table(workers: str, found: dict[str, Any]) -> Table:
    title = f"{workers} worker{'' if workers == '1' else 's'}: requests per second, and the service's ratio"
    table = Table(Column("target", no_wrap=True), "requests/s", "service to it", title=title, title_justify="left")
    for name, label in TARGETS.items():
        ratio = "" if name == SERVICE else _spread(found["service_to_floor"][name], ".2f")
        table.add_row(label, _spread(found["requests_per_second"][name], ",.0f"), ratio)
    return table


def _spread(numbers: dict[str, Any], form: str) -> str:
    return "{} ({} to {})".format(*(format(numbers[name], form) for name in ("median", "min", "max")))
