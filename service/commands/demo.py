"""``demo``: a service with simulated visitors of a shop, to be looked at in the terminal and in a browser."""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rich.console import Group as Lines
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..client import Action, Bandits
from ..client.calls import event_of
from .run import Command, CommandError, Screen
from .verdict import difference, sentences

# -- A simulated shop: what its visitors are shown, and which of them click, later.
#
# Time is that of the simulation: it reads no clock, and with a seed the same visitors come.

ITEMS = (
    *("backpack", "blanket", "bottle", "camera", "candle", "chess set", "cup", "guitar", "hat", "kettle"),
    *("lamp", "mirror", "puzzle", "radio", "scarf", "skateboard", "socks", "teapot", "tent", "umbrella"),
)
BEST_RATE, LOWEST_RATE, OTHER_RATE = 0.25, 0.02, 0.07
"""Share of visitors who click on the best item; the others' lie between the other two."""
REIGN_SECONDS = 60.0
"""How long an item is the best one: long enough to learn it anew and to profit from it."""
NEWS_SECONDS = 6.0
"""How long it is said that the best item has changed: longer than from line to line."""
SOLD_OUT, SOLD_OUT_SECONDS = 3, 8.0
"""How many items are sold out at a time, and for how long."""
WINDOW_SECONDS = 6.0
"""Within which a click comes, or counts as none."""
CLICK_SECONDS = 1.5
"""Mean time between seeing an item and clicking on it."""
SESSION = "demo"
CONTROL_SHARE = 0.3
"""Share of visitors who are shown items by chance, to compare with: a large one, so that the verdict comes soon."""
RECENT_SECONDS = 10.0


class Moment(NamedTuple):
    """What one group saw and did within one step, which began ``at`` seconds after the start."""

    at: float
    best: str
    visitors: int
    saw_best: int
    clicks: int
    """Of these visitors, whenever they come."""


@dataclass
class Group:
    """Visitors for whom the learner chose, or chance.

    Attributes
    ----------
    visitors, clicks : since the start
    moments : of the last ``RECENT_SECONDS``
    """

    visitors: int = 0
    clicks: int = 0
    moments: deque[Moment] = field(default_factory=deque)

    def note(self, moment: Moment) -> None:
        """Count a moment, and forget those that are no longer recent."""
        while self.moments and self.moments[0].at < moment.at - RECENT_SECONDS:
            self.moments.popleft()
        self.moments.append(moment)
        self.visitors += moment.visitors
        self.clicks += moment.clicks

    def rate(self) -> float:
        """Return the share of the recent visitors who clicked, or will."""
        return _share(sum(each.clicks for each in self.moments), sum(each.visitors for each in self.moments))

    def share_of_best(self) -> float:
        """Return the share of the recent visitors who saw the best item, since it is the best one."""
        since = [each for each in self.moments if each.best == self.moments[-1].best]
        return _share(sum(each.saw_best for each in since), sum(each.visitors for each in since))

    def total_rate(self) -> float:
        """Return the share of all visitors who clicked, or will."""
        return _share(self.clicks, self.visitors)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


class Shop:
    """The shop with its two groups of visitors: for one a learner chooses, the other is shown items by chance.

    Its methods take the time ``at`` in seconds since the start. Without a seed other visitors come each time.
    """

    def __init__(self, bandits: Bandits, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - simulated visitors
        self._number = itertools.count()
        options: dict[str, Any] = {} if seed is None else {"seed": seed}
        self.session = bandits.sessions.create(
            SESSION,
            learner={"kind": "multiscale_tsallis", "arms": ITEMS},
            reward_range=[0, 1],
            expiry={"after_seconds": WINDOW_SECONDS, "default_reward": 0},
            control={"share": CONTROL_SHARE},
            **options,
        )
        self.view = self.session.view()
        self.groups = {"learner": Group(), "control": Group()}
        self._waiting: list[tuple[float, int, Action]] = []
        """A heap of clicks that are to come: when, a number that no other has, and on what."""
        self._others = {item: self._random.uniform(LOWEST_RATE, OTHER_RATE) for item in ITEMS}
        self._reigns = self._random.sample(ITEMS, len(ITEMS))

    def best(self, at: float) -> str:
        """Return the item that is clicked most."""
        return self._reigns[int(at // REIGN_SECONDS) % len(ITEMS)]

    def just_changed(self, at: float) -> bool:
        """Return whether the best item changed less than ``NEWS_SECONDS`` ago."""
        return at >= REIGN_SECONDS and at % REIGN_SECONDS < NEWS_SECONDS

    def sold_out(self, at: float) -> Sequence[str]:
        """Return the items that can't be shown; the best one always can."""
        gone = random.Random(at // SOLD_OUT_SECONDS).sample(ITEMS, SOLD_OUT)  # noqa: S311 - of a shop that is none
        return [item for item in gone if item != self.best(at)]

    def step(self, at: float, visitors: int) -> None:
        """Let visitors come, report the clicks that are due, and look at the verdict."""
        best, counts = self.best(at), {name: [0, 0, 0] for name in self.groups}
        for action in self.session.acts(visitors, exclude=self.sold_out(at)):
            is_best = action.label == best
            clicks = self._random.random() < (BEST_RATE if is_best else self._others[str(action.label)])
            seen = counts[str(action.group)]
            seen[:] = seen[0] + 1, seen[1] + is_best, seen[2] + clicks
            if clicks:
                due = at + min(self._random.expovariate(1 / CLICK_SECONDS), 0.9 * WINDOW_SECONDS)
                heapq.heappush(self._waiting, (due, next(self._number), action))
        for name, (count, saw_best, clicked) in counts.items():
            self.groups[name].note(Moment(at, best, count, saw_best, clicked))
        events = []
        while self._waiting and self._waiting[0][0] <= at:
            events.append(event_of(heapq.heappop(self._waiting)[-1], {"reward": 1}))
        self.session.feedbacks(events, on_surplus="skip")
        self.view = self.session.view()


# -- What the demo shows in the terminal: the click rates side by side, and what goes on in the shop.

BARS = "▁▂▃▄▅▆▇█"
HIGHEST = 0.25
"""Click rate of the highest bar."""
LONGEST = 56


def _picture(shop: Shop, url: str, at: float, past: Collection[Sequence[float]]) -> Lines:
    """Return the state of the shop, and how the click rates of learner and control went, as bars."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for place, (name, group) in enumerate(shop.groups.items()):
        heights = (min(int(rates[place] / HIGHEST * len(BARS)), len(BARS) - 1) for rates in past)
        bars = "".join(BARS[height] for height in heights)
        table.add_row(Text(name), Text(f"{group.rate():6.1%} click"), Text(bars))
    share = f"the learner shows it to {shop.groups['learner'].share_of_best():.0%}"
    change = "the best item changes: it" if shop.just_changed(at) else "the best item"
    return Lines(
        Text(f"{url}  ({at:.0f} s, {visitors(shop):,} visitors; Ctrl-C ends it)"),
        table,
        Text(f"verdict: {verdict(shop)}"),
        Text(f"{change} is {shop.best(at)}: {share}"),
        Text(f"sold out: {', '.join(shop.sold_out(at))}"),
    )


def line(shop: Shop, at: float) -> str:
    """Return the state of the shop as one line, where there is no terminal."""
    learner, control = shop.groups.values()
    change = "the best item changes, " if shop.just_changed(at) else ""
    return (
        f"{at:4.0f} s  learner {learner.rate():5.1%}  control {control.rate():5.1%}  "
        f"{change}best item {shop.best(at)}, shown to {learner.share_of_best():.0%}; {verdict(shop)}"
    )


def verdict(shop: Shop) -> str:
    """Return what is known of the difference between the groups."""
    return difference(shop.view.verdict, shop.view) if shop.view.verdict else "none yet"


def summary(shop: Shop) -> str:
    """Return what came of it: the verdict, which counts clicks of all visitors so far."""
    return f"{visitors(shop):,} visitors. {sentences(shop.view.groups or {}, shop.view.verdict, shop.view)}"


def visitors(shop: Shop) -> int:
    """Return how many came."""
    return sum(group.visitors for group in shop.groups.values())


# -- The service of the demo: a process of its own on a free port, with its sessions in memory.

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_LISTENING = re.compile(r"listening on (http://[^\s,]+)")
PACKAGE = (__package__ or "").partition(".")[0]


@contextmanager
def running_service(port: int) -> Iterator[str]:
    """Start a service, on a free port for 0, yield its address, and stop it.

    Raises
    ------
    CommandError
        where it does not start.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
    flags = ("--store-url", "memory://", "--port", str(port), "--log-sample", "0")
    command = [sys.executable, "-m", PACKAGE, *flags]
    # What it logs goes to a file: a pipe that nobody reads would fill.
    with (
        tempfile.NamedTemporaryFile() as log,
        subprocess.Popen(command, stderr=log, env=kept) as process,  # noqa: S603 - ourselves
    ):
        try:
            until, found = time.monotonic() + START_SECONDS, None
            while found is None:
                ended = process.poll() is not None or time.monotonic() > until
                lines = Path(log.name).read_text().splitlines()
                found = _LISTENING.search("\n".join(lines))
                if found is None and ended:
                    raise CommandError(f"the service did not start: {' '.join(lines[-3:]) or 'it said nothing'}")
                time.sleep(0.02)
            yield found[1]
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


# -- The command line.

STEP_SECONDS = 0.25
BAR_SECONDS, LINE_SECONDS = 1.0, 5.0
"""Between two bars of the picture, and between two lines where there is no terminal."""
CALL_SECONDS = 30.0
Clock: TypeAlias = Callable[[], float]
Sleep: TypeAlias = Callable[[float], None]
Show: TypeAlias = Callable[[float], None]
"""Shows the shop as it is so many seconds after the start."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=180.0, help="how long it runs (180; 0: until Ctrl-C)")
    parser.add_argument("--visitors", type=int, default=200, metavar="N", help="visitors a second (200)")
    parser.add_argument("--port", type=int, default=0, help="of the service (a free one)")
    parser.add_argument("--seed", type=int, help="the same visitors each time")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def _run(options: argparse.Namespace, screen: Screen) -> int:
    """Run the shop until its time is over, or Ctrl-C."""
    screen.say("starting a service with its sessions in memory ...")
    with running_service(options.port) as url, Bandits(url, api_key="", timeout=CALL_SECONDS) as bandits:
        shop = Shop(bandits, options.seed)
        page = f"{url}/#/sessions/{SESSION}"
        screen.say(f"dashboard: {page}")
        # A browser that opens no window, but within this terminal, would stop the demo.
        has_browser = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if not options.no_browser and has_browser:
            webbrowser.open(page)
        with suppress(KeyboardInterrupt), display(shop, screen, url) as show:
            play(shop, options.visitors, options.seconds or math.inf, show)
        screen.tell(document(shop, url), summary(shop))
    return 0


def play(
    shop: Shop, visitors: int, seconds: float, show: Show, clock: Clock = time.monotonic, sleep: Sleep = time.sleep
) -> None:
    """Let so many visitors a second come in steps, and show what happens after each."""
    begun = clock()
    while (at := clock() - begun) < seconds:
        shop.step(at, max(1, round(visitors * STEP_SECONDS)))
        show(at)
        sleep(max(0.0, at + STEP_SECONDS - (clock() - begun)))


@contextmanager
def display(shop: Shop, screen: Screen, url: str) -> Iterator[Show]:
    """Yield what shows the shop: a picture on a terminal, else a line now and then, and nothing beside JSON."""
    if screen.as_json:
        yield lambda _: None
    elif not screen.console.is_terminal:
        yield _every(LINE_SECONDS, lambda at: screen.say(line(shop, at)))
    else:
        past: deque[Sequence[float]] = deque(maxlen=LONGEST)
        note = _every(BAR_SECONDS, lambda _: past.append([group.rate() for group in shop.groups.values()]))
        with Live(console=screen.console, auto_refresh=False) as live:

            def show(at: float) -> None:
                note(at)
                live.update(_picture(shop, url, at, past), refresh=True)

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
    """Return what came of it, as JSON; rates and shares are numbers between 0 and 1."""
    return {
        "url": url,
        "visitors": visitors(shop),
        "click_rate": {name: round(group.total_rate(), 4) for name, group in shop.groups.items()},
        "verdict": shop.view.verdict,
        "share_of_best_at_the_end": {name: round(group.share_of_best(), 4) for name, group in shop.groups.items()},
    }


DEMO = Command(
    "Start a service in memory with simulated visitors of a shop of 20 items: clicks that come late, items that "
    "are sold out, a best item that changes. A control group sees items by chance, and a verdict says how much "
    "better the learner does.",
    _add_arguments,
    _run,
)
