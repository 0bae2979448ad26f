"""States are short, and the same to the bit when they are read."""

import json

import numpy as np
import pytest

from service.commit.cache import CachedSession
from service.engine.ledger import ArmAction, ArmFeedback, PointFeedback
from service.errors import StateCorruptError
from service.learners import REGISTRY
from service.learners.base import Information
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization import records, state
from service.serialization.binary import CodecError, Reader, dtype_below
from service.store.base import Snapshot
from tests.support import kept_states, runs, vectors

FLOATS_OF_A_STATE = 8
"""Bytes."""
REST = 250
"""Bytes of a state of dexp3 beside its vectors, with room for some open decisions."""


def settled(run, action, rng):
    if isinstance(action, ArmAction):
        run.settle(ArmFeedback(action.arm, float(rng.random()), action.slot))
    else:
        run.settle(PointFeedback(rng.normal(size=action.x.size + (run.learner.information is Information.LOSSES))))


def loaded(run):
    """A run as another worker reads it."""
    return CachedSession.of(Snapshot("v", runs.stored(run).encode(), state.encode(run), 0.0, None))


@pytest.mark.parametrize("spec", vectors.specs())
def test_a_run_that_is_stored_and_read_goes_on_to_the_bit(spec):
    """Of every kind, at any moment: without events since the slot opened, with few, with many."""
    run, rng, waiting, kept = runs.start(spec), np.random.default_rng(2), [], {}
    for t in range(40):
        waiting.append(run.act())
        while len(waiting) > (t * 7) % 23:
            settled(run, waiting.pop(int(rng.integers(len(waiting)))), rng)
        kept |= {key: record for key, record in records.encode(run).items() if record is not None}
        for key in [key for key, record in records.encode(run).items() if record is None]:
            kept.pop(key, None)
        run.on_written(state.rows_of(run))
        read = loaded(run)
        if read.needs_records:
            read = read.with_records(kept)

        assert state.encode(read.run) == state.encode(run)
        assert repr(read.run.ledger) == repr(run.ledger)
        stored = len(run.state) - len(type(run.state)._field_defaults)
        for one, other in zip(run.state[:stored], read.run.state[:stored], strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
        if t % 5 == 0:
            run = read.run.copy()


def dexp3(n_arms, events):
    """A run with so many events since its slot opened."""
    run = runs.start({"kind": "dexp3", "n_arms": n_arms})
    actions = [run.act() for _ in range(events + 3)]
    for action in actions[:events]:
        run.settle(ArmFeedback(action.arm, 0.7))
    return run


@pytest.mark.parametrize(("events", "vectors_stored"), [(0, 1), (3, 1), (60, 1), (500, 2)])
def test_the_weights_of_the_opening_are_stored_besides_only_if_many_were_changed_since(events, vectors_stored):
    run = dexp3(500, events)
    data = state.encode(run)

    assert 0 < len(data) - vectors_stored * 500 * FLOATS_OF_A_STATE < REST + 13 * events
    assert loaded(run).run.state.p.tobytes() == run.state.p.tobytes()


def test_few_arms_with_many_events_are_stored_whole():
    assert len(state.encode(dexp3(4, 16))) == len(state.encode(dexp3(4, 24)))


def test_after_a_change_of_arms_both_vectors_are_stored():
    run = runs.start({"kind": "dexp3", "arms": ["a", "b", "c"]})
    run.settle(ArmFeedback(run.act().arm, 0.7))
    run.change_arms(run.arms.change(["d"], ["a"]))

    read = loaded(run).run

    assert [part.tobytes() for part in read.state[:2]] == [part.tobytes() for part in run.state[:2]]


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 65_536, 65_537])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("most", [1, 255, 256, 65_536, 2**32])
def test_outstanding_decisions_are_exact_and_short(size, share, most):
    by_arm = np.zeros(size, dtype=np.int64)
    by_arm[: int(size * share)] = 1
    by_arm[-1:] = most if share else 0
    outstanding = int(by_arm.sum())

    data = state._encode_outstanding(by_arm, outstanding)
    reader = Reader(memoryview(data))

    assert state._read_outstanding(reader, size, outstanding).tolist() == by_arm.tolist()
    assert not reader.left
    assert len(data) <= size * dtype_below(outstanding + 1).itemsize
    if 0 < outstanding * 4 <= size <= 256:
        assert len(data) == outstanding


@pytest.mark.parametrize(
    ("data", "size"), [(b"\1", 4), (b"\1\3\3\3", 4), (b"\7\0\0\0", 4), (b"\0\0\0\0", 4), (b"\x09\1", 9)]
)
def test_outstanding_decisions_that_nobody_wrote_are_refused(data, size):
    with pytest.raises(CodecError):
        state._read_outstanding(Reader(memoryview(data)), size, 2)


@pytest.mark.parametrize("kind", ["dexp3", "fixed", "centred_tsallis", "exp3"])
def test_a_state_of_fewer_arms_than_its_specification_is_refused_before_memory_is_taken(kind):
    run = runs.start({"kind": kind, "n_arms": 3} | vectors.over_arms()[kind])
    fields = json.loads(Stored(Specification(learner=run.params.learner), 1).encode())
    fields["specification"]["learner"]["n_arms"] = 10**7
    snapshot = Snapshot("v", json.dumps(fields).encode(), state.encode(run), 0.0, None)

    with pytest.raises(StateCorruptError) as refused:
        CachedSession.of(snapshot)

    assert "fewer" in str(refused.value.__cause__)


def test_every_kind_is_among_the_kept_sessions():
    lacking = REGISTRY.keys() - set(kept_states.names())

    assert not lacking, f"tests/states lacks {sorted(lacking)}: write them with `{kept_states.WRITE}`"
