"""``counts``: what counts of arms add to a commit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from loadtest.bench.count_costs import count_costs
from loadtest.bench.measured import machine
from loadtest.commands.output import console, errors_reported, print_written, write_summary


def counts(
    program: Annotated[
        str | None, typer.Option(help="Program of the store's server; found in PATH if not given.")
    ] = None,
    repetitions: Annotated[int, typer.Option(min=2, help="Repetitions, in turn.")] = 150,
    pairs: Annotated[int, typer.Option(min=1, help="Acts and events of a repetition.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for summary.json.")] = Path("runs/counts"),
) -> None:
    """Measure the processor time of a commit, of worker and server, with and without counts of arms."""
    with errors_reported():
        out.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(count_costs(program, repetitions, pairs))
    write_summary(out, {"machine": machine(), "ratio": found.ratio, **found._asdict()})
    console.print(f"With counts of arms a commit takes {found.ratio:.3f} times the processor time.")
    print_written(out)
