"""The clock of a real server is shifted while it runs: decisions, ids, leases and reports."""

import logging
import time

import pytest

from service.learners import REGISTRY
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import ExpirySpec, Specification
from service.sessions.act import Act
from service.store.base import Committed, Known, StoreOptions
from service.store.redis.client import StoreClock
from service.store.redis.store import RedisStore
from tests.support.clock import Clock
from tests.support.programs import WHEEL, faketime_library
from tests.support.real_redis import RedisServer
from tests.support.sessions import commit, digest, loaded, sessions_on
from tests.support.waiting import wait_until

HOUR, DAY = 3600, 86_400
WINDOW = 60


class ShiftedServer:
    """A server whose clock is that of the machine plus a number of seconds."""

    def __init__(self, folder):
        self._file = folder / "shift"
        self.server = RedisServer(folder)
        self.server.program = WHEEL
        preload = {"LD_PRELOAD": faketime_library(), "FAKETIME_TIMESTAMP_FILE": str(self._file)}
        self.server.environment = preload | {"FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
        self._file.write_text("+0")
        self.server.start()

    def shift(self, seconds):
        """Set the clock, and wait until the server has noticed."""
        self._file.write_text(f"{seconds:+d}")
        wait_until(lambda: abs(self.server.client.time()[0] - time.time() - seconds) < 2)


@pytest.fixture
def shifted(tmp_path):
    shifted = ShiftedServer(tmp_path)
    yield shifted
    shifted.server.close()


@pytest.fixture
def steps():
    """One item for each step that the store reported."""
    return []


@pytest.fixture
async def store(shifted, steps):
    return RedisStore(shifted.server.url, StoreOptions(on_clock_step_back=lambda: steps.append(1)))


servers = pytest.mark.servers("faketime")


@servers
@pytest.mark.parametrize("fast", [30, 13 * HOUR, DAY, 10 * 365 * DAY])
async def test_ids_acknowledged_before_during_and_after_a_step_count_once(store, created, shifted, fast):
    """Keys that the server's clock of ten years later has deleted are those of before the step alone."""
    events = [digest(n) for n in range(4)]
    for n, seconds in enumerate((0, fast, 0, fast)):
        shifted.shift(seconds)
        answers = {digest(f"k{n}"): b"answer"}
        named = commit(f"a-{n}", f"a-{n + 1}", event_ids=[events[n]], answers=answers)
        assert await store.commit(named) == Committed()
    shifted.shift(0)

    lost = 3 if fast > DAY else 0
    outcome = await store.commit(commit("a-4", None, event_ids=events))

    assert isinstance(outcome, Known)
    assert outcome.duplicates.keys() >= {events[1], events[3]}
    assert len(outcome.duplicates) >= 4 - lost
    assert await store.recall("s", digest("k1")) == b"answer"


@servers
@pytest.mark.parametrize("slow", [-13 * HOUR, -DAY])
async def test_ids_acknowledged_while_the_clock_is_slow_count_once_after_it_is_right(store, created, shifted, slow):
    await store.commit(commit("a-0", "a-1", event_ids=[digest(1)]))
    shifted.shift(slow)
    await store.commit(commit("a-1", "a-2", event_ids=[digest(2)]))
    shifted.shift(0)

    outcome = await store.commit(commit("a-2", None, event_ids=[digest(1), digest(2)]))

    assert outcome == Known(dict.fromkeys([digest(1), digest(2)], b""), {})


@servers
async def test_a_step_back_stalls_only_what_was_stamped_and_is_reported(store, shifted, steps, caplog):
    sessions = sessions_on(store)
    shifted.shift(13 * HOUR)
    for name in ("untouched", "touched"):
        await act(sessions, name)
    with caplog.at_level(logging.WARNING, "service.store.redis.client"):
        shifted.shift(0)
        await store.ping()
        await store.ping()
    await act(sessions, "new")

    assert steps == [1]
    assert "the store's clock went back by 46" in caplog.text
    assert abs(store.now() - time.time()) < 10
    client = shifted.server.client
    found = [client.zrange(key, 0, -1, withscores=True) for key in client.keys("bandit:due:*")]
    notes = dict(note for each in found for note in each)
    assert abs(notes[b"new"] / 1000 - time.time() - WINDOW) < 30
    assert notes[b"touched"] / 1000 > time.time() + 12 * HOUR


async def act(sessions, name):
    """Create a session and open a slot."""
    learner = REGISTRY["dexp3"].model_validate({"kind": "dexp3", "n_arms": 2})
    expiry = ExpirySpec(after_seconds=WINDOW, default_loss=1)
    await sessions.create(name, Specification(learner=learner, expiry=expiry), None)
    await sessions.submit(name, Act(1, 10))


@servers
async def test_a_session_used_while_the_clock_was_slow_is_not_idle_once_it_is_right(store, shifted):
    """Neither one that was used before, nor one that was only created."""
    sessions, spec = sessions_on(store), Specification(learner=Dexp3Spec(n_arms=2), idle_ttl_seconds=60)
    for name in ("used", "new"):
        await sessions.create(name, spec, None)
    await sessions.submit("used", Act(1, 10))
    shifted.shift(-600)
    for name in ("used", "new", "used", "new"):
        await sessions.submit(name, Act(1, 10))
    shifted.shift(0)
    await store.ping()

    for name in ("used", "new"):
        assert (await loaded(store, name)).expires_at == pytest.approx(time.time() + 60, abs=30)


@servers
async def test_a_lease_taken_while_the_clock_was_fast_is_over_when_it_is_right(store, shifted):
    shifted.shift(13 * HOUR)
    assert await store.acquire_lease("dead", 3)
    assert not await store.acquire_lease("other", 3)
    shifted.shift(0)

    assert await store.acquire_lease("other", 3)
    assert not await store.acquire_lease("dead", 3)


def test_only_real_steps_back_are_reported(caplog):
    """A late reply has an old time, and is none; a step that another reply has shown is reported once."""
    steps: list[int] = []
    own = Clock()
    own.now = 0.0
    clock = StoreClock(own, lambda: 5e9, lambda: steps.append(1))
    clock.observe(1000.0, 0.0)
    own.now = 10.0
    clock.observe(1004.0, 4.0)
    assert steps == []
    clock.observe(900.0, 10.0)
    clock.observe(900.1, 9.9)
    assert steps == [1]
    assert clock.now() == 900.1
    own.now = 20.0
    clock.observe(800.0, 20.0)
    assert steps == [1, 1]
    assert len(caplog.records) == 1
    own.now = 80.0
    clock.observe(800.0, 80.0)
    assert len(caplog.records) == 2
