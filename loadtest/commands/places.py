"""``places``: what a session learns of a page whose places matter more than its items."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loadtest.commands.output import console, errors_reported, print_written
from loadtest.errors import LoadTestError
from loadtest.study.places import SLOTS, table

BEGIN, END = "<!-- places: written by python -m loadtest places -->", "<!-- places: end -->"


def places(
    seeds: Annotated[int, typer.Option(min=2, help="Number of runs.")] = 20,
    slots: Annotated[int, typer.Option(min=4, help="Pages shown in a run.")] = SLOTS,
    page: Annotated[
        Path | None, typer.Option(help="Put the table between its two comments in this Markdown file.")
    ] = None,
) -> None:
    """Compare one session, shuffled items, and one session for each place, by simulation."""
    with errors_reported():
        text = table(seeds, slots)
        console.print(text, highlight=False, markup=False, soft_wrap=True)
        if page is not None:
            page.write_text(replaced(page.read_text(encoding="utf-8"), text), encoding="utf-8")
            print_written(page)


def replaced(text: str, block: str) -> str:
    """Return a page with another block between the two comments.

    Raises
    ------
    LoadTestError
        where the page does not have both of them.
    """
    if BEGIN not in text or END not in text:
        raise LoadTestError(f"the page lacks {BEGIN} and {END}")
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{rest.partition(END)[2]}"
