"""One session's arithmetic: a learner, its draws and its counts, stepped by acts and events.

The service applies requests to a ``Run``; an in-process replay steps the same class, so both give the same
numbers.
"""

from __future__ import annotations

from ..learners.base import ArmLearner, PointLearner, PooledLearner, ProvisionalLearner, SlotLearner
from ..learners.segments import Segments, start_shared
from .act_times import ActTimes
from .arm_run import ArmRun
from .arms import Arms
from .draws import Draws
from .kept_segments import KeptSegments
from .ledger import ArmLedger, Ledger
from .open_slots import OpenSlots
from .params import Params
from .point_run import PointRun
from .provisional_run import ProvisionalRun
from .segment_run import SegmentRun
from .slot_run import SlotRun

Run = ArmRun | PointRun
"""A run of either kind; a ``SlotRun``, a ``ProvisionalRun`` and a ``SegmentRun`` are each an ``ArmRun``."""


def start_run(params: Params) -> Run:
    """Start a run of the kind that the learner needs, before its first slot.

    Raises
    ------
    TypeError
        for a learner neither over arms nor over points, or a provisional default or segments that it can't take.
    """
    learner = params.learner.build()
    second = Draws(params.seed, stream=1) if learner.second_stream else None
    draws, state, times = Draws(params.seed), learner.start(), ActTimes.of_session(params.expiry)
    if isinstance(learner, PointLearner):
        return PointRun(params, learner, draws, second, Ledger(), state, times, ())
    if not isinstance(learner, ArmLearner):
        raise TypeError(f"{learner!r} is neither over arms nor over points")
    if params.initial:
        state = learner.warmed(state, params.initial)
    ledger, arms = ArmLedger.of(learner.n_arms), Arms.of(learner.n_arms, getattr(params.learner, "arms", None))
    if isinstance(learner, SlotLearner):
        return SlotRun(params, learner, draws, second, ledger, state, times, (), arms, OpenSlots())
    if params.max_segments:
        if not isinstance(learner, PooledLearner):
            raise TypeError(f"{learner!r} takes no segments")
        beside = (Segments(learner), start_shared(), KeptSegments(is_whole=True))
        return SegmentRun(params, learner, draws, second, ledger, state, times, (), arms, *beside)
    if params.expiry is None or not params.expiry.provisional:
        return ArmRun(params, learner, draws, second, ledger, state, times, (), arms)
    if not isinstance(learner, ProvisionalLearner):
        raise TypeError(f"{learner!r} takes no provisional default")
    return ProvisionalRun(params, learner, draws, second, ledger, state, times, (), arms)
