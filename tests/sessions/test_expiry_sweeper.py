"""Due decisions that nobody calls for are settled by one worker at a time, and outstanding ones cost little."""

import asyncio
import sys
import time

import pytest

from service.engine.ledger import ArmAction, ArmFeedback, Expiry, Params
from service.engine.run import start_run
from service.errors import StoreUnavailableError
from service.learners import REGISTRY
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import ExpirySpec, Specification
from service.serialization import records
from service.serialization import state as codec
from service.sessions import expiry_sweeper
from service.sessions.act import Act
from service.sessions.expiry_sweeper import LEASE_SECONDS, Sweeper
from service.store import open_store
from service.store.base import head_of
from service.telemetry.metrics import Labels, Metrics
from tests.support.crashing import Worker
from tests.support.machines import FIELDS
from tests.support.running import RunningService, create
from tests.support.sessions import sessions_on
from tests.support.waiting import wait_until

WINDOW = 64.0


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
    return codec.read_shown(head_of(snapshot.state)).ledger, snapshot


async def test_what_is_due_is_committed_without_a_call_and_without_extending_the_session(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 9)
    deadline = (await memory.load("s3")).expires_at

    await Sweeper(memory, sessions).sweep()

    for number in range(9):
        ledger, snapshot = await ledger_of(memory, f"s{number}")
        assert (ledger.expired, ledger.outstanding) == (5, 0)
    assert snapshot.expires_at == deadline
    assert await memory.due(10) == []


async def test_two_sweepers_at_once_settle_nothing_twice(memory, clock):
    first = await sessions_with_acts(memory, clock, 4)
    second = sessions_on(memory)

    await asyncio.gather(*(Sweeper(memory, each).sweep() for each in (first, second, first)))

    ledger, _ = await ledger_of(memory, "s2")
    assert (ledger.slot, ledger.expired) == (5, 5)


@pytest.mark.slow
async def test_a_deleted_session_leaves_no_reminder(store):
    sessions = sessions_on(store)
    spec = Specification(learner=Dexp3Spec(n_arms=3), seed=1, expiry=ExpirySpec(after_seconds=1, default_loss=1.0))
    for _ in range(2):
        await sessions.create("s", spec, None)
        await sessions.submit("s", Act(5, 10**6))
        while not await store.due(10):  # noqa: ASYNC110 - a condition in the store
            await asyncio.sleep(0)
        await sessions.delete("s")
        assert await store.due(10) == []


async def test_a_session_made_anew_elsewhere_is_noted_again(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    clock.now -= 2 * WINDOW
    expiry = ExpirySpec(after_seconds=WINDOW, default_loss=1.0)
    other = sessions_on(memory)
    await other.delete("s0")
    await other.create("s0", Specification(learner=Dexp3Spec(n_arms=3), seed=1, expiry=expiry), None)
    await sessions.submit("s0", Act(1, 10**6))
    clock.now += 2 * WINDOW

    assert await memory.due(10) == ["s0"]


async def test_a_session_that_is_gone_is_forgotten(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    await memory.delete("s0")

    await Sweeper(memory, sessions).sweep()

    assert await memory.due(10) == []


async def test_a_session_that_cannot_be_read_is_looked_at_later(memory, clock, caplog):
    sessions = await sessions_with_acts(memory, clock, 1)
    memory._sessions["s0"].state = b"broken"

    await Sweeper(memory, sessions).sweep()

    assert await memory.due(10) == []
    assert "s0" in caplog.text
    clock.now += 61
    assert await memory.due(10) == ["s0"]


async def test_a_sweeper_runs_until_it_is_stopped(memory, clock):
    sweeper = Sweeper(memory, await sessions_with_acts(memory, clock, 1))
    running = asyncio.create_task(sweeper.run())
    while await memory.due(10):  # noqa: ASYNC110 - a condition in the store
        await asyncio.sleep(0)

    sweeper.stop()
    await running
    assert (await ledger_of(memory, "s0"))[0].expired == 5


async def test_hints_are_counted_some_sessions_at_a_time(memory, clock, monkeypatch):
    """A gauge has what the last look at all sessions found, and nothing in a worker that does not sweep."""
    monkeypatch.setattr(expiry_sweeper, "LOOKED_AT", 4)
    sessions, metrics = sessions_on(memory), Metrics(Labels(hints=("no_feedback", "few_events")))
    for number in range(10):
        await sessions.create(f"s{number}", Specification(learner=Dexp3Spec(n_arms=3), seed=1), None)
        if number % 3 == 0:
            await sessions.submit(f"s{number}", Act(100, 10**6))
    memory._sessions["s0"].state = b"broken"
    sweeper = Sweeper(memory, sessions, tell_hints=metrics.sessions_with_hint)

    def told():
        name = "bandit_sessions_with_hint"
        return [metrics.registry.get_sample_value(name, {"hint": hint}) for hint in ("no_feedback", "few_events")]

    for expected in (0, 0, 3):
        sweeper._look_at = 0
        await sweeper.sweep()
        assert told() == [expected, 0]
    assert sweeper._look_at > time.monotonic() + expiry_sweeper.REST_SECONDS - 1
    await sessions.delete("s3")
    await sweeper.sweep()
    assert told() == [3, 0]
    for _ in range(3):
        sweeper._look_at = 0
        await sweeper.sweep()
    assert told() == [2, 0]

    async def is_taken(*_):
        return False

    monkeypatch.setattr(memory, "acquire_lease", is_taken)
    await sweeper.sweep()
    assert told() == [0, 0]


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
        while not await worker.store.due(10):  # noqa: ASYNC110 - a condition in the store
            await asyncio.sleep(0)
        worker.reborn()

        await Sweeper(worker.store, worker.sessions).sweep()

        ledger, _ = await ledger_of(worker.store, "s")
        assert (ledger.slot, ledger.expired) == (acted, acted)
        await worker.sessions.delete("s")
        await worker.store.close()
        redis_server.client.delete("bandit:sweeper")


async def test_a_lost_hint_loses_no_expiry_beyond_the_next_touch(memory, clock):
    sessions = await sessions_with_acts(memory, clock, 1)
    await memory.reschedule("s0", None)
    await Sweeper(memory, sessions).sweep()
    assert (await ledger_of(memory, "s0"))[0].expired == 0

    await sessions.submit("s0", Act(1, 10**6))

    assert (await ledger_of(memory, "s0"))[0].expired == 5
    clock.now += 2 * WINDOW
    await Sweeper(memory, sessions).sweep()
    assert (await ledger_of(memory, "s0"))[0].expired == 6


BUCKETS = 64


COST_WINDOW = float(BUCKETS)


def run_with(kind, acts, fields):
    """Decisions of all but one bucket outstanding, as the store holds them."""
    spec = REGISTRY[kind].model_validate({"kind": kind} | fields)
    run = start_run(Params(spec, 5, expiry=Expiry(COST_WINDOW, 1.0)))
    for number in range(acts):
        run.advance(1e9 + number * (BUCKETS - 1) / acts)
        run.act()
    run.advance(1e9 + BUCKETS - 1)
    run.on_written(codec.rows_of(run))
    return run


def one_commit(run):
    """An act, its event and what is sent to the store of both."""
    copy = run.copy()
    action = copy.act()
    assert isinstance(action, ArmAction)
    copy.settle(ArmFeedback(action.arm, 0.5, action.slot))
    copy.act()
    changed = [data for data in records.encode(copy).values() if data is not None]
    return [codec.encode(copy), *changed]


def calls_of(work):
    """Functions called, Python's and numpy's."""
    count = 0

    def note(_, event, __):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("kind", FIELDS)
def test_work_and_bytes_do_not_grow_with_what_is_outstanding(kind):
    """Fifty times as many decisions; the margin is for a solver's steps and for free instances."""
    fields = FIELDS[kind] | {"n_arms": 20} | ({"max_open_slots": 10_000} if kind == "exp3" else {})
    few, many = (run_with(kind, acts, fields) for acts in (128, 6400))
    sent = [sum(map(len, one_commit(run))) for run in (few, many)]

    assert many.ledger.outstanding >= (20 if kind == "bold" else 6000)
    assert calls_of(lambda: one_commit(many)) <= 1.5 * calls_of(lambda: one_commit(few))
    assert sent[1] <= 1.5 * sent[0]


@pytest.mark.parametrize("kind", FIELDS)
def test_bytes_of_a_commit_grow_with_the_arms_at_most(kind):
    few, many = (run_with(kind, 1000, FIELDS[kind] | {"n_arms": n_arms}) for n_arms in (100, 1000))
    sent = [sum(map(len, one_commit(run))) for run in (few, many)]

    assert sent[1] <= 10 * sent[0]
