"""``day``: a simulated day of visitors, and how the click rate rises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loadtest.commands.output import console, errors_reported, print_written
from loadtest.studies.day import simulate
from loadtest.studies.day_report import lines_of, plot_day


def day(
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the visitors and of the session.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for day.png and day.svg.")] = Path("runs/day"),
) -> None:
    """Simulate a day of a shop's visitors in process: the click rate while it learns, beside uniform play."""
    with errors_reported():
        simulated = simulate(seed)
    for line in lines_of(simulated):
        console.print(line, highlight=False)
    out.mkdir(parents=True, exist_ok=True)
    plot_day(simulated, out / "day.png", out / "day.svg")
    print_written(out)
