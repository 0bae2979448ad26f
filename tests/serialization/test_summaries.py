"""What lists show is what views show, in few bytes."""

import json
import random

import pytest

from service.engine.run import start_run
from service.models.specification import Specification
from service.serialization import summary
from service.serialization.state import encode
from service.store.base import head_of
from tests.support.kept_states import load, names, read

LEARNER = {"kind": "centred_tsallis", "arms": ["a", "b"]}


def listed(specification, run, effective=None, *, mostly_surplus=False):
    """What lists show of a session, and what its view does of the same, as JSON."""
    chosen = specification.chosen()
    head = head_of(encode(run, effective=effective, mostly_surplus=mostly_surplus))
    view = summary.viewed(chosen, run, mostly_surplus=mostly_surplus)
    view |= {} if effective is None else {"effective_arms": effective}
    return json.dumps(summary.decode(summary.encode_about(chosen, run), head)), json.dumps(view)


@pytest.mark.parametrize("name", names())
def test_kept_sessions_are_listed_as_they_are_viewed(name):
    _, cached = read(load(name))

    effective = summary.effective_arms_of(cached.run)
    shown, viewed = listed(cached.stored.specification, cached.run, effective, mostly_surplus=True)

    assert shown == viewed
    assert json.loads(shown)["hints"][-1]["code"] == "mostly_surplus"


@pytest.mark.parametrize("most", [0, 127, 128, 40_000, 2**31, 2**62])
def test_counts_of_any_size_and_rewards_are_listed_as_they_are_viewed(most):
    specification = Specification.model_validate({"learner": LEARNER, "reward_range": [-2, 2]})
    run = start_run(specification.params(1))
    chance = random.Random(most)
    for field in ("slot", "feedbacks", "outstanding", "expired", "removed", "voided", "total_delay", "losses"):
        setattr(run.ledger, field, chance.randint(most // 2, most))
    run.ledger.mean_loss = 0.1 + 0.2

    shown, viewed = listed(specification, run, 1.5)

    assert shown == viewed


def data_of(learner=None):
    """Both parts of what lists show of a session."""
    specification = Specification.model_validate({"learner": learner or {"kind": "dexp3", "n_arms": 100}})
    run = start_run(specification.params(1))
    return summary.encode_about(specification.chosen(), run), head_of(encode(run, effective=2.0))


@pytest.mark.parametrize(
    ("about", "data"),
    [
        (lambda about: about, lambda data: data[:-1]),
        (lambda about: about, lambda data: data[:3]),
        (lambda about: about, lambda data: bytes([data[0], data[1] - 1]) + data[2:]),
        (lambda about: about, lambda data: b"\2" + data[1:]),
        (lambda about: about, lambda _: b""),
        (lambda _: b"{}", lambda data: data),
        (lambda _: data_of(LEARNER)[0], lambda data: data),
        (lambda about: about.replace(b'"summary"', b'"other"'), lambda data: data),
        (lambda about: about.replace(b'"anytime"', b'"anytime"' + b',"more"' * 60), lambda data: data),
        (lambda about: about.replace(b'"summary":[', b'"summary":"all names","other":['), lambda data: data),
    ],
)
def test_what_nobody_wrote_is_not_shown(about, data):
    whole = data_of()
    assert summary.decode(*whole) is not None

    assert summary.decode(about(whole[0]), data(whole[1])) is None
