"""``expiry``: how well learners do where most decisions are never answered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loadtest.commands.output import (
    errors_reported,
    on_cores_with_progress,
    print_note,
    print_table,
    print_written,
    write_summary,
)
from loadtest.replay.jester import PAGE, read_jester
from loadtest.studies import expiry_study as study
from loadtest.studies.expiry_game import Mode
from loadtest.studies.expiry_study import Case, Found

Rows = dict[str, dict[str, Any]]
SURE = 3.0
"""Standard errors a gain must exceed."""
DIGITS = 4


def expiry(
    data: Annotated[
        Path | None, typer.Option(help="Jester file; without it the tasks on ratings are skipped.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, help="Seeds on the short synthetic stream.")] = 40,
    long_seeds: Annotated[
        int, typer.Option(min=2, help="Seeds on the other streams, which are ten times as long.")
    ] = 10,
    out: Annotated[Path, typer.Option(help="Folder for summary.json.")] = Path("runs/expiry"),
) -> None:
    """Compare regret with expiry, without expiry and with full feedback."""
    with errors_reported():
        if data is not None:
            read_jester([data])
        cases = study.cases(seeds, long_seeds, data)
        rows = rows_of(cases, on_cores_with_progress("expiry", study.run_case, cases))
    out.mkdir(parents=True, exist_ok=True)
    write_summary(out, list(rows.values()))
    print_table(table_of(rows))
    if data is None:
        print_note(f"skipped the ratings: no --data; they are at {PAGE}")
    print_written(out)


def rows_of(cases: list[Case], found: list[Found]) -> Rows:
    """Task, share and learner to the figures of every mode, in the study's order."""
    rows: Rows = {}
    for case, figures in zip(cases, found, strict=True):
        row = rows.setdefault(f"{case.task}/{case.unanswered}/{case.kind}", _first(case))
        row["modes"][case.mode.value] = {"mean": figures.mean, "stderr": figures.stderr}
        if case.mode is Mode.FULL:
            row["uniform"] = figures.uniform
    tasks = list(study.TASKS)
    return dict(sorted(rows.items(), key=lambda item: tasks.index(item[1]["task"])))


def _first(case: Case) -> dict[str, Any]:
    asked = {"task": case.task, "unanswered": case.unanswered, "learner": case.kind, "seeds": len(case.seeds)}
    return asked | {"uniform": 0.0, "modes": {}}


def kept(row: Mapping[str, Any]) -> float | None:
    """Return the share of full feedback's gain over uniform play that remains with expiry.

    None where full feedback gains less than ``SURE`` standard errors.
    """
    full, on = (row["modes"][mode.value] for mode in (Mode.FULL, Mode.ON))
    gain = row["uniform"] - full["mean"]
    return None if gain <= SURE * full["stderr"] else float((row["uniform"] - on["mean"]) / gain)


def table_of(rows: Rows) -> Table:
    """Normalised regret of every mode, and the share of the gain that expiry keeps."""
    title = "Normalised regret; in brackets the standard error of the last digit"
    table = Table("unanswered", "learner", "uniform", *Mode, "kept", title=title, title_justify="left")
    last = ""
    for row in rows.values():
        if row["task"] != last:
            last = row["task"]
            table.add_section()
            table.add_row(f"[bold]{last}[/bold]")
        figures = [_figure(row["modes"].get(mode.value)) for mode in Mode]
        share = kept(row)
        cells = (f"{row['unanswered']:.0%}", row["learner"], _decimals(row["uniform"]), *figures)
        table.add_row(*cells, "-" if share is None else f"{share:.0%}")
    return table


def _figure(of: Mapping[str, float] | None) -> str:
    return "" if of is None else f"{_decimals(of['mean'])}({round(of['stderr'] * 10**DIGITS)})"


def _decimals(value: float) -> str:
    return f"{value:.{DIGITS}f}".replace("0.", ".", 1)
