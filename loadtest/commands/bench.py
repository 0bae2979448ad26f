"""``bench``: all figures of the service in one run, beside floors on the same stack."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Iterable, Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

from loadtest.bench.growth import report as growth
from loadtest.bench.growth.measure import measure as measure_growth
from loadtest.bench.growth.measure import steps_of
from loadtest.bench.growth.scene import GrowthOptions
from loadtest.bench.markdown import page_with
from loadtest.bench.report import GOALS_HEAD, HEAD, MARKS, goal_rows, machine, section, target_rows
from loadtest.bench.start_times import start_times
from loadtest.bench.stored_bytes import stored_bytes
from loadtest.bench.targets import Options, names_of
from loadtest.bench.throughput import bench as measure
from loadtest.bench.wrk import find_wrk
from loadtest.commands.growth import print_growth, write_growth
from loadtest.commands.output import (
    console,
    messages,
    print_note,
    print_table,
    print_written,
    progress_bar,
    write_summary,
)
from loadtest.commands.own_processes import own_processes

FULL = GrowthOptions()
IDLE_FOR_EACH = 5
"""Idle sessions for each of the ``--sessions`` that are used."""
SIZES = ("sessions", "arms", "outstanding", "open_slots", "events", "workers")


class Part(StrEnum):
    """What is measured beside rates and processor times."""

    START = "start"
    """Import of the application, and a start until it is ready."""
    STORED = "stored"
    """Bytes of the log, and memory of idle sessions."""
    GROWTH = "growth"
    """How times grow with sizes."""


def bench(
    seconds: Annotated[
        float,
        typer.Option(
            min=0.1, max=3600, help="Seconds for which a target is called in each round; wrk takes whole ones."
        ),
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
    without: Annotated[
        list[Part] | None, typer.Option(help="Part that is left out; repeat it to leave out several.")
    ] = None,
    grow_to: Annotated[
        int, typer.Option(min=3, help="Largest size of what grows: see the command growth.")
    ] = FULL.outstanding,
    with_wrk: Annotated[
        bool, typer.Option("--wrk/--no-wrk", help="Whether wrk makes the load, if it is installed.")
    ] = True,
    out: Annotated[Path, typer.Option(help="Folder for summary.json and the logs.")] = Path("runs/bench"),
    page: Annotated[
        Path | None,
        typer.Option(help="Write the tables into this page, and the figures into results/."),
    ] = None,
) -> None:
    """Measure the service beside endpoints that do less: rates, times, bytes, and how they grow."""
    counts = workers or [1, 2]
    _check(page, counts)
    program = find_wrk() if with_wrk else None
    if with_wrk and program is None:
        print_note("clients in Python make the load: wrk is not installed")
    has_peers = find_spec("river") is not None
    if not has_peers:
        print_note("river is left out: it is not installed (extra peers)")
    options = Options(seconds, repetitions, clients, n_arms, counts, sessions, wrk=program, peers=has_peers)
    with own_processes(out):
        summary = _throughput(options, out) | {"date": dt.datetime.now(dt.UTC).date().isoformat()}
        summary |= _other_parts(options, set(Part) - set(without or ()), grow_to, out)
        write_summary(out, summary)
    _print(summary)
    if page is not None:
        _write(summary, page)
    print_written(out if page is None else page)


def _check(page: Path | None, workers: Sequence[int]) -> None:
    """Refuse a page that can't be written, before anything is measured."""
    if page is None:
        return
    if 1 not in workers:
        raise typer.BadParameter("the page has the figures of one worker: measure --workers 1 too")
    text = page.read_text("utf-8") if page.is_file() else ""
    if lacking := [mark for mark in (*MARKS, *growth.MARKS) if mark not in text]:
        raise typer.BadParameter(f"the page {page} lacks {lacking[0]}")


def _throughput(options: Options, out: Path) -> dict[str, Any]:
    steps = options.repetitions * sum(len(names_of(options, count)) for count in options.workers)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as data,
        progress_bar("rates and processor times", steps, TimeRemainingColumn()) as advance,
    ):
        return measure(options, Path(data), out, advance)


def _other_parts(options: Options, parts: set[Part], grow_to: int, out: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if Part.START in parts:
        with messages.status("start"):
            found[Part.START] = start_times(options.repetitions)
    if Part.STORED in parts:
        with messages.status("bytes"):
            found[Part.STORED] = stored_bytes(options.clients, options.seconds, IDLE_FOR_EACH * options.sessions)
    if Part.GROWTH in parts:
        made = {name: getattr(options, name) for name in ("seconds", "repetitions", "clients", "wrk")}
        grown = FULL._replace(**{name: min(getattr(FULL, name), grow_to) for name in SIZES}, **made)
        with progress_bar("growth", steps_of(grown), TimeElapsedColumn()) as advance:
            found[Part.GROWTH] = measure_growth(grown, out, advance)
    return {str(part): figures for part, figures in found.items()}


def _print(summary: dict[str, Any]) -> None:
    for count, found in summary["workers"].items():
        title = f"{count} worker{'' if count == '1' else 's'}: medians (least to most)"
        print_table(_table(title, HEAD, target_rows(summary, count)))
        latency = {name: each["median"] for name, each in found["open_loop_milliseconds"].items()}
        times = "p50 {p50:.1f} ms, p99 {p99:.1f} ms ({p99_over_p50:.1f} times)".format(**latency)
        console.print(f"open loop, {latency['rate']:,.0f} requests/s: {times}", highlight=False)
    if Part.GROWTH in summary:
        print_growth(summary[Part.GROWTH])
    print_table(_table("Goals, one worker", GOALS_HEAD, goal_rows(summary)))
    console.print(machine(summary), highlight=False, soft_wrap=True)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    table = Table(Column(head[0], no_wrap=True), *head[1:], title=title, title_justify="left")
    for cells in rows:
        table.add_row(*cells)
    return table


def _write(summary: dict[str, Any], page: Path) -> None:
    folder = page.parent / "results"
    folder.mkdir(exist_ok=True)
    if Part.GROWTH in summary:
        write_growth(summary[Part.GROWTH], page)
    (folder / "bench.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    page.write_text(page_with(page.read_text("utf-8"), MARKS, section(summary)), encoding="utf-8")
