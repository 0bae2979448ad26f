"""A model of a session that knows every decision by itself: what must be outstanding, by arm, after each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tests.support.machines import NAMES

BUCKETS = 64
WINDOW = float(BUCKETS)
"""A bucket is a second."""


class Model:
    """Every decision, by arm, oldest first, as slot and bucket of its act."""

    def __init__(self, *, by_slot: bool) -> None:
        self.window: float | None = WINDOW
        self.by_slot = by_slot
        self.open: dict[int, list[tuple[int, int]]] = {}
        self.ended = {what: Counter[int]() for what in ("feedbacks", "expired", "removed", "voided")}
        self.acts = Counter[int]()
        self.labels = dict(zip(NAMES, range(3), strict=True))
        self.paused: set[str] = set()
        self.arms = 3

    def pass_time(self, now: float) -> None:
        """Give up what has had its window and a bucket."""
        if self.window is None:
            return
        for arm, acts in self.open.items():
            kept = [act for act in acts if (act[1] + 1 + BUCKETS) * self.width > now]
            self.ended["expired"][arm] += len(acts) - len(kept)
            self.open[arm] = kept

    def act(self, arm: int, slot: int, now: float) -> None:
        self.acts[arm] += 1
        bucket = 0 if self.window is None else int(now // self.width)
        self.open.setdefault(arm, []).append((slot, bucket))

    @property
    def width(self) -> float:
        """Seconds of a bucket."""
        assert self.window is not None
        return self.window / BUCKETS

    def change_window(self, window: float | None, now: float) -> None:
        """Let open decisions have a window from their act on, or from now where they had none."""
        before, self.window = self.window, window
        if window is None or before == window:
            return
        for arm, acts in self.open.items():
            ends = (now if before is None else (bucket + 1) * before / BUCKETS for _, bucket in acts)
            moved = (int(min(end, now) // self.width) for end in ends)
            self.open[arm] = [(slot, bucket) for (slot, _), bucket in zip(acts, moved, strict=True)]
        self.pass_time(now)

    def outcome(self, arm: int, slot: int, *, is_void: bool) -> str:
        """What becomes of an event with a new id."""
        if arm not in self.labels.values():
            return "removed"
        return "surplus" if self.place(arm, slot) is None else "voided" if is_void else "applied"

    def place(self, arm: int, slot: int) -> int | None:
        """Which of the arm's decisions the event settles."""
        acts = self.open.get(arm, [])
        places = [place for place, act in enumerate(acts) if act[0] == slot or not self.by_slot]
        return places[0] if places else None

    def settle(self, arm: int, slot: int, what: str) -> None:
        place = self.place(arm, slot)
        assert place is not None
        del self.open[arm][place]
        self.ended[what][arm] += 1

    def remove(self, labels: Iterable[str]) -> None:
        for label in set(labels) & self.labels.keys():
            arm = self.labels.pop(label)
            self.ended["removed"][arm] += len(self.open.pop(arm, []))
            self.paused.discard(label)

    def add(self, labels: Iterable[str]) -> None:
        for label in dict.fromkeys(labels):
            if label not in self.labels:
                self.labels[label] = self.arms
                self.arms += 1

    def pause(self, resume: Iterable[str], pause: Iterable[str]) -> None:
        self.paused = (self.paused - set(resume)) | (set(pause) & self.labels.keys())

    @property
    def drawable(self) -> set[str]:
        return self.labels.keys() - self.paused
