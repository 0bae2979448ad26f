"""The command line of ``demo``."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from rich.live import Live

from ...client import Bandits
from ..screen import Screen
from . import picture
from .own_service import running_service
from .picture import Picture
from .shop import CONTROL, LEARNER, Shop

DESCRIPTION = (
    "Start a service in memory with simulated visitors of a shop of 20 items: clicks that come late, items that "
    "are sold out, a best item that changes. Its click rate is shown beside that of visitors who see items by "
    "chance."
)
STEP_SECONDS = 0.25
BAR_SECONDS, LINE_SECONDS = 1.0, 5.0
"""Between two bars of the picture, and between two lines where there is no terminal."""
CALL_SECONDS = 30.0
Show: TypeAlias = Callable[[float], None]
"""Shows the shop as it is so many seconds after the start."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("--seconds", type=float, help="how long it runs (until Ctrl-C)")
    parser.add_argument("--visitors", type=int, default=200, metavar="N", help="visitors a second (200)")
    parser.add_argument("--port", type=int, default=0, help="of the service (a free one)")
    parser.add_argument("--seed", type=int, help="the same visitors each time")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(options: argparse.Namespace, screen: Screen) -> int:
    """Run the shop until its time is over, or Ctrl-C.

    Parameters
    ----------
    options : the flags of ``add_arguments``, parsed
    screen : where the shop is shown

    Returns
    -------
    The exit code, 0.
    """
    screen.say("starting a service with its sessions in memory ...")
    with running_service(options.port) as url, Bandits(url, api_key="", timeout=CALL_SECONDS) as bandits:
        shop = Shop(bandits, options.seed)
        screen.say(f"dashboard: {url}/  sessions: {LEARNER}, {CONTROL}")
        if not options.no_browser and _has_browser():
            webbrowser.open(url)
        with suppress(KeyboardInterrupt), display(shop, screen, url) as show:
            play(shop, options.visitors, options.seconds or math.inf, show)
        if screen.as_json:
            screen.json(document(shop, url))
        screen.say(picture.summary(shop))
    return 0


def _has_browser() -> bool:
    """Return whether a browser would open a window: one within this terminal would stop the demo."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def play(
    shop: Shop,
    visitors: int,
    seconds: float,
    show: Show,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Let visitors come in steps, and show what happens.

    Parameters
    ----------
    shop : which the visitors come to
    visitors : each second
    seconds : how long it goes on; infinite for ever
    show : called after each step with the seconds since the start
    clock, sleep : read time, and let it pass, in seconds
    """
    begun = clock()
    while (at := clock() - begun) < seconds:
        shop.step(at, max(2, round(visitors * STEP_SECONDS)))
        show(at)
        sleep(max(0.0, at + STEP_SECONDS - (clock() - begun)))


@contextmanager
def display(shop: Shop, screen: Screen, url: str) -> Iterator[Show]:
    """Yield what shows the shop: a picture on a terminal, else a line now and then, and nothing beside JSON.

    Parameters
    ----------
    shop : which is shown
    screen : where it is shown
    url : of the service, with the dashboard
    """
    if screen.as_json:
        yield lambda _: None
    elif not screen.console.is_terminal:
        yield _every(LINE_SECONDS, lambda at: screen.say(picture.line(shop, at)))
    else:
        drawn = Picture(shop, url)
        note = _every(BAR_SECONDS, lambda _: drawn.note())
        with Live(console=screen.console, auto_refresh=False) as live:

            def show(at: float) -> None:
                note(at)
                live.update(drawn.shown(at), refresh=True)

            yield show


def _every(seconds: float, do: Show) -> Show:
    last = 0.0

    def show(at: float) -> None:
        nonlocal last
        if at - last >= seconds:
            last = at
            do(at)

    return show


def document(shop: Shop, url: str) -> dict[str, object]:
    """Return what came of it, as JSON.

    Parameters
    ----------
    shop : after its last visitor
    url : of the service

    Returns
    -------
    Click rates and shares as numbers between 0 and 1.
    """
    groups = {"learner": shop.learner, "control": shop.control}
    return {
        "url": url,
        "visitors": picture.visitors(shop),
        "click_rate": {name: round(group.total_rate(), 4) for name, group in groups.items()},
        "share_of_best_at_the_end": {name: round(group.share_of_best(), 4) for name, group in groups.items()},
    }
