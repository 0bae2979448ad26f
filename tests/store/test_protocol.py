"""Commits of several writers: a model of their protocol, real ones, and the memory store by a clock of its own."""

import copy

import pytest

from service.store.base import Committed, Conflict, Known, NotFound, StoreOptions
from service.store.memory import MemoryStore
from tests.support.explorer import ONLY_REPORT, explored
from tests.support.protocol_model import ANONYMOUS, REPORT, Writer, broken_promises, folded
from tests.support.sessions import commit, digest, loaded, new_session

# -- The commit protocol against its specification, and that the check would notice a store that breaks it.

HISTORIES = 60


@pytest.mark.slow
async def test_each_event_counts_once_whatever_is_lost_or_late(store):
    """60 random histories of 120 steps (seeds 0-59)."""
    for seed in range(HISTORIES):
        assert await broken_promises(store, f"s{seed}", seed) == []


class NoVersionCheck(MemoryStore):
    async def commit(self, commit):
        present = await self.load(commit.session_id)
        return await super().commit(commit._replace(expected=present.version))


class ComparesOnlyTheNewestVersion(MemoryStore):
    async def commit(self, commit):
        outcome = await super().commit(commit)
        moved_on = isinstance(outcome, Committed) and outcome.snapshot is not None
        return Conflict(outcome.snapshot) if moved_on else outcome


class KnowsNoWriters(MemoryStore):
    async def commit(self, commit):
        for writer in self._sessions[commit.session_id].writers:
            self._sessions[commit.session_id].writers[writer] = ""
        return await super().commit(commit)


class RecordsEventsBeforeTheState(MemoryStore):
    async def commit(self, commit):
        outcome = await super().commit(commit)
        if isinstance(outcome, Conflict):
            seen = {b"e" + event: b"" for event in commit.event_ids}
            self._remember(self._sessions[commit.session_id], seen, self.now() + 60)
        return outcome


class ForgetsEvents(MemoryStore):
    async def commit(self, commit):
        outcome = await super().commit(commit)
        return await super().commit(commit._replace(event_ids=())) if isinstance(outcome, Known) else outcome


class RetriesWithoutLooking(Writer):
    """After a lost reply it begins anew on what is stored, as if nothing of it could be there."""

    async def step(self, fate, late):
        await super().step(fate, late)
        if fate != "fine":
            self._asked = None
            self._cache = await self._store.load(self._session_id)


class RefusesOnAStaleCache(Writer):
    """Surplus is told by the cache alone."""

    async def step(self, fate, late):
        if not self._asked and not self._asked_for:
            _, surplus = folded(self._cache.state, self.waiting)
            self.refused |= set(surplus)
            self.waiting = [event for event in self.waiting if event not in surplus]
        await super().step(fate, late)


FAULTY_STORES = [
    *(NoVersionCheck, ComparesOnlyTheNewestVersion, KnowsNoWriters, RecordsEventsBeforeTheState),
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
async def test_no_interleaving_of_two_writers_and_two_faults_breaks_a_promise(deliveries):
    worlds, broken = await explored(deliveries, 2, MemoryStore())

    assert broken is None
    assert worlds > 500


@pytest.mark.parametrize("faulty", [*FAULTY_STORES, *FAULTY_WRITERS])
@pytest.mark.slow
async def test_some_interleaving_shows_each_fault_of_the_protocol(faulty):
    store = faulty() if faulty in FAULTY_STORES else MemoryStore()
    writers = faulty if faulty in FAULTY_WRITERS else Writer
    found = [(await explored(each, 2, copy.deepcopy(store), writers))[1] for each in SCENARIOS]

    assert any(found)


@pytest.mark.parametrize("faulty", FAULTY_STORES)
async def test_a_store_that_breaks_the_protocol_is_caught(faulty):
    store = faulty()
    histories = [await broken_promises(store, f"s{seed}", seed) for seed in range(HISTORIES)]

    assert any(histories)


# -- What every store promises to writers that lost a reply, or that write in turn.


async def test_a_lost_reply_is_cleared_up_after_another_has_committed(store, created):
    """A commits and loses the reply, B commits, A asks again: committed, and here is what B made of it."""
    await store.commit(commit("a-0", "a1", event_ids=[b"e" * 16]))
    await store.commit(commit("a1", "b1", writer="b"))

    outcome = await store.commit(commit("a-0", "a1", event_ids=[b"e" * 16]))

    assert outcome == Committed(await loaded(store))
    assert outcome.snapshot.version == "b1"


async def test_a_writer_is_remembered_until_128_others_have_written_after_it(store):
    await store.create(new_session(version="v0"))
    await store.commit(commit("v0", "v1", writer="00"))
    for n in range(1, 128):
        await store.commit(commit(f"v{n}", f"v{n + 1}", writer=f"{n:02x}"))
    still = await store.commit(commit("v0", "v1", writer="00"))
    await store.commit(commit("v128", "v129", writer="80"))
    forgotten = await store.commit(commit("v0", "v1", writer="00"))
    next_silent = await store.commit(commit("v1", "v2", writer="01"))

    assert isinstance(still, Committed)
    assert forgotten == Conflict(await loaded(store))
    assert isinstance(next_silent, Committed)


async def test_writing_again_renews_a_writers_place(store):
    await store.create(new_session(version="v0"))
    await store.commit(commit("v0", "v1", writer="00"))
    await store.commit(commit("v1", "v2", writer="01"))
    await store.commit(commit("v2", "v3", writer="00"))
    for n in range(3, 130):
        await store.commit(commit(f"v{n}", f"v{n + 1}", writer=f"f{n:02x}"))

    assert isinstance(await store.commit(commit("v2", "v3", writer="00")), Committed)
    assert await store.commit(commit("v1", "v2", writer="01")) == Conflict(await loaded(store))


async def test_two_writers_in_turn_lose_nothing(store):
    """Each adds its numbers to what it sees; after a conflict it goes on from the snapshot it got."""
    await store.create(new_session(state=b""))
    cached = {writer: await loaded(store) for writer in "ab"}
    for n in range(60):
        writer = "aab"[n % 3]
        while True:
            seen = cached[writer]
            state, version = seen.state + bytes([n]), f"{writer}{n}"
            outcome = await store.commit(commit(seen.version, version, writer=writer, state=state))
            if isinstance(outcome, Committed):
                cached[writer] = seen._replace(version=version, state=state)
                break
            assert isinstance(outcome, Conflict)
            cached[writer] = outcome.snapshot

    assert (await loaded(store)).state == bytes(range(60))


def by(writer, number, expected, **fields):
    """A commit under a version that names its writer, as those of workers do."""
    return commit(expected, f"{writer}-{number:x}", writer=writer, **fields)


async def test_a_version_that_names_its_writer_is_found_after_others_have_committed(store):
    """In sessions that 1.0 reads too, whose counts are texts, and in others."""
    await store.create(new_session(version="c-1"))
    mine = [by("a", n, "c-1" if n == 1 else f"a-{n - 1}") for n in range(1, 4)]
    for each in mine:
        assert await store.commit(each) == Committed()
        assert await store.commit(each) == Committed()
    await store.commit(by("b", 1, "a-3"))
    await store.commit(commit("b-1", "unnamed", writer="d"))

    found = Committed(await loaded(store))
    assert await store.commit(mine[-1]) == found
    assert await store.commit(by("b", 1, "a-3")) == found
    assert await store.commit(mine[0]) == Conflict(found.snapshot)
    assert await store.commit(by("a", 4, "a-3")) == Conflict(found.snapshot)


async def test_writers_whose_versions_name_them_are_remembered_as_long(store):
    names, before = [f"{n:02x}" for n in range(129)], "c-1"
    await store.create(new_session(version=before))
    for name in names[:128]:
        assert await store.commit(by(name, 1, before)) == Committed()
        before = f"{name}-1"

    for name in names[:127]:
        assert await store.commit(by(name, 1, "gone")) == Committed(await loaded(store))
    await store.commit(by(names[0], 2, before))
    await store.commit(by(names[128], 1, f"{names[0]}-2"))
    assert await store.commit(by(names[1], 1, "gone")) == Conflict(await loaded(store))
    assert isinstance(await store.commit(by(names[2], 1, "gone")), Committed)
    assert isinstance(await store.commit(by(names[0], 2, "gone")), Committed)


async def test_who_created_a_session_is_no_writer_of_it(store):
    """Its version is known by the creation, which finds it as long as nobody has committed."""
    await store.create(new_session(version="a-1"))
    await store.commit(by("a", 2, "a-1"))
    await store.commit(by("b", 1, "a-2"))

    assert isinstance(await store.commit(by("a", 2, "a-1")), Committed)
    assert await store.commit(by("a", 1, "a-0")) == Conflict(await loaded(store))


# -- Time in the memory store, by a clock of the test's own.


@pytest.fixture
def memory(clock):
    clock.now = 1000.0
    return MemoryStore(StoreOptions(dedupe_window_seconds=60), clock)


async def test_each_commit_moves_the_deadline_by_the_idle_time(memory, clock):
    await memory.create(new_session(idle_ttl_ms=10_000))
    clock.now = 1009
    await memory.commit(commit("a-0", "a-1", idle_ttl_ms=10_000))
    clock.now = 1018.9
    snapshot = await memory.load("s")
    clock.now = 1019

    assert (snapshot.created_at, snapshot.expires_at) == (1000, 1019)
    assert await memory.commit(commit("a-1", "a-2", idle_ttl_ms=10_000)) == NotFound()


async def test_sessions_nobody_asks_for_are_dropped_all_the_same(memory, clock):
    for n in range(100):
        await memory.create(new_session(f"s{n}", idle_ttl_ms=1000 * (n + 1)))
    await memory.delete("s40")
    clock.now = 1050
    await memory.due(1)

    assert len(memory._sessions) == 50


async def test_a_window_is_counted_from_the_recording(memory, clock):
    await memory.create(new_session())
    await memory.commit(commit("a-0", "a-1", event_ids=[digest(1)]))
    clock.now = 1030
    await memory.commit(commit("a-1", "a-2", event_ids=[digest(2)]))
    clock.now = 1059.9
    both = await memory.commit(commit("a-2", None, event_ids=[digest(1), digest(2)]))
    clock.now = 1060
    later = await memory.commit(commit("a-2", None, event_ids=[digest(1), digest(2)]))
    clock.now = 1090

    assert both == Known(dict.fromkeys([digest(1), digest(2)], b""), {})
    assert later == Known(dict.fromkeys([digest(2)], b""), {})
    assert await memory.commit(commit("a-2", "a-3", event_ids=[digest(1), digest(2)])) == Committed()


async def test_time_does_not_follow_a_clock_that_is_set_back(memory, clock):
    clock.now = 2000
    assert memory.now() == 2000
    clock.now = 1500
    assert memory.now() == 2000
