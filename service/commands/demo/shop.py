"""A simulated shop: what its visitors are shown, and which of them click, later.

Time is that of the simulation: it reads no clock, and with a seed the same visitors come.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...client import Action, Bandits, Session
from ...client.steps import SessionOptions

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
LEARNER, CONTROL = "demo-learner", "demo-control"
CONTROL_SHARE = 0.2
"""Share of visitors who are shown items by chance, to compare with."""
RECENT_SECONDS = 10.0


@dataclass
class Moment:
    """What one group saw and did within one step, which began ``at`` seconds after the start."""

    at: float
    best: str = ""
    visitors: int = 0
    clicks: int = 0
    saw_best: int = 0


@dataclass
class Group:
    """Visitors of one session.

    Attributes
    ----------
    moments : of the last ``RECENT_SECONDS``; clicks belong to the moment of the visit
    """

    session: Session
    total: Moment = field(default_factory=lambda: Moment(0.0))
    moments: deque[Moment] = field(default_factory=deque)

    def begin(self, at: float, best: str) -> Moment:
        """Begin a step with this best item, and forget what is no longer recent.

        Parameters
        ----------
        at : seconds since the start
        best : label of the item that is clicked most in this step

        Returns
        -------
        The step's counts, for the visits of the step to be counted in.
        """
        while self.moments and self.moments[0].at < at - RECENT_SECONDS:
            self.moments.popleft()
        self.moments.append(Moment(at, best))
        return self.moments[-1]

    def rate(self) -> float:
        """Return the share of the recent visitors who clicked, or will."""
        return _share(sum(each.clicks for each in self.moments), sum(each.visitors for each in self.moments))

    def share_of_best(self) -> float:
        """Return the share of the recent visitors who saw the best item, since it is the best one."""
        since = [each for each in self.moments if each.best == self.moments[-1].best]
        return _share(sum(each.saw_best for each in since), sum(each.visitors for each in since))

    def total_rate(self) -> float:
        """Return the share of all visitors who clicked, or will."""
        return _share(self.total.clicks, self.total.visitors)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _options(kind: str, seed: int | None) -> SessionOptions:
    options: SessionOptions = {
        "learner": {"kind": kind, "arms": ITEMS},
        "reward_range": [0, 1],
        "expiry": {"after_seconds": WINDOW_SECONDS, "default_reward": 0},
    }
    if seed is not None:
        options["seed"] = seed
    return options


class Shop:
    """The shop with its two groups of visitors: one learns, the other is shown items by chance.

    Its methods take the time ``at`` in seconds since the start.

    Parameters
    ----------
    bandits : client of the service, in which two sessions are created
    seed : of visitors and sessions; None for others each time
    """

    def __init__(self, bandits: Bandits, seed: int | None = None) -> None:
        self._random = random.Random(seed)  # noqa: S311 - simulated visitors
        self._clicks: list[tuple[float, int, Group, Action]] = []
        self._number = itertools.count()
        self.learner = Group(bandits.sessions.create(LEARNER, **_options("multiscale_tsallis", seed)))
        self.control = Group(bandits.sessions.create(CONTROL, **_options("fixed", seed)))
        self._others = {item: self._random.uniform(LOWEST_RATE, OTHER_RATE) for item in ITEMS}
        self._reigns: list[str] = []
        self._gaps: list[Sequence[str]] = []

    def best(self, at: float) -> str:
        """Return the item that is clicked most."""
        while len(self._reigns) <= at // REIGN_SECONDS:
            self._reigns.append(self._random.choice([item for item in ITEMS if item not in self._reigns[-1:]]))
        return self._reigns[int(at // REIGN_SECONDS)]

    def just_changed(self, at: float) -> bool:
        """Return whether the best item changed less than ``NEWS_SECONDS`` ago."""
        return at >= REIGN_SECONDS and at % REIGN_SECONDS < NEWS_SECONDS

    def sold_out(self, at: float) -> Sequence[str]:
        """Return the items that can't be shown; the best one always can."""
        while len(self._gaps) <= at // SOLD_OUT_SECONDS:
            self._gaps.append(self._random.sample(ITEMS, SOLD_OUT))
        return [item for item in self._gaps[int(at // SOLD_OUT_SECONDS)] if item != self.best(at)]

    def step(self, at: float, visitors: int) -> None:
        """Let visitors come, and report the clicks that are due.

        Parameters
        ----------
        at : seconds since the start
        visitors : of both groups, two or more
        """
        some = max(1, round(visitors * CONTROL_SHARE))
        for group, count in ((self.learner, visitors - some), (self.control, some)):
            self._visit(group, at, count)
        self._report(at)

    def _visit(self, group: Group, at: float, count: int) -> None:
        best = self.best(at)
        moment = group.begin(at, best)
        for action in group.session.acts(count, exclude=self.sold_out(at)):
            moment.visitors += 1
            moment.saw_best += action.label == best
            rate = BEST_RATE if action.label == best else self._others[str(action.label)]
            if self._random.random() < rate:
                moment.clicks += 1
                due = at + min(self._random.expovariate(1 / CLICK_SECONDS), 0.9 * WINDOW_SECONDS)
                heapq.heappush(self._clicks, (due, next(self._number), group, action))
        for name in ("visitors", "clicks", "saw_best"):
            setattr(group.total, name, getattr(group.total, name) + getattr(moment, name))

    def _report(self, at: float) -> None:
        events: dict[str, list[Mapping[str, object]]] = {}
        sessions = {group.session.session_id: group.session for group in (self.learner, self.control)}
        while self._clicks and self._clicks[0][0] <= at:
            _, _, group, action = heapq.heappop(self._clicks)
            event = {"label": action.label, "reward": 1, "event_id": action.event_id}
            events.setdefault(group.session.session_id, []).append(event)
        for name, due in events.items():
            sessions[name].feedbacks(due, on_surplus="skip")
