"""Each act ends as one of four things, or is outstanding, however arms come and go on several processes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from service.commit.cache import CachedSession
from service.store import open_store
from service.store.memory import MemoryStore
from tests.support.arm_changes import balanced, change, session
from tests.support.examples import some_quick
from tests.support.one_session import KINDS, PATH, view


@pytest.mark.parametrize("kind", some_quick(KINDS, ["exp3", "clw"]))
async def test_counts_balance_with_expiry_and_changes(make_client, clock, kind):
    client = await make_client(MemoryStore(clock=clock))
    default = None if kind in ("clw", "dexp3") else 1.0
    await session(client, kind=kind, expiry={"after_seconds": 64.0, "default_loss": default})
    rng, taken, labels = random.Random(kind), [], ["a", "b", "c"]
    for number in range(200):
        clock.now += rng.uniform(0, 5)
        taken.append((await client.post(f"{PATH}/act")).json())
        if rng.random() < 0.5:
            given = taken.pop(rng.randrange(len(taken)))
            event = {"arm": given["arm"], "loss": rng.random(), "slot": given["slot"]}
            assert (await client.post(f"{PATH}/feedback", json=event)).status_code == 200
        if rng.random() < 0.1:
            leaving = rng.sample(labels, min(len(labels) - 1, rng.randrange(3)))
            await change(client, add=[f"n{number}"], remove=leaving)
            labels = [label for label in labels if label not in leaving] + [f"n{number}"]
        seen = await view(client)
        assert balanced(seen)
        assert seen["outstanding"] >= 0
        assert sum(seen["probabilities"]) == pytest.approx(1, abs=1e-12)
        assert [label for label in seen["learner"]["arms"] if label is not None] == labels
    clock.now += 200
    seen = await view(client)

    assert (seen["outstanding"], balanced(seen)) == (0, True)
    assert seen["removed"] > 0
    assert seen["expired"] > 0


class Crowd:
    """Visitors of one session on several processes, and what they were told."""

    def __init__(self, clients):
        self.clients = clients
        self.rng = random.Random(11)
        self.acts, self.settled = Counter(), Counter()
        """By arm."""
        self.removed = 0

    def some_client(self):
        return self.rng.choice(self.clients)

    async def visits(self, number, count):
        for _ in range(count):
            action = (await self.some_client().post(f"{PATH}/act")).json()
            self.acts[action["arm"]] += 1
            if self.rng.random() < 0.8:
                await self.report(action, f"{number}-{action['slot']}")

    async def report(self, action, event_id):
        """Once on each process."""
        event = {"arm": action["arm"], "loss": self.rng.random(), "slot": action["slot"], "event_id": event_id}
        answers = [await client.post(f"{PATH}/feedback", json=event) for client in self.clients]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert answers[1].json()["duplicates"] == 1
        self.settled[action["arm"]] += answers[0].json()["applied"]
        self.removed += answers[0].json().get("removed", 0)

    async def changes(self, count):
        for number in range(count):
            client = self.clients[number % 2]
            assert balanced(await change(client, add=[f"n{number}"], remove=[f"n{number - 2}"]))


async def stored(store):
    """Ledger and arms of one moment."""
    run = CachedSession.of(await store.load("s")).run
    return run.ledger, run.arms


async def keep_watching(crowd, store, done):
    while not done.is_set():
        seen = await view(crowd.some_client())
        assert balanced(seen)
        assert sum(seen["probabilities"]) == pytest.approx(1, abs=1e-9)
        ledger, arms = await stored(store)
        assert ledger.by_arm.sum() == ledger.outstanding
        assert all(ledger.by_arm[arm] == 0 or arms.is_live(arm) for arm in range(arms.size))


@pytest.mark.parametrize("kind", some_quick(["dexp3", "centred_tsallis", "exp3", "bold"], ["centred_tsallis"]))
@pytest.mark.slow
async def test_two_processes_change_arms_under_load_and_every_count_balances(make_client, redis_server, kind):
    """Random visits on two processes while arms come and go; each act ends as one of four things."""
    stores = [open_store(redis_server.url) for _ in range(2)]
    crowd = Crowd([await make_client(store) for store in stores])
    await session(crowd.clients[0], kind=kind)
    done = asyncio.Event()
    watching = asyncio.create_task(keep_watching(crowd, stores[0], done))
    await asyncio.gather(crowd.changes(30), *(crowd.visits(number, 40) for number in range(8)))
    done.set()
    await watching
    ends = [await view(client) for client in crowd.clients]

    assert ends[0] == ends[1]
    assert balanced(ends[0])
    assert (ends[0]["slot"], ends[0]["feedbacks"]) == (320, crowd.settled.total())
    assert crowd.removed <= ends[0]["removed"]
    ledger, arms = await stored(stores[0])
    left = {arm: crowd.acts[arm] - crowd.settled[arm] for arm in range(arms.size)}
    assert {arm: int(ledger.by_arm[arm]) for arm in arms.live} == {arm: left[arm] for arm in arms.live}
    assert sum(left[arm] for arm in left if not arms.is_live(arm)) == ledger.removed
    await crowd.clients[0].delete(PATH)
