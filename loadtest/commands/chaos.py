"""``chaos``: faults under load, ending in an audit."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from loadtest.chaos.audit import LISTED
from loadtest.chaos.rounds import Chaos, Tally, staged
from loadtest.chaos.stages import NAMES, ONE_STORE, REPLICAS, Kind, chosen, shared_out
from loadtest.commands.output import (
    print_error,
    print_note,
    print_table,
    print_written,
    progress_bar,
    write_summary,
)
from loadtest.commands.own_processes import own_processes


def chaos(
    rounds: Annotated[
        int, typer.Option(min=0, help="Short rounds, one fault each; the kinds of fault take turns.")
    ] = 27,
    long_freezes: Annotated[
        int, typer.Option(min=0, help="Rounds after them in which the store is frozen for long.")
    ] = 0,
    failovers: Annotated[
        int, typer.Option(min=0, help="Rounds on a master with two replicas and a sentinel, their faults in turn.")
    ] = 0,
    fault: Annotated[
        list[str] | None, typer.Option(help="Kind of fault to play, by its name in the table; all if not given.")
    ] = None,
    freeze_seconds: Annotated[float, typer.Option(min=3, help="Seconds that a long freeze lasts.")] = 30,
    time_factor: Annotated[float, typer.Option(min=1, help="Factor on all time limits, for a busy machine.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the times at which faults happen.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for summary.json and the logs.")] = Path("runs/chaos"),
) -> None:
    """Start a service, break it under load, and exit 1 unless all that was acknowledged counts exactly once."""
    started = time.monotonic()
    if unknown := set(fault or ()) - set(NAMES):
        raise typer.BadParameter(f"no {sorted(unknown)[0]}; there are {', '.join(NAMES)}", param_hint="--fault")
    tallies: dict[str, Tally] = {}
    with own_processes(out):
        plan = shared_out(chosen(ONE_STORE, fault), rounds) + shared_out(chosen(REPLICAS, fault), failovers)
        skipped = {name: reason for kind, _ in plan if (reason := kind.lacks()) for name in kind.faults}
        plan = [(kind, count) for kind, count in plan if not kind.faults.keys() & skipped.keys()]
        with progress_bar("chaos", sum(count for _, count in plan) + long_freezes) as advance:
            for kind, count in plan:
                play = partial(Chaos.short_rounds, rounds=count, advance=advance, faults=kind.faults)
                tallies |= _phase(kind, out, seed, time_factor, play)
            if long_freezes:
                freeze = partial(Chaos.long_freezes, rounds=long_freezes, seconds=freeze_seconds, advance=advance)
                tallies |= _phase(Kind({}, staged), out, seed, time_factor, freeze)
    _report(tallies, skipped, out, seed, time.monotonic() - started)
    if any(tally.problems for tally in tallies.values()):
        raise typer.Exit(1)


def _phase(
    kind: Kind, out: Path, seed: int, time_factor: float, play: Callable[[Chaos], None]
) -> Mapping[str, Tally]:
    """Play on fresh servers and a fresh service; their logs stay in ``out``, their sessions are deleted."""
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as data,
        kind.stage_of(Path(data), out, seed, *kind.flags) as stage,
    ):
        faults = Chaos(stage, time_factor)
        play(faults)
        faults.audit_again()
        return faults.tallies


def _report(tallies: Mapping[str, Tally], skipped: Mapping[str, str], out: Path, seed: int, seconds: float) -> None:
    ok = not any(tally.problems for tally in tallies.values())
    faults = {kind: tally.summary() for kind, tally in tallies.items()}
    summary = {"ok": ok, "seed": seed, "seconds": round(seconds, 1), "faults": faults, "skipped": skipped}
    write_summary(out, summary)
    print_table(_table(tallies))
    for tally in tallies.values():
        for problem in tally.problems[:LISTED]:
            print_error(problem)
    for name, reason in skipped.items():
        print_note(f"skipped: {name}: {reason}")
    print_written(out)


def _table(tallies: Mapping[str, Tally]) -> Table:
    heads = ("fault", "rounds", "calls", "sent again", "slots", "events", "audit")
    table = Table(*heads, title="Acknowledged and settled", title_justify="left")
    for kind, tally in tallies.items():
        counts = (tally.rounds, tally.calls, tally.retries.total(), tally.acts, tally.events)
        table.add_row(kind, *map(str, counts), f"{len(tally.problems)} wrong" if tally.problems else "exact")
    return table
