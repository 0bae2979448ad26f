"""Two writers on one session, every kind of lost reply, duplicate deliveries: a small model of the service.

An event is one byte. Those below ``ANONYMOUS`` carry an id and are delivered to either writer any number of times;
the others carry none and are delivered once. From ``REPORT`` on they answer one of the anonymous ones, and are
refused as surplus where none is left to answer. The specification is one sentence: each delivered event is in the
state once or was refused, and what was acknowledged is in it at that moment.
"""

import random
from collections import Counter
from typing import Literal

from service.store.base import Commit, Committed, Conflict, Known, NewSession, Snapshot, Store, Written
from tests.support.sessions import digest

ANONYMOUS, REPORT = 128, 250
Fate = Literal["fine", "lost before", "lost after", "late"]


class Writer:
    """One worker: it folds what it was given over its cache, and asks again until it knows."""

    def __init__(self, store: Store, session_id: str, name: str, cache: Snapshot) -> None:
        self._store, self._session_id, self._name, self._cache = store, session_id, name, cache
        self._attempts = 0
        self._asked: Commit | None = None
        self.waiting: list[int] = []
        self._asked_for: list[int] = []
        self._refused: list[int] = []
        self.acknowledged: set[int] = set()
        self.refused: set[int] = set()

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self._asked_for)

    async def step(self, fate: Fate, late: list[Commit]) -> None:
        """Send the commit in hand, or make one; what is lost is sent again in a later step."""
        commit = self._asked or self._made()
        if commit is None:
            return
        if fate == "late":
            late.append(commit)
        if fate in {"late", "lost before"}:
            return
        outcome = await self._store.commit(commit)
        if fate == "fine":
            self._learn(commit, outcome)

    def _made(self) -> Commit | None:
        if not self._asked_for:
            self._asked_for, self.waiting = list(dict.fromkeys(self.waiting)), []
        if not self._asked_for:
            return None
        self._attempts += 1
        accepted, self._refused = folded(self._cache.state, self._asked_for)
        named = [digest(event) for event in accepted if event < ANONYMOUS]
        state = self._cache.state + bytes(accepted)
        written = Written(f"{self._name}{self._attempts}", state) if accepted else None
        self._asked = Commit(self._session_id, self._name, self._cache.version, written, event_ids=named)
        return self._asked

    def _learn(self, commit: Commit, outcome: object) -> None:
        self._asked = None
        if isinstance(outcome, Committed):
            mine = self._cache
            if commit.written is not None:
                mine = mine._replace(version=commit.written.version, state=commit.written.state)
            self._cache = outcome.snapshot or mine
            self.acknowledged |= set(self._asked_for) - set(self._refused)
            self.refused |= set(self._refused)
            self._asked_for = []
        elif isinstance(outcome, Known):
            doubles = {event for event in self._asked_for if digest(event) in outcome.duplicates}
            self.acknowledged |= doubles
            self._asked_for = [event for event in self._asked_for if event not in doubles]
        else:
            assert isinstance(outcome, Conflict)
            self._cache = outcome.snapshot


def folded(state: bytes, events: list[int]) -> tuple[list[int], list[int]]:
    """The events that a state takes, and the surplus."""
    accepted: list[int] = []
    refused: list[int] = []
    for event in events:
        reports = [one >= REPORT for one in (*state, *accepted) if one >= ANONYMOUS]
        surplus = event >= REPORT and 2 * sum(reports) >= len(reports)
        (refused if surplus else accepted).append(event)
    return accepted, refused


async def broken_promises(store: Store, session_id: str, seed: int, steps: int = 60) -> list[str]:
    """Play one random history and tell what went against the specification."""
    chance = random.Random(seed)
    await store.create(NewSession(session_id, "0", b"", b""))
    start = await store.load(session_id)
    assert start is not None
    writers = [Writer(store, session_id, name, start) for name in ("a", "b")]
    late: list[Commit] = []
    delivered: set[int] = set()
    found: list[str] = []
    anonymous = iter(range(ANONYMOUS, REPORT))
    for step in range(steps * 2):
        if step < steps:
            event = chance.choice([chance.randrange(10), chance.randrange(10), next(anonymous)])
            chance.choice(writers).waiting.append(event)
            delivered.add(event)
        if late and chance.random() < 0.3:
            await store.commit(late.pop(chance.randrange(len(late))))
        fate = chance.choice(["fine", "fine", "lost before", "lost after", "late"])
        await chance.choice(writers).step(fate, late)
        found += await _unkept(store, session_id, writers)
    while any(writer.busy for writer in writers):
        for writer in writers:
            await writer.step("fine", late)
    for commit in late:
        await store.commit(commit)
    state = await _state(store, session_id)
    if state != dict.fromkeys(delivered, 1):
        found.append(f"seed {seed}: counted {sorted(state.items())}, delivered {sorted(delivered)}")
    return found


async def _unkept(store: Store, session_id: str, writers: list[Writer]) -> list[str]:
    state = await _state(store, session_id)
    known = (event for writer in writers for event in writer.acknowledged)
    return [f"{event} was acknowledged" for event in known if event not in state]


async def _state(store: Store, session_id: str) -> Counter[int]:
    return Counter((await store.load(session_id)).state)
