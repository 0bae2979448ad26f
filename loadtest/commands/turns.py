"""``turns``: how long the largest requests keep others waiting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track
from rich.table import Table

from loadtest.bench.event_loop_turns import milliseconds
from loadtest.bench.large_requests import LARGE_REQUESTS
from loadtest.bench.measured import spread
from loadtest.commands.output import errors_reported, messages, print_table, print_written, write_summary


def turns(
    request: Annotated[
        list[str] | None, typer.Option(help="Measure only this request; repeat it for several. All if not given.")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="How often each request is sent.")] = 5,
    out: Annotated[Path, typer.Option(help="Folder for summary.json.")] = Path("runs/turns"),
) -> None:
    """Measure for how long each of the largest requests blocks the event loop, in processor time."""
    found: dict[str, list[float]] = {name: [] for name in request or LARGE_REQUESTS}
    if unknown := found.keys() - LARGE_REQUESTS.keys():
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: not one of {', '.join(LARGE_REQUESTS)}")
    with errors_reported():
        out.mkdir(parents=True, exist_ok=True)
        for name in track([*found] * repetitions, "turns", console=messages):
            found[name].append(milliseconds(name))
    summary = {name: spread(each) for name, each in found.items()}
    write_summary(out, summary)
    table = Table("request", "longest turn, ms (median)", "from", "to", title="Turns", title_justify="left")
    for name, each in summary.items():
        numbers = (f"{each[column]:.1f}" for column in ("median", "min", "max"))
        table.add_row(LARGE_REQUESTS[name].title, *numbers)
    print_table(table)
    print_written(out)
