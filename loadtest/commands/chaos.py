"""``chaos``: faults under load, ending in an audit."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from loadtest.chaos.audit import LISTED
from loadtest.chaos.faults import FAULTS
from loadtest.chaos.group import FAILOVERS, staged_group
from loadtest.chaos.rounds import IMPATIENT, Chaos, Tally, staged
from loadtest.commands.output import console, print_error, print_written, progress_bar, write_summary
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
    single, group = _chosen(FAULTS, fault), _chosen(FAILOVERS, fault)
    rounds, failovers = rounds if single else 0, failovers if group else 0
    if not single and not group:
        raise typer.BadParameter(f"there are {', '.join([*FAULTS, *FAILOVERS])}", param_hint="--fault")
    tallies: dict[str, Tally] = {}
    with own_processes(out), progress_bar("chaos", rounds + failovers + long_freezes) as advance:
        if rounds:
            tallies |= _phase(
                out, seed, time_factor, lambda it: it.short_rounds(rounds, advance, single), *IMPATIENT
            )
        if failovers:
            tallies |= _phase(
                out, seed, time_factor, lambda it: it.short_rounds(failovers, advance, group), stage_of=staged_group
            )
        if long_freezes:
            tallies |= _phase(
                out, seed, time_factor, lambda it: it.long_freezes(long_freezes, freeze_seconds, advance)
            )
    _report(tallies, out, seed, time.monotonic() - started)
    if any(tally.problems for tally in tallies.values()):
        raise typer.Exit(1)


def _chosen(faults: Mapping[str, Callable[[Any], None]], names: Sequence[str] | None) -> dict[str, Any]:
    return {name: fault for name, fault in faults.items() if not names or name in names}


def _phase(
    out: Path,
    seed: int,
    time_factor: float,
    play: Callable[[Chaos], None],
    *flags: str,
    stage_of: Callable[..., AbstractContextManager[Any]] = staged,
) -> Mapping[str, Tally]:
    """Play on a fresh Redis and service; their logs stay in ``out``, their sessions are deleted."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as data, stage_of(Path(data), out, seed, *flags) as stage:
        faults = Chaos(stage, time_factor)
        play(faults)
        faults.audit_again()
        return faults.tallies


def _report(tallies: Mapping[str, Tally], out: Path, seed: int, seconds: float) -> None:
    ok = not any(tally.problems for tally in tallies.values())
    faults = {kind: tally.summary() for kind, tally in tallies.items()}
    summary = {"ok": ok, "seed": seed, "seconds": round(seconds, 1), "faults": faults}
    write_summary(out, summary)
    console.print(_table(tallies))
    for tally in tallies.values():
        for problem in tally.problems[:LISTED]:
            print_error(problem)
    print_written(out)


def _table(tallies: Mapping[str, Tally]) -> Table:
    heads = ("fault", "rounds", "calls", "sent again", "slots", "events", "audit")
    table = Table(*heads, title="Acknowledged and settled", title_justify="left")
    for kind, tally in tallies.items():
        counts = (tally.rounds, tally.calls, tally.retries.total(), tally.acts, tally.events)
        table.add_row(kind, *map(str, counts), f"{len(tally.problems)} wrong" if tally.problems else "exact")
    return table
