"""The hint ``late_events``: when it comes and goes, that healthy sessions have none, and what it can't see."""

import random

import pytest

from service.store.memory import MemoryStore
from tests.support.one_session import PATH, acts, change, made, moved, patch, view

WINDOW = 64


async def opened(client, kind="centred_tsallis", arms=("a",), **fields):
    learner = {"kind": kind, "arms": list(arms)} | fields
    expiry = {"after_seconds": WINDOW, "default_reward": 0}
    await made(client, learner=learner, reward_range=[0, 1], expiry=expiry, seed=1)


async def send(client, count, **event):
    event = {"label": "a", "reward": 1} | event
    return (await client.post(f"{PATH}/feedbacks", json={"events": [event] * count})).json()["surplus"]


async def is_hinted(client):
    hints = {hint["code"]: hint["message"] for hint in (await view(client))["hints"]}
    listed = (await client.get("/v1/sessions", params={"hint": "late_events"})).json()["sessions"]
    assert len(listed) == ("late_events" in hints)
    return "after_seconds" in hints.get("late_events", "")


@pytest.mark.parametrize(("late", "windows", "expected"), [(51, 1, True), (50, 1, False), (900, 12, False)])
async def test_more_than_one_in_twenty_came_within_ten_windows_of_an_expiry(client, clock, late, windows, expected):
    await opened(client)
    await acts(client, count=10)
    clock.now += WINDOW + 2
    await acts(client, count=1)
    await send(client, 1)
    clock.now += (windows - 1) * WINDOW
    await acts(client, count=999 - late)
    await send(client, 999 - late)
    assert not await is_hinted(client)
    assert await send(client, late) == late

    assert await is_hinted(client) == expected


async def test_the_next_thousand_events_or_another_window_end_it(make_client, memory, client, clock):
    for ending in ("events", "window"):
        other = await make_client(memory)
        await opened(client)
        await acts(client, count=10)
        clock.now += WINDOW + 2
        for each in (client, other) * 2:
            assert await send(each, 250) == 250
        assert await is_hinted(other)
        if ending == "events":
            await acts(other, count=1000)
            await send(client, 999)
            assert await is_hinted(client)
            await send(client, 1)
        else:
            await patch(client, expiry={"after_seconds": 2 * WINDOW, "default_reward": 0})
        assert not await is_hinted(other)
        await client.delete(PATH)


async def test_only_the_arms_count_whose_decisions_expired(client, clock):
    """Also when others were removed before them, and some added behind."""
    await opened(client, arms=("a", "b", "c"))
    await acts(client, count=10, eligible=["c"])
    clock.now += WINDOW + 2
    await acts(client, count=10, eligible=["b"])
    await change(client, remove=["a"], add=["d"])
    for label, count, expected in (("b", 1000, False), ("d", 1000, False), ("c", 1000, True)):
        assert await send(client, count, label=label) >= 990
        assert await is_hinted(client) == expected


async def test_a_session_that_moves_takes_with_it_what_came_late(make_client, client, clock):
    await opened(client, arms=("a", "b"))
    await acts(client, count=10, eligible=["a"])
    clock.now += WINDOW + 2
    assert await send(client, 999) == 999
    elsewhere = await make_client(MemoryStore(clock=clock))
    await moved(client, elsewhere)
    await send(elsewhere, 1)

    assert await is_hinted(elsewhere)


async def test_learners_that_know_slots_have_it_and_points_have_not(client, create, clock):
    await opened(client, kind="exp3", learning_rate=0.1)
    await acts(client, count=10)
    clock.now += WINDOW + 2
    assert await send(client, 1000, slot=3) == 1000
    assert await is_hinted(client)
    await client.delete(PATH)

    learner = {"kind": "dbgd", "dim": 1, "feasible_set": {"kind": "ball", "radius": 1.0}}
    await create(session_id="s", learner=learner, expiry={"after_seconds": WINDOW})
    await acts(client, count=10)
    clock.now += WINDOW + 2
    answer = await client.post(f"{PATH}/feedbacks", json={"events": [{"losses": [0, 0]}] * 1000})
    assert answer.json()["surplus"] == 1000
    assert not await is_hinted(client)


async def shop(client, clock, seed, delay, burst):
    """1,500 clicks, half a minute or so after what was seen, by visitors who come steadily or in bursts."""
    rng, due, clicks = random.Random(seed), [], 0
    await opened(client, kind="multiscale_tsallis", arms=("a", "b", "c"))
    step = 0
    while clicks < 1500:
        step += 1
        clock.now += 2
        if step % burst == 0:
            seen = (await acts(client, count=20 * min(burst, 40)))["actions"]
            clicked = [each["label"] for each in seen if rng.random() < 0.3]
            due += [(clock.now + delay * rng.expovariate(1), label) for label in clicked]
        events = [{"label": label, "reward": 1} for at, label in due if at <= clock.now]
        due = [each for each in due if each[0] > clock.now]
        if events:
            await client.post(f"{PATH}/feedbacks", json={"events": events})
            clicks += len(events)
    return await is_hinted(client)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
async def test_a_healthy_session_has_no_such_hint(client, clock, seed):
    """Some clicks come after the window: with steady visitors they settle the decision of another."""
    assert not await shop(client, clock, seed, delay=WINDOW / 4, burst=1 + seed % 3)


@pytest.mark.slow
async def test_visitors_in_bursts_whose_clicks_come_late_are_told(client, clock):
    assert await shop(client, clock, 0, delay=3 * WINDOW, burst=100)


@pytest.mark.slow
async def test_a_window_shorter_than_every_delay_can_not_be_seen_with_steady_visitors(client, clock):
    assert not await shop(client, clock, 0, delay=3 * WINDOW, burst=1)
