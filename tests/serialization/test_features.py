"""The state of a session with features, its rows, and what is none of them; and how large it is taken to be."""

from __future__ import annotations

import numpy as np
import pytest

from service.commit.cache import CachedSession
from service.engine.ledger import ArmFeedback
from service.engine.run import FeatureRun
from service.errors import StateCorruptError
from service.learners.base import Visit
from service.learners.feature_tsallis import known
from service.models.specification import Specification
from service.models.stored import Stored, decode
from service.serialization import records
from service.serialization import state as codec
from service.serialization.binary import CodecError, checksum
from service.serialization.records import Learned
from service.store.base import Snapshot

SPEC = {
    "learner": {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]},
    "features": {"zip": {"kind": "category", "buckets": 5}, "age": {"kind": "number", "range": [0, 1]}},
    "expiry": {"after_seconds": 60, "default_loss": 1.0},
    "seed": 7,
}


def stored(**fields: object) -> Stored:
    return Stored.of(Specification.model_validate(SPEC | fields))


def started(of: Stored) -> FeatureRun:
    run = of.start()
    assert isinstance(run, FeatureRun)
    run.advance(1e9)
    return run


def played(run: FeatureRun, acts: int) -> FeatureRun:
    rng = np.random.default_rng(acts)
    for _ in range(acts):
        said = {"zip": str(rng.integers(99)), "age": float(rng.random())}
        action = run.act(None, run.encoder.encode(said if rng.random() < 0.8 else None))
        if rng.random() < 0.4:
            visit = action.visit if rng.random() < 0.7 else None
            event = ArmFeedback(action.arm, float(rng.random()), visit=visit)
            if rng.random() < 0.2:
                run.void(event)
            elif visit is None:
                run.settle_all([event.arm], [event.loss])
            else:
                run.settle(event)
    return run


def written(of: Stored, run: FeatureRun) -> tuple[Snapshot, dict[bytes, bytes]]:
    rows = {key: value for key, value in records.encode(run).items() if value is not None}
    return Snapshot("v", of.encode(), codec.encode(run), 1e9, None), rows


@pytest.mark.parametrize("acts", [0, 1, 20, 300])
def test_a_session_is_read_back_to_the_bit(acts: int) -> None:
    of = stored()
    run = played(started(of), acts)
    cached = CachedSession.of(*written(of, run)[:1])
    assert codec.is_unread(cached.run.state) == bool(known(run.state).log.rows)
    again = cached.with_records(written(of, run)[1]).run
    assert isinstance(again, FeatureRun)
    x = run.encoder.encode({"age": 0.3}).x
    np.testing.assert_array_equal(again.for_visitor(x), run.for_visitor(x))
    assert again.ledger.said == tuple(run.ledger.said)
    for each in (run, again):
        played(each, 3)
    assert codec.encode(again) == codec.encode(run)
    assert {row.tobytes() for row in codec.rows_of(again)} == {row.tobytes() for row in codec.rows_of(run)}


def test_a_session_with_many_known_means_is_created_with_its_state_alone() -> None:
    arms = [f"arm {n}" for n in range(300)]
    initial = [{"label": arm, "acts": 20, "mean_loss": 0.5} for arm in arms]
    of = stored(learner={"kind": "multiscale_tsallis", "arms": arms}, initial=initial)
    run = started(of)
    snapshot, rows = written(of, run)
    assert not rows
    assert CachedSession.of(snapshot).run.probabilities.tolist() == run.probabilities.tolist()
    again = CachedSession.of(written(of, played(run, 1))[0]).run
    for one, other in zip(known(again.state).arms, known(run.state).arms, strict=True):
        np.testing.assert_array_equal(one, other)


def test_rows_and_state_of_other_sessions_are_damage() -> None:
    of = stored()
    run = played(started(of), 300)
    snapshot, rows = written(of, run)
    cached = CachedSession.of(snapshot)
    keys = sorted(key for key in rows if key.startswith(b"r"))
    without = {key: value for key, value in rows.items() if key != keys[-1]}
    earlier = written(of, played(started(of), 250))[1]
    for wrong in (without, {**rows, keys[0]: earlier[keys[0]]}, earlier):
        with pytest.raises(StateCorruptError):
            cached.with_records(wrong)


def test_numbers_that_no_session_has_are_damage() -> None:
    of = stored()
    run = played(started(of), 2)
    kept = known(run.state)
    for name, value in (("slots", -1), ("spread", float("nan")), ("floor", 1.0)):
        run.state = run.state._replace(regressions=kept._replace(**{name: value}))
        with pytest.raises(CodecError):
            codec.decode(codec.encode(run), of.start())
    run.state = run.state._replace(regressions=kept)
    run.ledger.said = [1, 2, 3]
    with pytest.raises(CodecError):
        codec.decode(codec.encode(run), of.start())


def test_a_specification_that_names_other_features_is_none() -> None:
    spec = stored().encode()
    assert list(decode(spec).specification.features or ()) == ["zip", "age"]
    with pytest.raises(ValueError, match="specification"):
        decode(spec.replace(b'"features":["zip","age"]', b'"features":["zip"]'))
    assert checksum(spec)


def test_many_fresh_arms_are_merged_in_parts_before_the_next_act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.engine.run.MERGED_CELLS", 1)
    of = stored()
    runs = [played(started(of), 20) for _ in range(2)]
    for run in runs:
        for arm in range(3):
            run.settle(ArmFeedback(arm, 0.25))
    assert runs[0].merge_some()
    assert len(known(runs[0].state).fresh) == 2
    while runs[0].merge_some():
        pass
    assert runs[0].act()[:4] == runs[1].act()[:4]
    again = CachedSession.of(written(of, runs[0])[0]).with_records(written(of, runs[0])[1]).run
    np.testing.assert_array_equal(known(again.state).solved, known(runs[1].state).solved)


def test_events_of_one_request_are_learned_as_they_are_one_by_one() -> None:
    """Also behind a decision that is taken back, and where one event updates another."""
    runs = [played(started(stored()), 40) for _ in range(2)]
    x, ratios = runs[0].encoder.encode({"age": 0.9}).x, (1.0,) * 11
    visits = [Visit(), Visit(x), Visit(x, ratios), None, Visit(), Visit(x), None]
    events = [ArmFeedback(n % 3, n / 8, visit=visit, is_void=n == 4) for n, visit in enumerate(visits)]
    updated = {1: Learned(1, 0.75, 0.0)}
    found = [*events]
    runs[0].find_ratios(found, range(len(events)), updated)
    assert [event.visit is not None and event.visit.ratios is not None for event in found] == [True] * 4 + [
        False
    ] * 3
    for run, each in zip(runs, (found, events), strict=True):
        run.ledger.by_arm[:], run.ledger.outstanding = 9, 27
        for index, event in enumerate(each):
            run.apply(event, updated[index].loss if index in updated else None)
    one, other = (run.state for run in runs)
    np.testing.assert_allclose(one.mixture_sums, other.mixture_sums, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(one.sums, other.sums)
    np.testing.assert_array_equal(known(one).fresh[1], known(other).fresh[1])
