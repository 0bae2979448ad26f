"""``bench``: the service's throughput beside floors on the same stack."""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TimeRemainingColumn
from rich.table import Column, Table

from loadtest.bench.targets import FLOORS, LABELS, PAGE, Options, names_of
from loadtest.bench.throughput import bench as measure
from loadtest.bench.wrk import find_wrk
from loadtest.commands.output import (
    console,
    print_note,
    print_table,
    print_written,
    progress_bar,
    write_summary,
)
from loadtest.commands.own_processes import own_processes


def bench(
    seconds: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds for which a target is called in each round; wrk takes whole ones."),
    ] = 3.0,
    repetitions: Annotated[int, typer.Option(min=1, help="Rounds; each calls every target.")] = 5,
    clients: Annotated[
        int, typer.Option(min=1, help="Connections; each sends a request after the answer to the one before.")
    ] = 32,
    n_arms: Annotated[int, typer.Option(min=2, max=100_000, help="Arms of each session.")] = 100,
    sessions: Annotated[int, typer.Option(min=1, help="Sessions where there are many.")] = 1000,
    workers: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Number of worker processes; repeat it to measure several. 1 and 2 if not given."),
    ] = None,
    with_wrk: Annotated[
        bool, typer.Option("--wrk/--no-wrk", help="Whether wrk makes the load, if it is installed.")
    ] = True,
    out: Annotated[Path, typer.Option(help="Folder for summary.json and the logs.")] = Path("runs/bench"),
) -> None:
    """Measure requests per second and processor time of the service, beside endpoints that do less work."""
    program = find_wrk() if with_wrk else None
    has_peers = find_spec("river") is not None
    if not has_peers:
        print_note("river is left out: it is not installed (extra peers)")
    options = Options(
        seconds, repetitions, clients, n_arms, workers or [1, 2], sessions, wrk=program, peers=has_peers
    )
    with own_processes(out), tempfile.TemporaryDirectory(prefix="bench-") as data:
        steps = repetitions * sum(len(names_of(options, count)) for count in options.workers)
        with progress_bar("bench", steps, TimeRemainingColumn()) as advance:
            summary = measure(options, Path(data), out, advance)
    write_summary(out, summary)
    for count, found in summary["workers"].items():
        print_table(_table(count, found, options))
        latency = found["open_loop_milliseconds"]
        times = "p50 {p50:.1f} ms, p99 {p99:.1f} ms ({p99_over_p50:.1f} times)".format(**latency)
        console.print(f"open loop, {latency['rate']:,.0f} requests/s: {times}", highlight=False)
    for name, ratios in summary["workers_ratio"].items():
        console.print(f"workers {name}: {', '.join(f'{k} {v:.2f}' for k, v in ratios.items())}", highlight=False)
    console.print(f"load: {summary['generator']}; {summary['machine']}", highlight=False, soft_wrap=True)
    print_written(out)


def _table(workers: str, found: dict[str, Any], options: Options) -> Table:
    title = f"{workers} worker{'' if workers == '1' else 's'}: medians (least to most)"
    columns = ("per second", "CPU us", "rate / N", "rate / G", "CPU / N", "CPU / G")
    table = Table(Column("target", no_wrap=True), *columns, title=title, title_justify="left")
    for name in names_of(options, int(workers)):
        cells = [_spread(found["per_second"][name], ",.0f"), _spread(found["cpu_microseconds"][name], ",.1f")]
        ratios = [found[kind][floor] for kind in ("rate_over", "cpu_over") for floor in FLOORS]
        cells += ["" if name in FLOORS else _spread(each[name], ".2f") for each in ratios]
        table.add_row(LABELS[name].format(sessions=options.sessions, bulk=options.bulk, page=PAGE), *cells)
    return table


def _spread(numbers: dict[str, Any], form: str) -> str:
    return "{} ({} to {})".format(*(format(numbers[name], form) for name in ("median", "min", "max")))
