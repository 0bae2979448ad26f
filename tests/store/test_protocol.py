"""The commit protocol against its specification, and that the check would notice a store that breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.store.base import Commit, Committed, Conflict, Known, Outcome, Store
from service.store.memory import MemoryStore
from tests.store.protocol import broken_promises

HISTORIES = 60


async def test_each_event_counts_once_whatever_is_lost_or_late(store: Store) -> None:
    """60 random histories of 120 steps (seeds 0-59)."""
    for seed in range(HISTORIES):
        assert await broken_promises(store, f"s{seed}", seed) == []


class NoVersionCheck(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        present = await self.load(commit.session_id)
        assert present is not None
        return await super().commit(replace(commit, expected=present.version))


class ComparesOnlyTheNewestVersion(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        outcome = await super().commit(commit)
        moved_on = isinstance(outcome, Committed) and outcome.snapshot is not None
        return Conflict(outcome.snapshot, None) if moved_on else outcome


class KnowsNoWriters(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        for writer in self._sessions[commit.session_id].writers:
            self._sessions[commit.session_id].writers[writer] = ""
        return await super().commit(commit)


class RecordsEventsBeforeTheState(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        outcome = await super().commit(commit)
        if isinstance(outcome, Conflict):
            seen = {b"e" + event: b"" for event in commit.events}
            self._remember(self._sessions[commit.session_id], seen)
        return outcome


class ForgetsEvents(MemoryStore):
    async def commit(self, commit: Commit) -> Outcome:
        outcome = await super().commit(commit)
        return await super().commit(replace(commit, events=())) if isinstance(outcome, Known) else outcome


FAULTY = [NoVersionCheck, ComparesOnlyTheNewestVersion, KnowsNoWriters, RecordsEventsBeforeTheState, ForgetsEvents]


@pytest.mark.parametrize("faulty", FAULTY)
async def test_a_store_that_breaks_the_protocol_is_caught(faulty: type[MemoryStore]) -> None:
    store = faulty()
    histories = [await broken_promises(store, f"s{seed}", seed) for seed in range(HISTORIES)]

    assert any(histories)
