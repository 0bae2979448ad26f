"""Sessions of many arms are stored as a vector and what events did to it since, the same to the bit."""

import random

import numpy as np
import pytest

from service.commit.cache import CachedSession
from service.engine.ledger import ArmFeedback
from service.errors import StateCorruptError
from service.learners import dexp3, multiscale_state
from service.learners import dexp3 as dexp3_log
from service.learners.multiscale_tsallis import MultiscaleTsallisSpec
from service.models.specification import ExpirySpec, Specification
from service.models.stored import Stored
from service.serialization import records
from service.serialization import state as logs
from service.serialization.binary import CHECKSUM_BYTES, COLUMNS, LARGE_RECORD, CodecError, body_of, record_of
from service.store.base import Snapshot, Written

ARMS, KEPT = 4, 5
LABELS = [f"arm {n}" for n in range(6)]


@pytest.fixture
def few_are_many(monkeypatch):
    """Logs begin with few arms, and end after few events."""
    monkeypatch.setattr(dexp3_log, "LOGGED_ARMS", ARMS)
    monkeypatch.setattr(dexp3_log, "ARMS_PER_STEP", 1)
    monkeypatch.setattr(dexp3_log, "KEPT_STEPS", KEPT)
    monkeypatch.setattr(multiscale_state, "LOGGED_ARMS", ARMS)
    monkeypatch.setattr(multiscale_state, "kept_steps", lambda n_arms: 3 * KEPT)
    monkeypatch.setattr(multiscale_state, "MOST_STEPS", 4 * KEPT)


class Stores:
    """A session as a store keeps it, and the worker that has just committed it."""

    def __init__(self, learner, expiry=None):
        self.stored = Stored(Specification(learner=learner, expiry=expiry), 5)
        self.state, self.kept = logs.encode(self.stored.start()), {}
        self.cached = self.loaded()
        self.sent = 0

    def loaded(self, previous=None):
        """The session as another worker reads it, which may know a previous version."""
        cached = CachedSession.of(Snapshot("v", self.stored.encode(), self.state, 0.0, None), previous)
        return cached.with_records(self.kept) if cached.needs_records else cached

    def commit(self, run):
        if run.arms is not self.cached.run.arms:
            self.stored = self.stored._replace(arms=run.arms)
        self.state = logs.encode(run)
        changed = records.encode(run)
        self.kept = {key: data for key, data in {**self.kept, **changed}.items() if data is not None}
        self.sent = len(self.state) + sum(len(data or b"") for data in changed.values())
        self.cached = self.cached.committed_as(Written("v", self.state), run, None, self.stored)

    def run(self):
        return self.cached.run.copy()

    def is_logged(self):
        return len(self.loaded().run.stored_rows) > 0


def vectors_of(run):
    parts = run.state._asdict()
    parts |= {"drawn": None, "sums": getattr(run.state, "whole_sums", None)}
    return [part.tobytes() for part in parts.values() if isinstance(part, np.ndarray)]


def outstanding(run, chance):
    arms = [run.arms.live[position] for position in np.flatnonzero(run.ledger.by_arm).tolist()]
    return chance.choice(arms) if arms else None


def step(run, chance):
    """One of the things that can be done to a run."""
    arm, what = outstanding(run, chance), chance.random()
    if what < 0.4 or arm is None:
        run.act()
    elif what < 0.8:
        run.settle(ArmFeedback(arm, chance.random()))
    elif what < 0.85:
        count = int(run.ledger.by_arm[run.arms.positions[arm]])
        run.settle_all([arm] * count, [chance.random()] * count)
    elif what < 0.9:
        run.void(ArmFeedback(arm, 0.0))
    elif what < 0.97:
        run.expire(run.arms.positions[arm], 1, 0.5)
    else:
        run.change_arms(run.arms.change([f"new {chance.random()}"], [chance.choice(run.arms.shown_names)]))


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("expiry", [None, ExpirySpec(after_seconds=1e6)])
@pytest.mark.parametrize("spec", [dexp3.Dexp3Spec, MultiscaleTsallisSpec])
def test_whoever_reads_a_session_has_the_vectors_of_who_wrote_it(seed, spec, expiry):
    session, chance = Stores(spec(arms=LABELS), expiry), random.Random(seed)
    logged, known = 0, None
    for second in range(150):
        run = session.run()
        run.advance(float(second))
        for _ in range(chance.choice([1, 1, 2, 12])):
            step(run, chance)
        session.commit(run)
        read = session.loaded(chance.choice([None, known]))

        assert vectors_of(read.run) == vectors_of(session.cached.run)
        assert logs.encode(read.run) == logs.encode(session.cached.run)
        expected = {b"r%d" % n for n in range(len(read.run.stored_rows))}
        assert {key for key in session.kept if key[:1] == b"r"} == expected
        logged += session.is_logged()
        known = read if chance.random() < 0.2 else known
        if chance.random() < 0.3:
            session.cached = read
    assert 60 < logged <= 150


def test_a_commit_of_many_arms_sends_what_it_did_and_now_and_then_the_whole():
    """As large as a vector is what 256 commits of one event each send beside two vectors, about."""
    session, n_arms = Stores(dexp3.Dexp3Spec(n_arms=10_000)), 10_000
    sent = []
    for _ in range(300):
        run = session.run()
        run.act()
        session.commit(run)
        run = session.run()
        run.settle(ArmFeedback(int(np.flatnonzero(run.ledger.by_arm)[0]), 0.3))
        session.commit(run)
        sent.append(session.sent)
    vector = 8 * n_arms

    assert sorted(sent)[len(sent) // 2] < 260
    assert vectors_of(session.loaded().run) == vectors_of(session.cached.run)
    assert sum(len(data) for data in session.kept.values()) < vector + 2 * dexp3_log.KEPT_STEPS * 32


def test_no_more_steps_stand_behind_a_state_than_their_number_can_say():
    session = Stores(dexp3.Dexp3Spec(n_arms=1_000))
    opened, layout = session.run().state.opened, logs.layout_of(dexp3.State, None, 3, False)
    for count, vectors in [(logs.LOGGED - 1, 1), (logs.LOGGED, 2)]:
        weights = np.where(np.arange(1_000) < count, 0.5, opened)
        short, behind = logs.shortened(session.run().state._replace(weights=weights), layout)
        assert (short.weights is opened, behind == b"\0") == (vectors == 1, vectors == 2)


def test_the_more_arms_the_more_events_a_log_keeps():
    assert [dexp3_log.kept_steps(n) for n in (1_000, 2_000, 4_096, 10**6)] == [31, 62, 128, 128]


def test_fewer_arms_are_stored_whole():
    session = Stores(dexp3.Dexp3Spec(n_arms=dexp3_log.LOGGED_ARMS - 1))
    run = session.run()
    run.act()
    session.commit(run)

    assert not session.kept


HARMS = {"missing": (1, None), "missing log": (3, None), "more": (4, [1.0, 0.5]), "cut": (2, [1.0, 0.5, 0.5])}
HARMS |= {"other arms": (2, [6.0, 0.5]), "negative arm": (2, [-1.0, 0.5]), "other": (2, [1.0, 0.5])}
HARMS |= {"no vector": (0, [0.2] * 5), "no sum": (0, [0.0] * 6), "no number": (0, [float("inf")] * 6)}
"""A row, and what is written in its place; None takes it away."""


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("harm", HARMS)
def test_rows_that_are_not_those_of_the_state_are_refused(harm):
    session = Stores(dexp3.Dexp3Spec(n_arms=6))
    for _ in range(3):
        run = session.run()
        run.settle(ArmFeedback(run.act().arm, 0.5))
        session.commit(run)
    assert set(session.kept) == {b"r0", b"r1", b"r2", b"r3"}
    whole = dict(session.kept)

    number, values = HARMS[harm]
    key = b"r%d" % number
    if values is None:
        del session.kept[key]
    else:
        session.kept[key] = records.record_of(key, np.array(values).tobytes())

    with pytest.raises(StateCorruptError):
        session.loaded()
    session.kept = whole
    session.loaded()


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize(
    ("number", "values"),
    [
        *((0, [number] * (21 * arms + 39)) for number, arms in [(1.0, 5), (1.0, 6), (0.0, 6), (float("nan"), 6)]),
        *((1, [step, 0.5]) for step in (48.0, multiscale_state.CORRECT, multiscale_state.OPEN, 7.0)),
        *((1, [0.0, loss]) for loss in (-0.5, 1e200, float("nan"))),
    ],
)
def test_vectors_that_are_not_those_of_the_state_are_refused(number, values):
    session = Stores(MultiscaleTsallisSpec(n_arms=6), ExpirySpec(after_seconds=1e6, default_loss=0.5))
    run = session.run()
    run.act()
    session.commit(run)
    session.loaded()
    session.kept[b"r%d" % number] = records.record_of(b"r%d" % number, np.array(values).tobytes())

    with pytest.raises(StateCorruptError):
        session.loaded()


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("size", [0, 5])
def test_a_state_with_a_log_needs_what_does_not_follow_from_it(size):
    session = Stores(MultiscaleTsallisSpec(n_arms=6))
    run = session.run()
    run.act()
    session.commit(run)
    for field in ("lam", "scales", "mixture_sums", "weights", "mixture_units"):
        harmed = session.run()
        harmed.state = harmed.state._replace(**{field: np.ones(size)})
        session.state = logs.encode(harmed)

        with pytest.raises(StateCorruptError):
            session.loaded()


def test_an_event_of_many_arms_is_sent_without_their_vectors():
    session = Stores(MultiscaleTsallisSpec(n_arms=1_000), ExpirySpec(after_seconds=1e6, default_loss=0.5))
    run = session.run()
    arm = run.act().arm
    session.commit(run)
    assert session.sent > 21 * 8_000
    run = session.run()
    run.settle(ArmFeedback(arm, 0.3))
    session.commit(run)

    assert session.sent < 1_000
    assert vectors_of(session.loaded().run) == vectors_of(session.cached.run)


def test_a_large_record_that_was_changed_anywhere_is_found():
    row = np.random.default_rng(1).random(3 * COLUMNS + LARGE_RECORD // 8)
    record = record_of(b"r0", row.tobytes())
    assert body_of(b"r0", record) == row.tobytes()
    others = [np.roll(row, 1), np.roll(row, COLUMNS), row[::-1].copy(), row[:-1]]
    swapped = row.reshape(-1, COLUMNS).copy()
    swapped[:, [0, 1]] = swapped[:, [1, 0]]
    for place in (0, 5, COLUMNS, row.size - 1):
        others.append(row.copy())
        others[-1][place] = np.nextafter(row[place], 1)
    for other in [*others, swapped]:
        with pytest.raises(CodecError):
            body_of(b"r0", other.tobytes() + record[-CHECKSUM_BYTES:])
    with pytest.raises(CodecError):
        body_of(b"r1", record)


@pytest.mark.parametrize("weight", [0.0, -1.0, 3.0, float("inf"), float("nan")])
@pytest.mark.parametrize("vectors", [("weights",), ("opened",), ("weights", "opened")])
def test_weights_that_are_not_those_of_their_sum_are_refused(vectors, weight):
    """Whoever writes such a state by hand, or imports it, can make its checksum too."""
    stored = Stored(Specification(learner=dexp3.Dexp3Spec(n_arms=9)), 5)
    run = stored.start()
    run.settle(ArmFeedback(run.act().arm, 0.5))
    harmed = run.state.weights.copy()
    harmed[3] = weight
    run.state = run.state._replace(**dict.fromkeys(vectors, harmed))

    with pytest.raises(StateCorruptError):
        CachedSession.of(Snapshot("v", stored.encode(), logs.encode(run), 0.0, None))
