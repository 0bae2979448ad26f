"""u_t is the t-th double of numpy's Philox stream, wherever one starts reading."""

import numpy as np
import pytest

from service.engine.ledger import BLOCK, Draws

SEEDS = [0, 1, 12345, 2**63 - 1, 2**128 - 1]


def stream(seed: int, counter: list[int], count: int) -> list[float]:
    return np.random.Generator(np.random.Philox(key=seed, counter=counter)).random(count).tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_first_stream_is_numpys(seed: int) -> None:
    expected = np.random.Generator(np.random.Philox(key=seed)).random(3 * BLOCK + 5).tolist()
    draws = Draws(seed)

    assert [draws.uniform(t) for t in range(1, len(expected) + 1)] == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_second_stream_starts_at_another_counter(seed: int) -> None:
    expected = stream(seed, [0, 0, 0, 1], 2 * BLOCK)
    draws = Draws(seed, stream=1)

    assert [draws.uniform(t) for t in range(1, len(expected) + 1)] == expected
    assert expected[:8] != [Draws(seed).uniform(t) for t in range(1, 9)]


def test_slots_may_be_read_in_any_order() -> None:
    expected = stream(7, [0, 0, 0, 0], 5 * BLOCK)
    draws = Draws(7)
    order = np.random.default_rng(0).permutation(len(expected))

    assert all(draws.uniform(int(i) + 1) == expected[i] for i in order)


@pytest.mark.parametrize("t", [10**6, 10**9 + 3, 2**53 - 1])
def test_far_slots_are_reached_by_jumping(t: int) -> None:
    """Block c of the counter holds doubles 4c+1 .. 4c+4."""
    counter, place = divmod(t - 1, 4)

    assert Draws(99).uniform(t) == stream(99, [counter, 0, 0, 0], 4)[place]


@pytest.mark.parametrize(("t", "count"), [(1, 1), (1, BLOCK), (1, BLOCK + 1), (60, 10), (65, 200), (10**9, 3)])
def test_many_uniforms_are_those_of_each_slot(t: int, count: int) -> None:
    """Also behind draws of single slots, and before them."""
    expected = [Draws(5).uniform(t + place) for place in range(count)]
    draws = Draws(5)

    assert draws.uniforms(t, count).tolist() == expected
    assert [draws.uniform(t), draws.uniform(t + count - 1)] == [expected[0], expected[-1]]
    assert (draws.uniforms(t, count).tolist(), draws._doubles.nbytes) == (expected, 8 * BLOCK)
