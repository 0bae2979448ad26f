"""Due decisions of sessions that nobody calls are settled, by one worker at a time."""

from __future__ import annotations

import asyncio

import pytest

from service.learners.dexp3 import Dexp3Spec
from service.operations import Act
from service.sessions import Sessions
from service.settings import Settings
from service.specification import ExpirySpec, Specification
from service.store import codec
from service.store.memory import MemoryStore
from service.sweeper import Sweeper

WINDOW = 64.0


async def test_reminders_come_when_it_is_time(store):
    now = store.now()
    await store.reminders.remind("late", now + 3600)
    await store.reminders.remind("soon", now + 3600)
    await store.reminders.remind("soon", now - 2)
    await store.reminders.remind("soon", now + 1800)

    assert await store.reminders.due(10) == ["soon"]
    await store.reminders.done("soon", None)
    await store.reminders.done("late", None)
    assert await store.reminders.due(10) == []
    await store.reminders.remind("late", now - 1)
    assert await store.reminders.due(10) == ["late"]
    await store.reminders.done("late", now - 0.5)
    assert await store.reminders.due(10) == ["late"]
    await store.reminders.done("late", None)


@pytest.mark.parametrize("store_url", ["redis", "embedded"], indirect=True)
async def test_one_worker_leads_until_its_lease_ends(store):
    assert await store.reminders.lead("a", 0.3)
    assert not await store.reminders.lead("b", 0.3)
    assert await store.reminders.lead("a", 0.01)
    while not await store.reminders.lead("b", 0.3):  # noqa: ASYNC110 - a condition in the server
        await asyncio.sleep(0)


class Clock:
    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def memory(clock):
    return MemoryStore(clock=clock)


async def sessions_with_acts(memory, clock, count):
    sessions = Sessions(memory, Settings())
    expiry = ExpirySpec(after_seconds=WINDOW, default_loss=1.0)
    spec = Specification(learner=Dexp3Spec(n_arms=3), seed=1, expiry=expiry, idle_ttl_seconds=10 * WINDOW)
    for number in range(count):
        await sessions.create(f"s{number}", spec, None)
        await sessions.submit(f"s{number}", Act(5, 10**6))
    clock.now += 2 * WINDOW
    return sessions


async def ledger_of(memory, session_id):
    snapshot = await memory.load(session_id)
    return codec.decode(snapshot.state, Dexp3Spec(n_arms=3).build().state_type, by_arm=True)[0], snapshot


async def test_what_is_due_is_committed_without_a_call_and_without_extending_the_session(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 9)
    deadline = (await memory.load("s3")).expires_at

    await Sweeper(memory.reminders, sessions).sweep()

    for number in range(9):
        ledger, snapshot = await ledger_of(memory, f"s{number}")
        assert (ledger.expired, ledger.outstanding) == (5, 0)
    assert snapshot.expires_at == deadline
    assert await memory.reminders.due(10) == []


async def test_two_sweepers_at_once_settle_nothing_twice(memory, clock):
    first = await sessions_with_acts(memory, clock, 4)
    second = Sessions(memory, Settings())

    await asyncio.gather(*(Sweeper(memory.reminders, each).sweep() for each in (first, second, first)))

    ledger, _ = await ledger_of(memory, "s2")
    assert (ledger.slot, ledger.expired) == (5, 5)


async def test_a_session_that_is_gone_is_forgotten(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    await sessions.delete("s0")

    await Sweeper(memory.reminders, sessions).sweep()

    assert await memory.reminders.due(10) == []


async def test_a_session_that_cannot_be_read_is_looked_at_later(memory, clock, caplog):
    sessions = await sessions_with_acts(memory, clock, 1)
    memory._sessions["s0"].state = b"broken"

    await Sweeper(memory.reminders, sessions).sweep()

    assert await memory.reminders.due(10) == []
    assert "s0" in caplog.text
    clock.now += 61
    assert await memory.reminders.due(10) == ["s0"]


async def test_a_sweeper_runs_until_it_is_stopped(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    sweeper = Sweeper(memory.reminders, sessions)
    running = asyncio.create_task(sweeper.run())
    while await memory.reminders.due(10):  # noqa: ASYNC110 - a condition in the store
        await asyncio.sleep(0)

    sweeper.stop()
    await running
    assert (await ledger_of(memory, "s0"))[0].expired == 5
