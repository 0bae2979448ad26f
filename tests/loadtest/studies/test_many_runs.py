"""Runs stepped together are the runs stepped alone, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from loadtest.replay import delays
from loadtest.replay.arm_worlds import mab_synthetic
from loadtest.replay.in_process_driver import InProcessDriver
from loadtest.replay.plan import World, plan_session
from loadtest.replay.quadratic_worlds import bco_synthetic
from loadtest.replay.replay import Replay
from loadtest.studies.experiments import ARM_ENTRIES, POINT_ENTRIES, Entry
from loadtest.studies.many_runs import expected_losses, uniforms
from service.engine.ledger import Draws

SEEDS = (0, 7, 2**40)
SLOTS = 200
CASES = [(mab_synthetic(SLOTS), entry) for entry in ARM_ENTRIES] + [
    (bco_synthetic(SLOTS), entry) for entry in POINT_ENTRIES
]


@pytest.mark.parametrize(("world", "entry"), CASES, ids=[entry.key for _, entry in CASES])
def test_together_and_alone(world: World, entry: Entry) -> None:
    stream = delays.strict(SLOTS)
    together = expected_losses(
        world, plan_session(world, entry.kind, entry.rates, 0, entry.options).spec, stream, SEEDS
    )

    for column, seed in enumerate(SEEDS):
        plan = plan_session(world, entry.kind, entry.rates, seed, entry.options)
        alone = Replay(world, stream, InProcessDriver(plan)).run()
        assert alone.expected.tolist() == together[:, column].tolist()


@pytest.mark.parametrize("stream", [0, 1])
def test_uniforms_are_those_of_a_session(stream: int) -> None:
    drawn = uniforms(SEEDS, 600, stream)

    for column, seed in enumerate(SEEDS):
        session = Draws(seed, stream)
        assert drawn[:, column].tolist() == [session.uniform(t) for t in range(1, 601)]


def test_the_number_of_runs_changes_none_of_them() -> None:
    world = mab_synthetic(SLOTS)
    spec = plan_session(world, "dexp3", "auto", 0, {}).spec
    few, many = (expected_losses(world, spec, delays.strict(SLOTS), range(count)) for count in (2, 9))

    assert np.array_equal(few, many[:, :2])
