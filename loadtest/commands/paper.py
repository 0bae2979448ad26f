"""``paper``: the paper's four experiments, every learner, mean and standard error over seeds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loadtest import figures
from loadtest.commands.output import errors_reported, on_cores_with_progress, print_note, print_table, print_written
from loadtest.replay import jester
from loadtest.replay.quadratic_worlds import YACHT_PAGE
from loadtest.studies import scaling
from loadtest.studies.experiments import POINT_ENTRIES
from loadtest.studies.paper_jobs import collect, find_data, jobs_of, run_job

JESTER_SEEDS = 20
"""Its stream is twelve times as long as the synthetic one."""
SCALING_SEEDS = 10


def paper(
    data_dir: Annotated[Path, typer.Option(help="Folder of the Jester and yacht files.")] = Path("data"),
    seeds: Annotated[int, typer.Option(min=2, help="Seeds for each learner that draws at random.")] = 100,
    jester_seeds: Annotated[
        int | None,
        typer.Option(min=2, help="Seeds on the Jester ratings; the smaller of 20 and --seeds if not given."),
    ] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Also try factors c on the theorem's rates and report the best.")
    ] = False,
    scaling_studies: Annotated[
        bool, typer.Option("--scaling", help="Also measure how regret grows with T and D.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for summary.json and the figures.")] = Path("runs/paper"),
) -> None:
    """Run the paper's experiments and write its figures."""
    with errors_reported():
        found = find_data(data_dir)
        counts = dict.fromkeys(found.ready, seeds) | {"mab_jester": jester_seeds or min(seeds, JESTER_SEEDS)}
        jobs = jobs_of(found.ready, counts, tune=tune)
        summary = collect(jobs, on_cores_with_progress("experiments", run_job, jobs))
        out.mkdir(parents=True, exist_ok=True)
        (out / "summary.json").write_text(json.dumps(summary, allow_nan=False) + "\n", encoding="utf-8")
        for name, learners in summary.items():
            figures.plot_experiment(learners, out / f"{name}.png")
        print_table(table_of(summary))
        if scaling_studies:
            _scaling(out)
    for name, missing in found.skipped.items():
        page = jester.PAGE if name == "mab_jester" else YACHT_PAGE
        print_note(f"skipped {name}: {missing}; the data are at {page}")
    print_written(out)


def _scaling(out: Path) -> None:
    points = scaling.points(SCALING_SEEDS)
    regret = on_cores_with_progress("scaling", scaling.total_regret, points)
    studies = scaling.slopes(dict(zip(points, regret, strict=True)))
    order = on_cores_with_progress("random order", scaling.shuffled_regret, POINT_ENTRIES)
    random_order = {
        entry.key: {"mean": mean, "stderr": stderr}
        for entry, (mean, stderr) in zip(POINT_ENTRIES, order, strict=True)
    }
    (out / "scaling.json").write_text(
        json.dumps(studies | {"bco_random_order": random_order}, indent=2) + "\n", encoding="utf-8"
    )
    figures.plot_scaling(studies, out / "scaling.png")
    table = Table(
        "learner, varied", "against", "slope", "slope at the end", title="Growth of Reg_T", title_justify="left"
    )
    for name, study in studies.items():
        table.add_row(name, study["against"], f"{study['slope']:.2f}", f"{study['last_slope']:.2f}")
    print_table(table)
    table = Table("learner", "Reg_T / T", title="Synthetic losses of points in random order", title_justify="left")
    for key, found in random_order.items():
        table.add_row(key, _figure(found))
    print_table(table)


def table_of(summary: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Table:
    """Normalised regret of every learner, c = 1 beside the tuned c where there is one."""
    table = Table("learner", "Reg_T / T", "seeds", "tuned (c)", title="Normalised regret", title_justify="left")
    for name, learners in summary.items():
        table.add_section()
        table.add_row(f"[bold]{name}[/bold]")
        for key, figures_of_key in learners.items():
            if not key.endswith("_tuned"):
                tuned = learners.get(f"{key}_tuned")
                best = f"{tuned['mean']:.4f} ({tuned['rate_scale']:g})" if tuned else ""
                table.add_row(f"  {key}", _figure(figures_of_key), str(figures_of_key["seeds"]), best)
    return table


def _figure(of: Mapping[str, Any]) -> str:
    return f"{of['mean']:.5f}" + (f" ± {of['stderr']:.5f}" if of["stderr"] else "")
