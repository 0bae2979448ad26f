"""What the demo shows in the terminal: the click rates side by side, and what goes on in the shop."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from .shop import RECENT_SECONDS, Shop

BARS = "▁▂▃▄▅▆▇█"
HIGHEST = 0.25
"""Click rate of the highest bar."""
LONGEST = 56


class Picture:
    """The state of a shop, and how its click rates went, one bar for each call of ``note``.

    Parameters
    ----------
    shop : which is shown
    url : of the service, with the dashboard
    """

    def __init__(self, shop: Shop, url: str) -> None:
        self._shop, self._url = shop, url
        self._learned: deque[float] = deque(maxlen=LONGEST)
        self._chance: deque[float] = deque(maxlen=LONGEST)

    def note(self) -> None:
        """Add a bar."""
        self._learned.append(self._shop.learner.rate())
        self._chance.append(self._shop.control.rate())

    def shown(self, at: float) -> Lines:
        """Return the picture."""
        shop = self._shop
        table = Table(box=None, pad_edge=False, show_header=False)
        for name, group, bars in (
            ("learner", shop.learner, self._learned),
            ("control", shop.control, self._chance),
        ):
            table.add_row(Text(name), Text(f"{group.rate():6.1%} click"), Text(sparkline(bars)))
        share = f"the learner shows it to {shop.learner.share_of_best():.0%}"
        change = "the best item changes: it" if shop.just_changed(at) else "the best item"
        return Lines(
            Text(f"{self._url}  ({at:.0f} s, {visitors(shop):,} visitors; Ctrl-C ends it)"),
            table,
            Text(f"{change} is {shop.best(at)}: {share}"),
            Text(f"sold out: {', '.join(shop.sold_out(at))}"),
        )


def line(shop: Shop, at: float) -> str:
    """Return the state of the shop as one line, where there is no terminal.

    Parameters
    ----------
    shop : as it is now
    at : seconds since the start
    """
    learner, control = shop.learner, shop.control
    change = "the best item changes, " if shop.just_changed(at) else ""
    return (
        f"{at:4.0f} s  learner {learner.rate():5.1%}  control {control.rate():5.1%}  "
        f"{change}best item {shop.best(at)}, shown to {learner.share_of_best():.0%}"
    )


def summary(shop: Shop) -> str:
    """Return what came of it, in a sentence."""
    learner, control = shop.learner.total_rate(), shop.control.total_rate()
    return (
        f"{visitors(shop):,} visitors: {learner:.1%} clicked where the service chose, {control:.1%} where chance "
        f"did (rates above: of the last {RECENT_SECONDS:.0f} s)"
    )


def visitors(shop: Shop) -> int:
    """Return how many came."""
    return shop.learner.total.visitors + shop.control.total.visitors


def sparkline(values: Sequence[float] | deque[float]) -> str:
    """Return bars of up to eight heights.

    Parameters
    ----------
    values : click rates; from ``HIGHEST`` on they have the highest bar
    """
    return "".join(BARS[min(int(value / HIGHEST * len(BARS)), len(BARS) - 1)] for value in values)
