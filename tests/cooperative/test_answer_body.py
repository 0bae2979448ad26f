"""Answers made in pieces say what they would say at once; long works take turns, in threads one at a time."""

import asyncio
import json
import random
import threading

import numpy as np
import pytest

from service import cooperative as fair_yield
from service import cooperative as json_stream
from service.cooperative import (
    LARGE_INPUT_BYTES,
    BackgroundYield,
    FairYield,
    answer_body,
    floats_text,
    joined,
    json_chunks,
    pack,
    run_in_thread_if_large,
    unpack,
)
from service.learners.descent import DbgdSpec
from service.sessions.act import point_json

SORTED = json.JSONEncoder(sort_keys=True)


def invented(chance, depth=4):
    """Some JSON value."""
    kind = chance.randrange(7 if depth else 5)
    if kind == 5:
        return [invented(chance, depth - 1) for _ in range(chance.choice([0, 1, 3, 30]))]
    if kind == 6:
        return {f"k{chance.randrange(99)}": invented(chance, depth - 1) for _ in range(chance.choice([0, 1, 4]))}
    return [chance.random(), 'é"\\' * chance.randrange(3), None, True, chance.randrange(9)][kind]


@pytest.mark.parametrize("piece", [2, 1000])
def test_texts_say_what_json_says(monkeypatch, piece):
    monkeypatch.setattr(json_stream, "CHUNK_SCALARS", piece)
    monkeypatch.setattr(json_stream, "CHUNK_OBJECTS", piece)
    chance = random.Random(1)
    for _ in range(500):
        value = invented(chance)

        assert "".join(json_chunks(value)) == json.dumps(value, separators=(",", ":"))
        assert "".join(json_chunks(value, SORTED)) == json.dumps(value, sort_keys=True)


def test_arrays_are_written_exactly():
    numbers = np.random.default_rng(1).random((3, 2500))

    shown = json.loads("".join(json_chunks({"x": numbers, "y": list("ab")})))
    assert shown == {"x": numbers.tolist(), "y": ["a", "b"]}


def test_floats_are_written_to_the_digit():
    chance = np.random.default_rng(1)
    of_any_size = 10.0 ** chance.uniform(-310, 308, 5000) * chance.choice([-1, 1], 5000)
    mixed = np.where(chance.random(5000) < 0.3, chance.random(5000) * 1e-4, chance.random(5000))
    halves = chance.integers(1, 2 ** np.arange(1, 53)) * 2.0 ** -np.arange(1, 53)
    edges = [0.0, -0.0, 5e-324, 1e-4, np.nextafter(1e-4, 0), 1e16, np.nextafter(1e16, 0), 2.0**53, 2.0**-44, 1e22]
    for floats in (
        chance.random(5000),
        chance.uniform(1e-4, 1e16, 5000),
        of_any_size,
        mixed,
        halves,
        np.array(edges),
    ):
        for encoder in (json_stream.COMPACT, SORTED):
            assert floats_text(floats, encoder) == encoder.encode(floats.tolist())[1:-1]


def test_what_is_no_json_number_is_refused():
    with pytest.raises(ValueError, match="Out of range"):
        list(json_chunks(np.array([1.0, np.nan])))


def test_small_answers_are_whole_and_large_ones_are_not():
    assert answer_body(json_chunks([1, 2])) == b"[1,2]"
    numbers = list(range(20_000))
    assert "".join(answer_body(json_chunks(numbers))) == json.dumps(numbers, separators=(",", ":"))


@pytest.mark.parametrize("x", [np.linspace(-1, 1, 40) / 40, np.full(40, -0.0)])
async def test_a_point_is_written_as_it_is_played(x):
    learner = DbgdSpec(dim=40, feasible_set={"kind": "ball", "radius": 1.0}).build()
    state = learner.start()._replace(x=x)

    told = json.loads("".join(point_json(7, learner, state)))

    assert told == {"slot": 7, "x": x.tolist(), "query_points": learner.query_points(state).tolist()}


async def test_kept_answers_are_small_and_come_back_as_they_were():
    learner = DbgdSpec(dim=300, feasible_set={"kind": "ball", "radius": 1.0}).build()
    state = learner.start()._replace(x=np.random.default_rng(1).random(300) / 300)
    answer = "".join(point_json(1, learner, state))

    kept = await pack(point_json(1, learner, state), FairYield())

    assert len(kept) < len(answer) / 10
    assert await joined(unpack(kept), FairYield()) == answer.encode()
    assert unpack(await pack(b'{"slot":1}', FairYield())) == b'{"slot":1}'


class Clock:
    """What pauses go by: a step of work takes a little over a millisecond."""

    def __init__(self):
        self.steps = 0

    def perf_counter(self):
        return 0.00101 * self.steps


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(fair_yield, "time", clock)
    return clock


async def work(clock, pause):
    for _ in range(30):
        clock.steps += 1
        await pause()


async def turns(clock, *works):
    """Steps in each turn of the event loop until all works are done."""
    done, found, before = asyncio.gather(*works), [], clock.steps
    while not done.done():
        await asyncio.sleep(0)
        found.append(clock.steps - before)
        before = clock.steps
    return found


async def test_a_long_work_yields_when_its_turn_is_over(clock):
    assert max(await turns(clock, work(clock, FairYield()))) == 1000 * FairYield.slice_seconds


async def test_many_long_works_share_a_turn(clock):
    """Whoever waits for ten works does so for a step or two of each, not for the whole turn of each."""
    found = await turns(clock, *(work(clock, FairYield()) for _ in range(10)))

    assert sum(found) == 300
    assert max(found) <= 14


async def test_however_many_long_works_there_are_one_has_its_turn_at_a_time(clock):
    found = await turns(clock, *(work(clock, FairYield()) for _ in range(200)))

    assert sum(found) == 6_000
    assert max(found[2:]) == 1000 * FairYield.slice_seconds


async def test_works_that_are_given_up_keep_no_turn(clock):
    works = [asyncio.ensure_future(work(clock, FairYield())) for _ in range(9)]
    await asyncio.sleep(0)
    for each in works[::2]:
        each.cancel()

    done = await asyncio.gather(*works, return_exceptions=True)

    kinds = [asyncio.CancelledError, type(None)] * 4
    assert [type(outcome) for outcome in done] == [*kinds, asyncio.CancelledError]


async def test_background_work_rests_between_short_turns(clock, monkeypatch):
    rests = []

    async def sleep(seconds):
        rests.append((clock.steps, seconds))

    monkeypatch.setattr(fair_yield.asyncio, "sleep", sleep)
    await work(clock, BackgroundYield())

    assert rests == [(step, BackgroundYield.pause_seconds) for step in range(1, 31)]
    assert BackgroundYield.pause_seconds >= 2 * BackgroundYield.slice_seconds


async def test_large_works_take_turns_in_one_thread():
    def work():
        return sum(range(200_000)), threading.get_ident()

    done = await asyncio.gather(*(run_in_thread_if_large(LARGE_INPUT_BYTES, work) for _ in range(6)))

    assert len(set(done)) == 1
    assert done[0][1] != threading.get_ident()
