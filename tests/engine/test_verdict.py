"""Sums of a group against its decisions one by one, and the verdict against the formula written out once more."""

import math
from dataclasses import replace

import numpy as np
import pytest

from service.engine.control import Sums, group_sums, verdict
from service.engine.ledger import ArmFeedback, Expiry, LossRange, Params
from service.engine.run import expire_oldest, start_run
from service.learners import REGISTRY
from service.serialization import state as codec
from tests.support.plain_verdict import written_out


@pytest.mark.parametrize(("best", "worst", "word"), [(1, 0, "reward"), (3, 11, "loss"), (2, -2, "reward")])
def test_the_verdict_is_the_published_formula_in_the_posted_unit(best, worst, word):
    losses = LossRange(best, worst, word=word)
    learner, control = Sums(9000, 720.5, 650.25), Sums(1000, 60.25, 55.5)
    difference, half = written_out(*zip(learner, control, strict=True))
    width = abs(best - worst)

    found = verdict(learner, control, losses)

    base = worst + 60.25 / 1000 * (best - worst)
    assert found == {
        "difference": pytest.approx(difference * width),
        "low": pytest.approx((difference - half) * width),
        "high": pytest.approx((difference + half) * width),
        "lift": pytest.approx(difference * width / abs(base)),
        "confidence": 0.95,
        "is": "unclear",
    }
    doubled = verdict(Sums(9000, 2720.5, 2650.25), control, losses)
    assert doubled["is"] == "better"
    turned = verdict(control, Sums(9000, 2720.5, 2650.25), losses)
    assert (turned["is"], turned["low"]) == ("worse", pytest.approx(-doubled["high"]))


def test_there_is_no_verdict_of_few_acts_or_of_one_group():
    assert verdict(Sums(199, 9, 9), Sums(0, 0, 0), LossRange()) is None
    assert verdict(Sums(0, 0, 0), Sums(900, 9, 9), LossRange()) is None
    assert verdict(Sums(180, 9, 9), Sums(19, 1, 1), LossRange()) is None
    assert verdict(Sums(180, 9, 9), Sums(20, 1, 1), LossRange()) is not None


@pytest.mark.parametrize(
    ("best", "worst", "lift"),
    [(1.0, 0.0, 1.0), (0.0, 1.0, 1.0), (1.0, -1.0, None), (8e307, -8e307, None), (-1, -3, 0.5)],
)
def test_a_lift_is_relative_to_the_size_of_the_control_and_null_at_0(best, worst, lift):
    found = verdict(Sums(900, 900.0, 900.0), Sums(2, 1.0, 1.0), LossRange(best, worst))
    assert found["lift"] == lift
    assert all(map(math.isfinite, (found["difference"], found["low"], found["high"])))


RUNS = [
    ("multiscale_tsallis", True, 0, LossRange(1.0, 0.0, word="reward")),
    ("multiscale_tsallis", True, 9, LossRange(4.0, -4.0, word="reward")),
    ("centred_tsallis", False, 0, LossRange(1e6, 1e6 + 1)),
    ("fixed", False, 0, LossRange(0.0, 2.0, normalize=False)),
    ("tsallis_delayed", False, 0, LossRange()),
]


@pytest.mark.parametrize(("kind", "provisional", "segments", "losses"), RUNS)
@pytest.mark.parametrize("default", [None, 0.75])
def test_sums_are_those_of_the_decisions_one_by_one(kind, provisional, segments, losses, default):
    """Through events, voids, updates, expiry and removal; the state has them to the bit."""
    slots = {"max_open_slots": 500} if kind == "tsallis_delayed" else {}
    fields = {"kind": kind, "arms": ["a", "b", "c"]} | slots
    expiry = Expiry(64.0, default, provisional and default is not None)
    params = Params(REGISTRY[kind].model_validate(fields), 3, losses, expiry, max_segments=segments)
    run = start_run(params)
    draws, takes_slots = np.random.default_rng(7), kind == "tsallis_delayed"
    waiting, ended = list[tuple[float, int, int]](), list[float | None]()
    for step in range(600):
        run.advance(1e9 + step)
        while run.due:
            list(expire_oldest(run))
        limit = 1e9 + step - 65
        ended += [default for at, _, _ in waiting if math.floor(at) <= limit]
        waiting = [each for each in waiting if math.floor(each[0]) > limit]
        action = run.act(segment="s") if segments else run.act()
        waiting.append((1e9 + step, action.arm, action.slot))
        if (dice := draws.random()) < 0.5:
            _, arm, slot = waiting.pop(next(i for i, each in enumerate(waiting) if each[1] == action.arm))
            loss = float(draws.random()) * (2 if not losses.normalize else 1)
            event = ArmFeedback(arm, loss, slot if takes_slots else None, segment="s" if segments else "")
            if dice < 0.1:
                run.void(event)
            else:
                run.settle(event)
                ended.append(loss)
                if dice > 0.4 and params.learner.takes_updates:
                    run.update(event._replace(loss=loss / 2), loss)
                    ended[-1] = loss / 2
        if step == 300:
            run.change_arms(run.arms.change([], ["b"]))
            ended += [default for _, arm, _ in waiting if arm == 1]
            waiting = [each for each in waiting if each[1] != 1]
    known = [each for each in ended if each is not None] + [default] * len(waiting) * (default is not None)
    shares = np.array(known, dtype=float) if losses.normalize else losses.shares(known)
    rewards = 1 - np.array(shares)

    found = group_sums(run.ledger, losses, expiry)

    assert found == (rewards.size, pytest.approx(rewards.sum()), pytest.approx((rewards**2).sum()))
    assert default is None or found.acts == run.ledger.slot - run.ledger.voided
    assert codec.decode(codec.encode(run), run).ledger.squares == run.ledger.squares > 0
    few = replace(run.ledger, squares=1e200)  # As somebody may import it.
    assert group_sums(few, losses, expiry).squares <= found.acts
