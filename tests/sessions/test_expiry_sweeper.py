"""Due decisions of sessions that nobody calls are settled, by one worker at a time."""

from __future__ import annotations

import asyncio
import time

import pytest

from service.errors import StoreUnavailableError
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import ExpirySpec, Specification
from service.serialization import state as codec
from service.sessions.act import Act
from service.sessions.expiry_sweeper import LEASE_SECONDS, Sweeper
from service.store import open_store
from service.store.memory import MemoryStore
from tests.support.crashing import Worker
from tests.support.running import RunningService, create
from tests.support.sessions import sessions_on
from tests.support.waiting import wait_until

WINDOW = 64.0


@pytest.fixture
def memory(clock):
    return MemoryStore(clock=clock)


async def sessions_with_acts(memory, clock, count):
    sessions = sessions_on(memory)
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
    second = sessions_on(memory)

    await asyncio.gather(*(Sweeper(memory.reminders, each).sweep() for each in (first, second, first)))

    ledger, _ = await ledger_of(memory, "s2")
    assert (ledger.slot, ledger.expired) == (5, 5)


@pytest.mark.slow
async def test_a_deleted_session_leaves_no_reminder(store):
    sessions = sessions_on(store)
    spec = Specification(learner=Dexp3Spec(n_arms=3), seed=1, expiry=ExpirySpec(after_seconds=1, default_loss=1.0))
    for _ in range(2):
        await sessions.create("s", spec, None)
        await sessions.submit("s", Act(5, 10**6))
        while not await store.reminders.due(10):  # noqa: ASYNC110 - a condition in the store
            await asyncio.sleep(0)
        await sessions.delete("s")
        assert await store.reminders.due(10) == []


async def test_a_session_made_anew_elsewhere_is_noted_again(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    clock.now -= 2 * WINDOW
    expiry = ExpirySpec(after_seconds=WINDOW, default_loss=1.0)
    other = sessions_on(memory)
    await other.delete("s0")
    await other.create("s0", Specification(learner=Dexp3Spec(n_arms=3), seed=1, expiry=expiry), None)
    await sessions.submit("s0", Act(1, 10**6))
    clock.now += 2 * WINDOW

    assert await memory.reminders.due(10) == ["s0"]


async def test_a_session_that_is_gone_is_forgotten(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    await memory.delete("s0")

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


@pytest.mark.processes
def test_another_worker_takes_over_within_seconds_of_the_leaders_death(redis_server, tmp_path):
    """Two services on one store; the first one leads, has decisions to settle, and is killed."""
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    store = ("--store-url", redis_server.url)
    leader = lambda: redis_server.client.get("bandit:sweeper")  # noqa: E731
    with RunningService(folders[0], *store) as first:
        first.wait_ready()
        led = wait_until(leader)
        with RunningService(folders[1], *store) as second, second.client() as client:
            name = create(client, expiry={"after_seconds": 0.2, "default_loss": 1})
            assert leader() == led
            first.process.kill()
            died = time.monotonic()
            client.post(f"/v1/sessions/{name}/acts", json={"count": 5})
            wait_until(lambda: committed(client, name)["expired"] == 5)

            assert leader() != led
            assert time.monotonic() - died < 10 * LEASE_SECONDS
            client.delete(f"/v1/sessions/{name}")


def committed(client, name):
    """What the store holds: a list does not show what is due as settled."""
    return next(each for each in client.get("/v1/sessions").json()["sessions"] if each["session_id"] == name)


async def test_the_hint_is_in_the_store_before_the_acts_are(redis_server):
    """A worker that dies before its commit, or whose reply is lost, has left the hint."""
    for fault, acted in (("not sent", 0), ("reply lost", 5)):
        worker = Worker(open_store(redis_server.url), time.time)
        expiry = ExpirySpec(after_seconds=0.1, default_loss=1.0)
        await worker.sessions.create("s", Specification(learner=Dexp3Spec(n_arms=3), seed=1, expiry=expiry), None)
        worker.store.fault = fault
        with pytest.raises(StoreUnavailableError):
            await worker.sessions.submit("s", Act(5, 10**6))
        while not await worker.store.reminders.due(10):  # noqa: ASYNC110 - a condition in the store
            await asyncio.sleep(0)
        worker.reborn()

        await Sweeper(worker.store.reminders, worker.sessions).sweep()

        ledger, _ = await ledger_of(worker.store, "s")
        assert (ledger.slot, ledger.expired) == (acted, acted)
        await worker.sessions.delete("s")
        await worker.store.close()
        redis_server.client.delete("bandit:sweeper")


async def test_a_lost_hint_loses_no_expiry_beyond_the_next_touch(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    await memory.reminders.reschedule("s0", None)
    await Sweeper(memory.reminders, sessions).sweep()
    assert (await ledger_of(memory, "s0"))[0].expired == 0

    await sessions.submit("s0", Act(1, 10**6))

    assert (await ledger_of(memory, "s0"))[0].expired == 5
    clock.now += 2 * WINDOW
    await Sweeper(memory.reminders, sessions).sweep()
    assert (await ledger_of(memory, "s0"))[0].expired == 6
