"""Replays over HTTP against the service as a user starts it: bit for bit what runs in process."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from loadtest.client import Client
from loadtest.replay.arm_worlds import mab_synthetic
from loadtest.replay.http_driver import HttpDriver
from loadtest.replay.in_process_driver import InProcessDriver
from loadtest.replay.plan import RateChoice, plan_session, plays_points
from loadtest.replay.quadratic_worlds import bco_synthetic
from loadtest.replay.replay import Record
from service.learners import REGISTRY
from tests.support.examples import some_quick
from tests.support.http import http_client
from tests.support.replays import SLOTS, assert_equal, both, play, rated_world


@pytest.mark.parametrize("kind", some_quick(sorted(REGISTRY), {"centred_tsallis", "dbgd", "dexp3", "exp3"}))
def test_both_ways_give_the_same_numbers_to_the_last_bit(url: str, kind: str) -> None:
    world = (bco_synthetic if plays_points(kind) else mab_synthetic)(SLOTS)
    with http_client(url) as http:
        assert_equal(*both(world, kind, Client(http)))


@pytest.mark.slow
def test_ratings_give_the_same_numbers_to_the_last_bit(url: str) -> None:
    with http_client(url) as http:
        assert_equal(*both(rated_world(400), "dexp3", Client(http)))


@pytest.mark.parametrize("at_once", [1, 32])
@pytest.mark.slow
def test_replays_side_by_side_are_as_each_alone(url: str, at_once: int) -> None:
    """Sessions with one seed, each with a client of its own: the same actions, losses and hash, twice over."""
    world = mab_synthetic(20)
    plan = plan_session(world, "dexp3", RateChoice.AUTO, 11, {})

    def one(_: int) -> Record:
        with http_client(url) as http:
            return play(world, HttpDriver(Client(http), plan, uuid.uuid4().hex))

    alone = play(world, InProcessDriver(plan))
    with ThreadPoolExecutor(at_once) as pool:
        for record in pool.map(one, range(2 * at_once)):
            assert_equal(record, alone)
