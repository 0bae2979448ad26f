"""``growth``: how times grow with sessions, arms, outstanding decisions, events in a call, and workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import TimeElapsedColumn
from rich.table import Table

from loadtest.bench.growth.measure import measure, steps_of
from loadtest.bench.growth.picture import draw
from loadtest.bench.growth.report import HEAD, MARKS, cells_of, section
from loadtest.bench.growth.rows import of_json
from loadtest.bench.growth.scene import GrowthOptions
from loadtest.bench.markdown import page_with
from loadtest.bench.wrk import find_wrk
from loadtest.commands.output import print_table, print_written, progress_bar, write_summary
from loadtest.commands.own_processes import own_processes

FULL = GrowthOptions()


def growth(
    sessions: Annotated[int, typer.Option(min=1, help="Most sessions.")] = FULL.sessions,
    arms: Annotated[int, typer.Option(min=2, max=100_000, help="Most arms of a session.")] = FULL.arms,
    outstanding: Annotated[
        int, typer.Option(min=3, max=1_000_000, help="Most outstanding decisions of a session.")
    ] = FULL.outstanding,
    open_slots: Annotated[
        int, typer.Option(min=3, max=1_000_000, help="Most of them where each keeps a record.")
    ] = FULL.open_slots,
    events: Annotated[int, typer.Option(min=1, max=10_000, help="Most events in a call.")] = FULL.events,
    workers: Annotated[int, typer.Option(min=1, help="Most worker processes.")] = FULL.workers,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Seconds of load for a rate; wrk takes whole ones.")
    ] = FULL.seconds,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each is measured.")] = FULL.repetitions,
    calls: Annotated[
        int, typer.Option(min=1, help="Calls, one after the other, whose median is the time of a repetition.")
    ] = FULL.calls,
    clients: Annotated[int, typer.Option(min=1, help="Connections that make the load of a rate.")] = FULL.clients,
    with_wrk: Annotated[
        bool, typer.Option("--wrk/--no-wrk", help="Whether wrk makes the load, if it is installed.")
    ] = True,
    out: Annotated[Path, typer.Option(help="Folder for summary.json, table, picture and logs.")] = Path(
        "runs/growth"
    ),
    page: Annotated[
        Path | None, typer.Option(help="Write the table into this page, and its figure into results/ beside it.")
    ] = None,
) -> None:
    """Measure how times and rates grow, and meanwhile the longest wait of other requests."""
    sizes = (sessions, arms, outstanding, open_slots, events, workers)
    wrk = find_wrk() if with_wrk else None
    options = GrowthOptions(*sizes, seconds, repetitions, calls, clients, wrk)
    with own_processes(out), progress_bar("growth", steps_of(options), TimeElapsedColumn()) as advance:
        summary = measure(options, out, advance)
    write_summary(out, summary)
    (out / "growth.md").write_text(section(summary) + "\n", encoding="utf-8")
    draw(of_json(summary["rows"]), out / "growth")
    if page is not None:
        write_growth(summary, page)
    print_growth(summary)
    print_written(out if page is None else page)


def write_growth(summary: Mapping[str, Any], page: Path) -> None:
    """Write the table into a page, and figures and picture into ``results/`` beside it."""
    folder = page.parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "growth.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    draw(of_json(summary["rows"]), folder / "growth")
    page.write_text(page_with(page.read_text("utf-8"), MARKS, section(summary)), encoding="utf-8")


def print_growth(summary: Mapping[str, Any]) -> None:
    """Print the table."""
    table = Table(*HEAD, title="Growth", title_justify="left")
    for cells in cells_of(of_json(summary["rows"])):
        table.add_row(*cells)
    print_table(table)
