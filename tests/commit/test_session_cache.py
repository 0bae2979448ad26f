"""What a worker keeps of sessions is bounded in memory, whatever they are made of."""

import gc
import json
import weakref

import pytest

from service.commit.cache import CachedSession, SessionCache
from service.learners import REGISTRY
from service.models import stored
from service.models.specification import ExpirySpec, Specification
from service.models.stored import Stored
from service.serialization import records
from service.serialization import state as codec
from service.sessions.act import Act
from service.store.base import Snapshot, Written
from tests.support.sessions import CountingStore, sessions_on

MIB = 2**20


def cached(learner, acts=0, **fields):
    """A session as it is read from a store, after some acts."""
    spec = Specification(learner=REGISTRY[learner["kind"]].model_validate(learner), seed=1, **fields)
    stored = Stored.of(spec)
    run = stored.start()
    for second in range(acts):
        run.advance(1e9 + second)
        run.act()
    state = codec.encode(run)
    found = CachedSession.of(Snapshot("v", stored.encode(), state, 0.0, None))
    return found.with_records({key: data for key, data in records.encode(run).items() if data is not None})


MANY = {"kind": "dexp3", "n_arms": 10_000}
TAKEN = {
    "state": (MANY, {}, 240_000),
    "labels": ({"kind": "dexp3", "arms": [f"label {n}" for n in range(10_000)]}, {}, 1_500_000),
    "rows": ({"kind": "bold", "n_arms": 10_000, "learning_rate": 0.1}, {"acts": 30}, 2_400_000),
    "slots": ({"kind": "exp3", "n_arms": 2, "learning_rate": 0.1}, {"acts": 5_000}, 500_000),
    "buckets": (MANY, {"acts": 50, "expiry": ExpirySpec(after_seconds=64)}, 4_000_000),
}


@pytest.mark.parametrize(("learner", "options", "least"), TAKEN.values(), ids=TAKEN)
def test_all_that_a_session_takes_is_counted(learner, options, least):
    session = cached(learner, **options)
    written = Written("w", codec.encode(session.run))

    assert least < session.size < 4 * least
    assert session.committed_as(written, session.run.copy(), None, session.stored).size == session.size


def test_sessions_leave_when_their_labels_take_too_much():
    labels = [f"label {number}" for number in range(5_000)]
    cache = SessionCache(1000, max_bytes=5 * MIB)
    for number in range(20):
        cache.put(str(number), cached({"kind": "dexp3", "arms": labels}))

    assert 2 <= sum(cache.get(str(number)) is not None for number in range(20)) <= 5


@pytest.mark.parametrize("learner", [{"n_arms": 3}, {"arms": ["a", "b"]}])
async def test_a_new_session_is_used_without_reading_it(learner):
    store = CountingStore()
    sessions, others = sessions_on(store), sessions_on(store)
    spec = Specification.model_validate({"learner": {"kind": "dexp3"} | learner, "seed": 7})
    await sessions.create("s", spec, None)

    arms = [json.loads((await sessions.submit("s", Act(1, 9, single=True))).body)["arm"] for _ in range(20)]

    assert store.loads == 0
    await sessions.delete("s")
    await others.create("s", Specification.model_validate(spec.model_dump() | {"seed": 8}), None)
    await others.delete("s")
    await others.create("s", spec, None)
    again = [json.loads((await sessions.submit("s", Act(1, 9, single=True))).body)["arm"] for _ in range(20)]
    assert again == arms, "sessions of equal fields share nothing that depends on the seed"


def test_a_new_session_takes_no_other_ones_place():
    small = cached({"kind": "dexp3", "n_arms": 3})
    cache = SessionCache(max_sessions=2)
    for session_id in ("a", "b"):
        cache.put(session_id, small)
    cache.put_new("c", small)
    assert (cache.get("a"), cache.get("c")) == (small, None)

    cache.forget("a")
    cache.put_new("c", small)
    assert cache.peek("b") is cache.peek("c") is small


def test_large_specifications_are_not_kept_for_long():
    def encoded(number):
        spec = {"kind": "dexp3", "arms": [f"label {number} {label}" for label in range(1_000)]}
        return Stored.of(Specification(learner=REGISTRY["dexp3"].model_validate(spec))).encode()

    first = weakref.ref(stored.decode(encoded(0)).specification)
    for number in range(1, 10):
        stored.decode(encoded(number))
    gc.collect()

    assert first() is None
