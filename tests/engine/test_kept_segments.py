"""Segments between their uses: arms that changed meanwhile, and the memory that they may take."""

import numpy as np
import pytest

from service.engine import segment_run as kept_segments
from service.engine.segment_run import KeptSegment, KeptSegments
from service.models.specification import Specification
from service.models.stored import Stored


def segment_of(live, last_slot=0):
    """A segment with numbers of its own for each arm."""
    kept, p = KeptSegment.of(live), np.arange(1.0, len(live) + 1)
    drawn = np.tile(p / p.sum(), (3, 1))
    segment = kept.segment._replace(sums=10 * p, pool=p / p.sum(), drawn=drawn, full=drawn)
    return kept._replace(segment=segment, last_slot=last_slot)


def started(arms):
    fields = {"learner": {"kind": "centred_tsallis", "arms": arms}, "segments": {"max": 5}}
    return Stored.of(Specification.model_validate(fields)).start()


def test_changes_of_arms_reach_a_segment_when_it_is_used():
    """Entries of arms that are gone drop out of S, those of new arms are 0; q and e are scaled."""
    run = started(["a", "b", "c"])
    kept = segment_of([0, 1, 2])
    run.change_arms(run.arms.change(["d", "e"], ["a"]))
    run.change_arms(run.arms.change(["f"], ["d"]))

    fitted = run.fitted(kept)

    assert list(fitted.live) == list(run.arms.live) == [1, 2, 4, 5]
    assert fitted.segment.sums.tolist() == [20, 30, 0, 0]
    shares = [0.5 * 2 / 5, 0.5 * 3 / 5, 0.25, 0.25]
    np.testing.assert_allclose(fitted.segment.pool, shares, rtol=1e-12)
    np.testing.assert_allclose(fitted.segment.drawn, [shares] * 3, rtol=1e-12)
    assert kept.segment.sums.tolist() == [10, 20, 30]
    assert run.fitted(fitted) is fitted


def test_where_all_arms_are_others_nothing_is_left():
    run = started(["a", "b"])
    run.change_arms(run.arms.change(["c", "d", "e"], ["a", "b"]), adds_first=True)

    segment = run.fitted(segment_of([0, 1])).segment

    assert (segment.sums.tolist(), segment.pool.tolist()) == ([0, 0, 0], [1 / 3] * 3)


def test_the_memory_that_segments_take_is_bounded(monkeypatch):
    """Those changed least recently are forgotten, and must be read again."""
    one = segment_of(list(range(1000)))
    monkeypatch.setattr(kept_segments, "MAX_BYTES", 3 * one.nbytes)
    segments = KeptSegments().read({"none": None, **{f"s{n}": one for n in range(5)}}, [])
    for name in ("s0", "s5"):
        segments.put(name, one)
    segments = segments.written()

    segments.trim()

    assert list(segments.known) == ["s4", "s0", "s5"]
    assert segments.nbytes == 3 * one.nbytes
    with pytest.raises(LookupError):
        segments.get("s1")
