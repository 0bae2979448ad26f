"""What a worker keeps of sessions is bounded in memory, whatever they are made of."""

import gc
import weakref

import pytest

from service.commit.cache import CachedSession, SessionCache
from service.learners import REGISTRY
from service.models import stored
from service.models.specification import ExpirySpec, Specification
from service.models.stored import Stored
from service.serialization import records
from service.serialization import state as codec
from service.store.base import Snapshot, Written

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


def test_large_specifications_are_not_kept_for_long():
    def encoded(number):
        spec = {"kind": "dexp3", "arms": [f"label {number} {label}" for label in range(1_000)]}
        return Stored.of(Specification(learner=REGISTRY["dexp3"].model_validate(spec))).encode()

    first = weakref.ref(stored.decode(encoded(0)).specification)
    for number in range(1, 10):
        stored.decode(encoded(number))
    gc.collect()

    assert first() is None
