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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..client import Action, Bandits
from ..client.calls import event_of
from .run import Command, CommandError, Screen
from .sessions import difference, sentences

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


def click_rate(moments: Iterable[Moment]) -> float:
    """Return the share of the visitors who clicked, or will."""
    return _share(sum(each.clicks for each in moments), sum(each.visitors for each in moments))


def share_of_best(moments: Sequence[Moment]) -> float:
    """Return the share of the visitors who saw the best item, since it is the best one."""
    since = [each for each in moments if each.best == moments[-1].best]
    return _share(sum(each.saw_best for each in since), sum(each.visitors for each in since))


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
        self.recent = {"learner": deque[Moment](), "control": deque[Moment]()}
        """By group what happened in the last ``RECENT_SECONDS``."""
        self._waiting: list[tuple[float, int, Action]] = []
        """A heap of clicks that are to come: when, a number that no other has, and on what."""
        self._others = {item: self._random.uniform(LOWEST_RATE, OTHER_RATE) for item in ITEMS}
        self._reigns = self._random.sample(ITEMS, len(ITEMS))

    def best(self, at: float) -> str:
        """Return the item that is clicked most."""
        return self._reigns[int(at // REIGN_SECONDS) % len(ITEMS)]

    def sold_out(self, at: float) -> Sequence[str]:
        """Return the items that can't be shown; the best one always can."""
        gone = random.Random(at // SOLD_OUT_SECONDS).sample(ITEMS, SOLD_OUT)  # noqa: S311 - of a shop that is none
        return [item for item in gone if item != self.best(at)]

    def step(self, at: float, visitors: int) -> None:
        """Let visitors come, report the clicks that are due, and look at the verdict."""
        best, counts = self.best(at), {name: [0, 0, 0] for name in self.recent}
        for action in self.session.acts(visitors, exclude=self.sold_out(at)):
            is_best = action.label == best
            clicks = self._random.random() < (BEST_RATE if is_best else self._others[str(action.label)])
            seen = counts[str(action.group)]
            seen[:] = seen[0] + 1, seen[1] + is_best, seen[2] + clicks
            if clicks:
                due = at + min(self._random.expovariate(1 / CLICK_SECONDS), 0.9 * WINDOW_SECONDS)
                heapq.heappush(self._waiting, (due, next(self._number), action))
        for name, moments in self.recent.items():
            moments.append(Moment(at, best, *counts[name]))
            while moments[0].at < at - RECENT_SECONDS:
                moments.popleft()
        events = []
        while self._waiting and self._waiting[0][0] <= at:
            events.append(event_of(heapq.heappop(self._waiting)[-1], {"reward": 1}))
        self.session.feedbacks(events, on_surplus="skip")
        self.view = self.session.view()


# -- What the demo says in the terminal.


def line(shop: Shop, at: float) -> str:
    """Return the state of the shop."""
    learner, control = shop.recent.values()
    verdict = difference(shop.view.verdict, shop.view) if shop.view.verdict else "no verdict yet"
    return (
        f"{at:4.0f} s  learner {click_rate(learner):5.1%}  control {click_rate(control):5.1%}  "
        f"best item {shop.best(at)}, shown to {share_of_best(learner):.0%}; {verdict}"
    )


def summary(shop: Shop) -> str:
    """Return what came of it: the verdict, which counts clicks of all visitors so far."""
    return f"{shop.view.slot:,} visitors. {sentences(shop.view.groups or {}, shop.view.verdict, shop.view)}"


def document(shop: Shop, url: str) -> dict[str, object]:
    """Return what came of it, as JSON; rates and shares are numbers between 0 and 1."""
    return {
        "url": url,
        "visitors": shop.view.slot,
        "click_rate": {name: group["mean_reward"] for name, group in (shop.view.groups or {}).items()},
        "verdict": shop.view.verdict,
        "share_of_best_at_the_end": {name: round(share_of_best(each), 4) for name, each in shop.recent.items()},
    }


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
LINE_SECONDS = 5.0
"""Between two lines."""
CALL_SECONDS = 30.0


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=180.0, help="how long it runs (180; 0: until Ctrl-C)")
    parser.add_argument("--visitors", type=int, default=200, metavar="N", help="visitors a second (200)")
    parser.add_argument("--port", type=int, default=0, help="of the service (a free one)")
    parser.add_argument("--seed", type=int, help="the same visitors each time")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def _run(options: argparse.Namespace, screen: Screen) -> int:
    """Start a service in memory with simulated visitors of a shop of 20 items.

    Clicks come late, items are sold out, and the best item changes. A control group sees items by chance, and a
    verdict says how much better the learner does.
    """
    screen.say("starting a service with its sessions in memory ...")
    with running_service(options.port) as url, Bandits(url, api_key="", timeout=CALL_SECONDS) as bandits:
        shop = Shop(bandits, options.seed)
        page = f"{url}/#/sessions/{SESSION}"
        screen.say(f"dashboard: {page}")
        # A browser that opens no window, but within this terminal, would stop the demo.
        has_browser = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        if not options.no_browser and has_browser:
            webbrowser.open(page)
        with suppress(KeyboardInterrupt):
            play(shop, options.visitors, options.seconds or math.inf, lambda at: screen.say(line(shop, at)))
        screen.tell(document(shop, url), summary(shop))
    return 0


def play(
    shop: Shop,
    visitors: int,
    seconds: float,
    show: Callable[[float], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Let so many visitors a second come in steps, and show what happens now and then."""
    begun, shown = clock(), -math.inf
    while (at := clock() - begun) < seconds:
        shop.step(at, max(1, round(visitors * STEP_SECONDS)))
        if at - shown >= LINE_SECONDS:
            show(shown := at)
        sleep(max(0.0, at + STEP_SECONDS - (clock() - begun)))


DEMO = Command(_add_arguments, _run)
