"""Answers made in pieces say what they would say at once, and kept ones come back as they were."""

from __future__ import annotations

import asyncio
import json
import random
import time

import numpy as np
import pytest

from service import pieces
from service.learners.dbgd import DbgdSpec
from service.operations import points_text
from service.pieces import YIELD_SECONDS, Pause, body, packed, texts, unpacked, whole

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
    monkeypatch.setattr(pieces, "PIECE", piece)
    monkeypatch.setattr(pieces, "FEW", piece)
    chance = random.Random(1)
    for _ in range(500):
        value = invented(chance)

        assert "".join(texts(value)) == json.dumps(value, separators=(",", ":"))
        assert "".join(texts(value, SORTED)) == json.dumps(value, sort_keys=True)


def test_arrays_are_written_exactly():
    numbers = np.random.default_rng(1).random((3, 2500))

    assert json.loads("".join(texts({"x": numbers, "y": list("ab")}))) == {"x": numbers.tolist(), "y": ["a", "b"]}


def test_what_is_no_json_number_is_refused():
    with pytest.raises(ValueError, match="Out of range"):
        list(texts(np.array([1.0, np.nan])))


def test_small_answers_are_whole_and_large_ones_are_not():
    assert body(texts([1, 2])) == b"[1,2]"
    assert "".join(body(texts(list(range(20_000))))) == json.dumps(list(range(20_000)), separators=(",", ":"))


@pytest.mark.parametrize("x", [np.linspace(-1, 1, 40) / 40, np.full(40, -0.0)])
async def test_a_point_is_written_as_it_is_played(x):
    learner = DbgdSpec(dim=40, feasible_set={"kind": "ball", "radius": 1.0}).build()
    state = learner.start()._replace(x=x)

    told = json.loads("".join(points_text(7, learner, state)))

    assert told == {"slot": 7, "x": x.tolist(), "query_points": learner.query_points(state).tolist()}


async def test_kept_answers_are_small_and_come_back_as_they_were():
    learner = DbgdSpec(dim=300, feasible_set={"kind": "ball", "radius": 1.0}).build()
    state = learner.start()._replace(x=np.random.default_rng(1).random(300) / 300)
    answer = "".join(points_text(1, learner, state))

    kept = await packed(points_text(1, learner, state), Pause())

    assert len(kept) < len(answer) / 10
    assert await whole(unpacked(kept), Pause()) == answer.encode()
    assert unpacked(await packed(b'{"slot":1}', Pause())) == b'{"slot":1}'


async def test_many_long_works_share_a_turn():
    """Ten works of 30 ms each: whoever waits does so for one turn of 3 ms and an end of it, not for ten."""

    async def work():
        pause, until = Pause(), time.thread_time() + 10 * YIELD_SECONDS
        while time.thread_time() < until:
            await pause()

    works = asyncio.gather(*(work() for _ in range(10)))
    rounds, started = 0, time.thread_time()
    while not works.done():
        await asyncio.sleep(0)
        rounds += 1
    spent = time.thread_time() - started
    await works

    assert spent / rounds < 3 * YIELD_SECONDS
