"""All interleavings of two writers, their deliveries and a few faults, against the same specification."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from service.store.base import Commit, NewSession
from service.store.memory import MemoryStore
from tests.support.protocol_model import ANONYMOUS, REPORT, Fate, Writer

FAULTS: tuple[Fate, ...] = ("lost before", "lost after", "late")
ONLY_REPORT = 255
Delivery = tuple[int, int]
"""The number of a writer, and an event."""


class Move(NamedTuple):
    """What is next: ``deliver`` an event, a writer's ``step``, or a late copy ``arrive``s."""

    what: str
    which: int = 0
    fate: Fate = "fine"


@dataclass
class World:
    """One state of everything, with what is still to be delivered and how many faults may still happen."""

    store: MemoryStore
    writers: Sequence[Writer]
    deliveries: list[Delivery]
    faults: int
    late: list[Commit] = field(default_factory=list)
    owed: set[int] = field(default_factory=set)
    """A report, the only one, that came after an act was acknowledged: refusing it is wrong."""

    def moves(self) -> Iterator[Move]:
        if self.deliveries:
            yield Move("deliver")
        for which, writer in enumerate(self.writers):
            for fate in ("fine", *(FAULTS if self.faults else ())) if writer.busy else ():
                yield Move("step", which, fate)
        for which in range(len(self.late)):
            yield Move("arrive", which)

    async def after(self, move: Move) -> World:
        world = copy.deepcopy(self)
        if move.what == "deliver":
            world._deliver(*world.deliveries.pop(0))
        elif move.what == "arrive":
            await world.store.commit(world.late.pop(move.which))
        else:
            world.faults -= move.fate != "fine"
            await world.writers[move.which].step(move.fate, world.late)
        return world

    def _deliver(self, which: int, event: int) -> None:
        if event == ONLY_REPORT and any(writer.acknowledged for writer in self.writers):
            self.owed.add(event)
        self.writers[which].waiting.append(event)

    def broken(self, delivered: set[int]) -> str | None:
        """What goes against the specification here."""
        counts = Counter(self.store._sessions["s"].state)
        acknowledged = {event for writer in self.writers for event in writer.acknowledged}
        refused = {event for writer in self.writers for event in writer.refused}
        if any(times > 1 for times in counts.values()):
            return f"counted {sorted(counts.items())}"
        if 2 * sum(one >= REPORT for one in counts) > sum(one >= ANONYMOUS for one in counts):
            return f"took surplus: {sorted(counts)}"
        if acknowledged - counts.keys():
            return f"acknowledged {sorted(acknowledged)}, counted {sorted(counts)}"
        if refused & self.owed:
            return f"refused {sorted(refused)}"
        if next(self.moves(), None) is None and delivered != counts.keys() | refused:
            return f"counted {sorted(counts)}, refused {sorted(refused)}, delivered {sorted(delivered)}"
        return None

    def key(self) -> str:
        """Equal for equal worlds."""
        own = [{name: value for name, value in vars(one).items() if name != "_store"} for one in self.writers]
        return repr((self.store._sessions, own, self.deliveries, self.faults, self.late, self.owed))


async def explored(
    deliveries: Sequence[Delivery], faults: int, store: MemoryStore, writers: type[Writer] = Writer
) -> tuple[int, str | None]:
    """How many different worlds there are until, if ever, one breaks a promise, and which."""
    store._clock = int
    await store.create(NewSession("s", "0", b"", b""))
    start = await store.load("s")
    assert start is not None
    waiting = [World(store, [writers(store, "s", name, start) for name in "ab"], list(deliveries), faults)]
    seen = {waiting[0].key()}
    while waiting:
        world = waiting.pop()
        if (broken := world.broken({event for _, event in deliveries})) is not None:
            return len(seen), broken
        for move in world.moves():
            following = await world.after(move)
            if (key := following.key()) not in seen:
                seen.add(key)
                waiting.append(following)
    return len(seen), None
