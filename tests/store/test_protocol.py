"""The commit protocol against its specification, and that the check would notice a store that breaks it."""

from __future__ import annotations

import copy

import pytest

from service.store.base import Commit, Committed, Conflict, Known, Outcome, Store
from service.store.memory import MemoryStore
from tests.support.explorer import ONLY_REPORT, Delivery, explored
from tests.support.protocol_model import ANONYMOUS, REPORT, Fate, Writer, broken_promises, folded

HISTORIES = 60


@pytest.mark.slow
async def test_each_event_counts_once_whatever_is_lost_or_late(store: Store) -> None:
    """60 random histories of 120 steps (seeds 0-59)."""
    for seed in range(HISTORIES):
        assert await broken_promises(store, f"s{seed}", seed) == []


class NoVersionCheck(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        present = await self.load(commit.session_id)
        assert present is not None
        return await super().commit(commit._replace(expected=present.version))


class ComparesOnlyTheNewestVersion(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        outcome = await super().commit(commit)
        moved_on = isinstance(outcome, Committed) and outcome.snapshot is not None
        return Conflict(outcome.snapshot) if moved_on else outcome


class KnowsNoWriters(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        for writer in self._sessions[commit.session_id].writers:
            self._sessions[commit.session_id].writers[writer] = ""
        return await super().commit(commit)


class RecordsEventsBeforeTheState(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        outcome = await super().commit(commit)
        if isinstance(outcome, Conflict):
            seen = {b"e" + event: b"" for event in commit.event_ids}
            self._remember(self._sessions[commit.session_id], seen)
        return outcome


class ForgetsEvents(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        outcome = await super().commit(commit)
        return await super().commit(commit._replace(event_ids=())) if isinstance(outcome, Known) else outcome


class RetriesWithoutLooking(Writer):
    """After a lost reply it begins anew on what is stored, as if nothing of it could be there."""

    async def step(self, fate: Fate, late: list[Commit]) -> None:
        await super().step(fate, late)
        if fate != "fine":
            self._asked = None
            self._cache = await self._store.load(self._session_id)


class RefusesOnAStaleCache(Writer):
    """Surplus is told by the cache alone."""

    async def step(self, fate: Fate, late: list[Commit]) -> None:
        if not self._asked and not self._asked_for:
            _, surplus = folded(self._cache.state, self.waiting)
            self.refused |= set(surplus)
            self.waiting = [event for event in self.waiting if event not in surplus]
        await super().step(fate, late)


FAULTY_STORES = [
    NoVersionCheck,
    ComparesOnlyTheNewestVersion,
    KnowsNoWriters,
    RecordsEventsBeforeTheState,
    ForgetsEvents,
]
FAULTY_WRITERS = [RetriesWithoutLooking, RefusesOnAStaleCache]
ANSWERED = [(0, ANONYMOUS), (1, ONLY_REPORT), (0, 1)]
"""An act, its report at the other writer, and an event beside them."""
SURPLUS = [(0, ANONYMOUS), (1, REPORT), (0, REPORT + 1)]
"""An act, and more reports than it takes."""
SENT_TWICE = [(0, 1), (1, 1), (0, ANONYMOUS), (1, ANONYMOUS + 1)]
"""An event that goes to both writers, and one to each."""
SCENARIOS = [ANSWERED, SURPLUS, SENT_TWICE]


@pytest.mark.parametrize("deliveries", SCENARIOS)
@pytest.mark.slow
async def test_no_interleaving_of_two_writers_and_two_faults_breaks_a_promise(deliveries: list[Delivery]) -> None:
    worlds, broken = await explored(deliveries, 2, MemoryStore())

    assert broken is None
    assert worlds > 500


@pytest.mark.parametrize("faulty", [*FAULTY_STORES, *FAULTY_WRITERS])
@pytest.mark.slow
async def test_some_interleaving_shows_each_fault_of_the_protocol(faulty: type[MemoryStore | Writer]) -> None:
    store = faulty() if faulty in FAULTY_STORES else MemoryStore()
    writers = faulty if faulty in FAULTY_WRITERS else Writer
    found = [(await explored(each, 2, copy.deepcopy(store), writers))[1] for each in SCENARIOS]

    assert any(found)


@pytest.mark.parametrize("faulty", FAULTY_STORES)
async def test_a_store_that_breaks_the_protocol_is_caught(faulty: type[MemoryStore]) -> None:
    store = faulty()
    histories = [await broken_promises(store, f"s{seed}", seed) for seed in range(HISTORIES)]

    assert any(histories)
