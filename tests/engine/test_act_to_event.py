"""How long ago the act was that an event settles: to half a bucket, against a record of every act."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

from service.engine.arm_run import ArmRun
from service.engine.ledger import PER_WINDOW, ArmAction, ArmFeedback, Expiry, Params, PointAction, PointFeedback
from service.engine.run import Run, start_run
from service.learners import REGISTRY

WINDOW = 640.0
HALF = WINDOW / PER_WINDOW / 2
ARMS = {"kind": "dexp3", "n_arms": 4}
SLOTS = {"kind": "exp3", "n_arms": 4, "learning_rate": 0.1}
POINTS = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}


def start(spec: dict[str, Any], expiry: bool = True) -> Run:
    learner = REGISTRY[spec["kind"]].model_validate(spec)
    return start_run(Params(learner, 5, expiry=Expiry(WINDOW, None) if expiry else None))


def event(action: ArmAction | PointAction) -> ArmFeedback | PointFeedback:
    if isinstance(action, ArmAction):
        return ArmFeedback(action.arm, 0.5, action.slot)
    return PointFeedback(np.full(3, 0.5))


@pytest.mark.parametrize("spec", [ARMS, SLOTS, POINTS])
def test_the_act_an_event_settles_is_found_to_half_a_bucket(spec: dict[str, Any]) -> None:
    run, rng, now = start(spec), np.random.default_rng(3), 1e9
    waiting: list[tuple[float, ArmAction | PointAction]] = []
    oldest: dict[int, deque[float]] = {}
    checked = 0
    for _ in range(600):
        now += float(rng.exponential(1))
        run.advance(now)
        if rng.random() < 0.55 or not waiting:
            action = run.act()
            waiting.append((now, action))
            oldest.setdefault(getattr(action, "arm", 0), deque()).append(now)
            continue
        acted_at, action = waiting.pop(int(rng.integers(len(waiting))))
        queue = oldest[getattr(action, "arm", 0)]
        if spec is SLOTS:
            queue.remove(acted_at)
        else:
            acted_at = queue.popleft()
        delay = run.delay(event(action))
        assert delay is not None
        assert abs(delay - (now - acted_at)) <= HALF * 1.000001
        run.settle(event(action))
        checked += 1
    assert checked > 150
    assert not run.due


def test_without_expiry_no_times_are_kept() -> None:
    run = start(ARMS, expiry=False)

    assert run.delay(event(run.act())) is None


def test_delays_of_a_batch_are_those_of_its_events_one_by_one() -> None:
    run, rng = start(ARMS), np.random.default_rng(3)
    assert isinstance(run, ArmRun)
    for step in range(100):
        run.advance(1e9 + 5.0 * step)
        run.act()
    arms = [arm for arm, count in enumerate(run.ledger.by_arm.tolist()) for _ in range(count)]
    arms = rng.permutation(arms)[:60].tolist()

    together, alone = run.delays(arms), []
    for arm in arms:
        alone.append(run.delay(ArmFeedback(arm, 0.5)))
        run.settle(ArmFeedback(arm, 0.5))

    assert together == alone
    assert len(set(together)) > 30
