"""``study``: learners in many worlds, and the page of results that is made from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from loadtest.commands.output import console, errors_reported, print_note, print_written, progress_bar
from loadtest.errors import LoadTestError
from loadtest.replay.jester import PAGE
from loadtest.study.catalogue import check_names, worlds
from loadtest.study.cells import Size, batches, cells_of, load, run
from loadtest.study.learners import Entry, installed
from loadtest.study.page import write

QUICK = Size(2, 3, 400)


def study(
    data: Annotated[
        Path | None, typer.Option(help="Jester file; without it the worlds of ratings are skipped.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, help="Seeds of a world.")] = 20,
    stall_seeds: Annotated[int, typer.Option(min=2, help="Seeds of the worlds that show stalls.")] = 100,
    slots: Annotated[int, typer.Option(min=20, help="Longest horizon; longer worlds are cut.")] = 100_000,
    only: Annotated[str, typer.Option(help="Play only worlds whose names hold this text.")] = "",
    learner: Annotated[
        list[str] | None, typer.Option(help="Play only this learner, by its key in results.json; again for others.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A trial of the command: two seeds, 400 slots.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of results.json; what is in it is not played again.")] = Path(
        "runs/study"
    ),
    page: Annotated[
        Path | None, typer.Option(help="Write this page, and its figures into results/ beside it.")
    ] = None,
) -> None:
    """Play learners in many worlds, cell by cell; stop it and start it again as you like."""
    size = QUICK if quick else Size(seeds, stall_seeds, slots)
    with errors_reported():
        groups = worlds(data)
        check_names(groups)
        if data is None:
            print_note(f"skipped the ratings: no --data; they are at {PAGE}")
        entries, missing_libraries = installed()
        for entry in missing_libraries:
            print_note(f"skipped {entry.name}: {entry.needs} is not installed (extra peers)")
        if learner:
            entries = chosen(entries, learner)
        cells = [cell for cell in cells_of(groups, size, entries) if only in cell.world.name]
        out.mkdir(parents=True, exist_ok=True)
        path = out / "results.json"
        known = load(path)
        missing = batches([cell for cell in cells if cell.key not in known])
        with progress_bar("study", len(missing)) as advance:
            for _ in run(cells, path):
                advance()
    if page is not None:
        write(load(path), page)
    console.print(f"{len(cells)} cells", highlight=False)
    print_written(out if page is None else page)


def chosen(entries: Sequence[Entry], keys: Sequence[str]) -> list[Entry]:
    """Return the learners with these keys, in their order.

    Raises
    ------
    LoadTestError
        naming a key that no learner has, and those there are.
    """
    by_key = {entry.key: entry for entry in entries}
    if unknown := [key for key in keys if key not in by_key]:
        raise LoadTestError(f"no learner {unknown[0]!r} in the study; there are {', '.join(by_key)}")
    return [by_key[key] for key in keys]
