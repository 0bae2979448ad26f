"""``burst``: a night's decisions fall due at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from loadtest.chaos.burst import CALL, Burst, staged
from loadtest.commands.output import print_error, print_table, print_written, write_summary
from loadtest.commands.own_processes import own_processes


def burst(
    acts: Annotated[
        int, typer.Option(min=CALL, help=f"Decisions that expire at the same time; a multiple of {CALL:,}.")
    ] = 1_000_000,
    window: Annotated[
        float, typer.Option(min=1, help="Seconds until a decision expires; making all of them must take less.")
    ] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Bursts without a kill.")] = 1,
    kills: Annotated[int, typer.Option(min=0, help="Bursts during which a worker is killed.")] = 1,
    quiet_seconds: Annotated[
        float, typer.Option(min=1, help="Seconds for which the other session is timed before a burst.")
    ] = 20,
    out: Annotated[Path, typer.Option(help="Folder for summary.json and the logs.")] = Path("runs/burst"),
) -> None:
    """Let very many decisions expire at the same time; exit 1 unless each is settled exactly once."""
    with own_processes(out), staged(out, window) as study:
        found = [study.burst(acts, quiet_seconds, kill=number >= rounds) for number in range(rounds + kills)]
    write_summary(out, [each.summary() for each in found])
    print_table(_table(found))
    print_written(out)
    problems = [problem for each in found for problem in each.problems]
    for problem in problems:
        print_error(problem)
    if problems:
        raise typer.Exit(1)


def _table(found: Sequence[Burst]) -> Table:
    heads = (
        "due at once",
        "worker killed",
        "settled in",
        "other's p99 before",
        "meanwhile",
        "ratio",
        "calls",
        "audit",
    )
    table = Table(*heads, title="A burst of due decisions", title_justify="left")
    for each in found:
        latencies = (f"{value:.1f} ms" for value in (each.quiet_p99, each.burst_p99))
        cells = [f"{each.acts:,}", "yes" if each.killed else "no", f"{each.settling:.2f} s", *latencies]
        audit = f"{len(each.problems)} wrong" if each.problems else "exact"
        table.add_row(*cells, f"{each.ratio:.1f}", str(each.requests), audit)
    return table
