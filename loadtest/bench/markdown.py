"""Numbers and tables as the page of figures holds them, and the page with a section written anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def number(value: float) -> str:
    """Return three digits, or all before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def spread_text(median: float, least: float, most: float) -> str:
    """Return median and extremes."""
    return f"{number(median)} ({number(least)} to {number(most)})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table.

    Parameters
    ----------
    head : names of the columns
    rows : cells, as many in each as there are columns
    """
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def page_with(page: str, marks: tuple[str, str], section: str) -> str:
    """Return a page with another section between its marks.

    Parameters
    ----------
    page : its text, which has both marks
    marks : lines before and behind the section
    section : its text
    """
    begin, end = marks
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{section}\n\n{end}{rest.partition(end)[2]}"
