"""When outstanding decisions were taken: the delay of an event, and that what is outstanding falls by expiry."""

from collections import deque
from functools import cache

import numpy as np
import pytest

from loadtest.replay.session import pass_time
from service.engine.arm_run import ArmRun
from service.engine.ledger import PER_WINDOW, ArmAction, ArmFeedback, Expiry, Params, PointFeedback
from service.engine.run import start_run
from service.learners import REGISTRY

WINDOW = 640.0
HALF = WINDOW / PER_WINDOW / 2
ARMS = {"kind": "dexp3", "n_arms": 4}
SLOTS = {"kind": "exp3", "n_arms": 4, "learning_rate": 0.1}
POINTS = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}


def start(spec, expiry=True):
    learner = REGISTRY[spec["kind"]].model_validate(spec)
    return start_run(Params(learner, 5, expiry=Expiry(WINDOW, None) if expiry else None))


def event(action):
    if isinstance(action, ArmAction):
        return ArmFeedback(action.arm, 0.5, action.slot)
    return PointFeedback(np.full(3, 0.5))


@pytest.mark.parametrize("spec", [ARMS, SLOTS, POINTS])
def test_the_act_an_event_settles_is_found_to_half_a_bucket(spec):
    run, rng, now = start(spec), np.random.default_rng(3), 1e9
    waiting = []
    oldest = {}
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


def test_without_expiry_no_times_are_kept():
    run = start(ARMS, expiry=False)

    assert run.delay(event(run.act())) is None


def test_delays_of_a_batch_are_those_of_its_events_one_by_one():
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


SHORT = 16.0
COUNT = 2000


@cache
def unanswered(kind, expiry, **fields):
    """A slot a second, and no feedback."""
    run = start_run(Params(REGISTRY[kind].model_validate({"kind": kind, "n_arms": 4} | fields), 3, expiry=expiry))
    for t in range(COUNT):
        pass_time(run, 1e6 + t)
        run.act()
    return run


@pytest.mark.parametrize("loss", [0.5, None])
@pytest.mark.parametrize(("kind", "fields"), [("dexp3", {}), ("centred_tsallis", {}), ("clw", {"max_delay": 17})])
def test_no_more_is_outstanding_than_the_window_holds(kind, fields, loss):
    fields = fields | ({"learning_rate": 0.1} if kind == "clw" else {})
    run = unanswered(kind, Expiry(SHORT, loss), **fields)

    assert run.ledger.outstanding <= SHORT + 2
    assert run.ledger.expired == COUNT - run.ledger.outstanding
    assert run.ledger.total_delay <= COUNT * (SHORT + 2)


@pytest.mark.parametrize("loss", [0.5, None])
def test_the_anytime_rate_of_dexp3_falls_no_faster_than_with_delays_of_a_window(loss):
    """eta = 2 sqrt((1 + ln K)/(K t + D)): D is about 17 t with expiry and t^2/2 without."""
    on, off = (unanswered("dexp3", expiry).state for expiry in (Expiry(SHORT, loss), None))

    assert on.delay_sum <= COUNT * (SHORT + 2)
    assert off.delay_sum == COUNT * (COUNT - 1) // 2
    assert on.learning_rate > 5 * off.learning_rate


@pytest.mark.parametrize("loss", [0.5, None])
def test_the_pool_of_centred_tsallis_is_of_the_window_alone(loss):
    on, off = (unanswered("centred_tsallis", expiry).state for expiry in (Expiry(SHORT, loss), None))

    assert on.outstanding <= SHORT + 2
    assert off.outstanding == 1000


def test_a_dropped_decision_is_a_slot_and_no_loss():
    dropped, told = (unanswered("centred_tsallis", Expiry(SHORT, loss)).state for loss in (None, 0.5))

    assert (dropped.t, dropped.events, dropped.mean, dropped.variance_sum) == (COUNT, 0, 0, 0)
    assert (told.t, told.events, told.mean) == (COUNT, COUNT - told.outstanding, 0.5)
