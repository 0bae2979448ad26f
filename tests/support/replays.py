"""Plans of replays, replays over HTTP and in process, and whether both came to the same numbers."""

import uuid

import numpy as np

from loadtest.client import Client
from loadtest.replay.replay import Record, Replay
from loadtest.replay.session import Driver, HttpDriver, InProcessDriver, Plan, RateChoice, plan_session
from loadtest.replay.worlds import ArmWorld, World, bco_synthetic, mab_synthetic, strict_delays
from service.engine.ledger import LossRange
from tests.support import vectors

SLOTS = 150


def rated_world(slots: int, n_arms: int = 30) -> ArmWorld:
    """Ratings in -10..10 with two decimals."""
    ratings = np.round(np.random.default_rng(2).uniform(-10, 10, (slots, n_arms)), 2)
    return ArmWorld("rated", ratings, LossRange(10.0, -10.0))


def play(world: World, driver: Driver, **how: object) -> Record:
    return Replay(world, strict_delays(world.slots), driver).run(**how)


def both(world: World, kind: str, http: Client, **how: object) -> tuple[Record, Record]:
    plan = plan_session(world, kind, RateChoice.AUTO, 11, vectors.load(kind).get("contract", {}))
    return play(world, HttpDriver(http, plan, uuid.uuid4().hex), **how), play(world, InProcessDriver(plan))


def assert_equal(over_http: Record, in_process: Record) -> None:
    assert over_http.problems() == in_process.problems() == []
    assert over_http.expected.tolist() == in_process.expected.tolist()
    assert (over_http.losses.tolist(), over_http.digest) == (in_process.losses.tolist(), in_process.digest)
    assert over_http.counts == in_process.counts


def plan(kind: str = "dexp3", rates: RateChoice = RateChoice.AUTO, seed: int = 3, **options: object) -> Plan:
    world = mab_synthetic() if kind == "dexp3" else bco_synthetic()
    return plan_session(world, kind, rates, seed, options)
