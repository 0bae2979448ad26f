"""Sessions that a worker keeps as they are stored go on as if they had stayed decoded."""

import json

import pytest

from service.commit import cache as session_cache
from service.commit.cache import CachedSession, SessionCache
from service.errors import SurplusFeedbackError
from service.learners import REGISTRY
from service.models.events import ArmEvent
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization import state as codec
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from service.store.base import Snapshot
from service.store.memory import MemoryStore
from tests.support import kept_states, vectors
from tests.support.clock import Clock
from tests.support.sessions import sessions_on

OF_ARMS = [{"kind": "dexp3", "n_arms": 3}, {"kind": "centred_tsallis", "n_arms": 4}, {"kind": "fixed", "n_arms": 2}]


class CountingStore(MemoryStore):
    """A store that counts how often sessions are read."""

    loads = 0

    async def load(self, session_id, *arms):
        self.loads += 1
        return await super().load(session_id, *arms)


async def create(sessions, session_id, **fields):
    spec = Specification.model_validate({"seed": len(session_id)} | fields)
    await sessions.create(session_id, spec, None)


async def use(sessions, session_id, rounds):
    """Act, and tell the loss of each act but the last."""
    acted = []
    for number in range(rounds):
        answer = json.loads((await sessions.submit(session_id, Act(1, 10**6, single=True))).body)
        acted.append((answer["arm"], answer["slot"]))
        if number:
            arm, slot = acted[-2]
            await sessions.submit(session_id, SettleFeedback([ArmEvent(arm=arm, slot=slot, loss=0.25)], None))
    return [arm for arm, _ in acted]


def decoded_after_acts(learner):
    """A session as a worker reads it from the store after some acts."""
    stored = Stored.of(Specification(learner=learner, seed=3))
    run = stored.start()
    for second in range(5):
        run.advance(1e9 + second)
        kept_states.settle(run, run.act(), "")
    run.act()
    return CachedSession.of(Snapshot("v", stored.encode(), codec.encode(run), 1e9, None))


async def test_sessions_are_the_same_to_the_bit_however_few_stay_decoded(monkeypatch):
    found = []
    for most in (1, 1_000):
        monkeypatch.setattr(session_cache, "MAX_DECODED", most)
        store = MemoryStore(clock=Clock())
        sessions = sessions_on(store)
        for number, learner in enumerate(OF_ARMS):
            await create(sessions, "s" * (number + 1), learner=learner)
        arms = [await use(sessions, "s" * (1 + turn % len(OF_ARMS)), 5) for turn in range(9)]
        states = [(await store.load("s" * (number + 1))).state for number in range(len(OF_ARMS))]
        found.append((arms, states))

    assert found[0] == found[1]


async def test_a_new_session_is_used_without_reading_it():
    store = CountingStore()
    sessions = sessions_on(store)
    await create(sessions, "s", learner=OF_ARMS[0])

    await use(sessions, "s", 3)

    assert store.loads == 0


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"learner": {"kind": "exp3", "n_arms": 2, "learning_rate": 0.1}}, id="open slots"),
        pytest.param(
            {"learner": OF_ARMS[0], "expiry": {"after_seconds": 60.0, "default_loss": None}}, id="times of acts"
        ),
        pytest.param({"learner": {"kind": "dexp3", "n_arms": 2_000}}, id="log"),
    ],
)
async def test_sessions_with_records_stay_decoded(fields, monkeypatch):
    monkeypatch.setattr(session_cache, "MAX_DECODED", 1)
    store = CountingStore()
    sessions = sessions_on(store)
    for session_id in ("s", "t"):
        await create(sessions, session_id, **fields)
        await use(sessions, session_id, 2)

    await use(sessions, "s", 3)

    assert store.loads == 2


async def test_a_session_read_with_its_log_stays_decoded(monkeypatch):
    monkeypatch.setattr(session_cache, "MAX_DECODED", 1)
    store = CountingStore()
    sessions, other = sessions_on(store), sessions_on(store)
    for session_id in ("s", "t"):
        await create(sessions, session_id, learner={"kind": "dexp3", "n_arms": 1_000})
        await use(sessions, session_id, 2)
        with pytest.raises(SurplusFeedbackError):  # The other worker reads it, and commits nothing.
            await other.submit(session_id, SettleFeedback([ArmEvent(arm=999, loss=0.25)] * 3, None))
    loads = store.loads

    await use(other, "s", 2)

    assert store.loads == loads


@pytest.mark.parametrize("name", kept_states.names())
def test_only_sessions_whose_bytes_suffice_can_rest(name):
    _, cached = kept_states.read(kept_states.load(name))

    assert cached.at_rest is None, "kept sessions have a window, and so records"


@pytest.mark.parametrize("kind", ["dexp3", "multiscale_tsallis", "clw", "dbgd", "ogd"])
def test_a_session_at_rest_is_decoded_as_it_was(kind):
    learner = REGISTRY[kind].model_validate(vectors.traces(kind)[0]["spec"])
    cached = decoded_after_acts(learner)
    at_rest = cached.at_rest
    assert at_rest is not None
    again = at_rest.decoded()

    assert codec.encode(again.run) == codec.encode(cached.run) == at_rest.state
    assert again.run.draws.uniform(99) == cached.run.draws.uniform(99)
    assert again._replace(run=None) == cached._replace(run=None)
    assert at_rest.size < cached.size


def test_a_new_session_takes_no_other_ones_place():
    cached = decoded_after_acts(REGISTRY["dexp3"].model_validate(OF_ARMS[0]))
    at_rest = cached.at_rest
    cache = SessionCache(max_sessions=2)
    for session_id in ("a", "b"):
        cache.put(session_id, cached)
    cache.put_new("c", at_rest)
    assert (cache.get("a"), cache.get("c")) == (cached, None)

    cache.forget("a")
    cache.put_new("c", at_rest)
    assert (cache.peek("b"), cache.peek("c").version) == (cached, cached.version)
    assert cache.peek("c") is not cache.peek("c"), "seen, but not used"
    assert cache.get("c") is cache.peek("c")


def test_memory_is_counted_while_sessions_rest_and_come_back(monkeypatch):
    monkeypatch.setattr(session_cache, "MAX_DECODED", 2)
    cached = decoded_after_acts(REGISTRY["dexp3"].model_validate(OF_ARMS[0]))
    resting = cached.at_rest
    cache = SessionCache(max_sessions=100, max_bytes=2 * cached.size + 3 * resting.size)
    for number in range(9):
        cache.put(str(number), cached)
    kept = [number for number in range(9) if cache.get(str(number)) is not None]
    assert kept == [4, 5, 6, 7, 8]

    for number in kept:
        cache.forget(str(number))
    for number in range(9):
        cache.put_new(str(number), resting)
    assert sum(cache.get(str(number)) is not None for number in range(9)) >= 5
