"""One stream at the same times gives the same numbers in process and on any number of workers."""

from __future__ import annotations

import itertools
import json
import random
import time
from typing import NamedTuple

import pytest

from loadtest.replay.session import pass_time
from service.commit.cache import CachedSession
from service.engine.ledger import ArmFeedback
from service.learners import REGISTRY
from service.models.events import ArmEvent
from service.models.specification import ExpirySpec, Specification
from service.models.stored import Stored
from service.serialization import state as codec
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from service.store import open_store
from tests.support.crashing import Worker
from tests.support.examples import some_quick
from tests.support.machines import FIELDS
from tests.support.real_redis import RedisServer

WINDOW = 32.0
SLOTS = 120


class Played(NamedTuple):
    """What a stream came to: slots, arms and probabilities, and the state's bytes at the end."""

    actions: list[tuple[int, int, float]]
    state: bytes


class Stream:
    """Acts some seconds apart, most of them never clicked, some clicks later than the window."""

    def __init__(self, kind: str) -> None:
        fields = FIELDS[kind] | ({"max_open_slots": 1000} if kind in {"exp3", "bold"} else {})
        self.spec = REGISTRY[kind].model_validate({"kind": kind, "n_arms": 4} | fields)
        expiry = ExpirySpec(after_seconds=WINDOW, default_loss=1.0)
        self.session = Specification(learner=self.spec, seed=9, expiry=expiry)
        chance = random.Random(kind)
        self.gaps = [chance.choice([0.0, 0.2, 1.0, 3.0, 40.0]) for _ in range(SLOTS)]
        self.answered = [chance.choice([None, None, 1, 2, 9]) for _ in range(SLOTS)]
        """After how many further slots the click comes."""

    def clicks(self, slot: int, actions: list[tuple[int, int, float]]) -> list[tuple[int, int]]:
        """Slot and arm of the clicks that come after this slot's act."""
        return [(t, arm) for t, arm, _ in actions if self.answered[t - 1] == slot - t]

    def in_process(self, start: float) -> Played:
        run = Stored.of(self.session).start()
        actions: list[tuple[int, int, float]] = []
        now = start
        for slot, gap in enumerate(self.gaps, 1):
            now += gap
            pass_time(run, now)
            actions.append(run.act()[:3])
            for t, arm in self.clicks(slot, actions):
                event = ArmFeedback(arm, 0.0, t)
                if not run.surplus([event]):
                    run.settle(event)
        return Played(actions, CachedSession.encode(run))

    async def on_workers(self, count: int, start: float, url: str) -> Played:
        now = start
        workers = [Worker(open_store(url), lambda: now) for _ in range(count)]
        turns = itertools.cycle(workers)
        await workers[0].sessions.create("s", self.session, None)
        actions: list[tuple[int, int, float]] = []
        for slot, gap in enumerate(self.gaps, 1):
            now += gap
            answer = await next(turns).sessions.submit("s", Act(1, 10**6, single=True))
            actions.append(tuple(json.loads(answer.body).values()))
            for t, arm in self.clicks(slot, actions):
                await next(turns).sessions.submit("s", SettleFeedback([ArmEvent(arm=arm, loss=0.0, slot=t)], None))
        state = (await workers[0].store.load("s")).state
        await workers[0].sessions.delete("s")
        for worker in workers:
            await worker.store.close()
        return Played(actions, state)


@pytest.mark.parametrize("kind", some_quick(FIELDS, ["dexp3", "exp3_current"]))
@pytest.mark.slow
async def test_numbers_are_those_of_the_times_whoever_works(kind: str, redis_server: RedisServer) -> None:
    stream, start = Stream(kind), float(int(time.time()))
    alone = stream.in_process(start)
    ledger = codec.decode(alone.state, stream.spec.build().state_type, by_arm=True).ledger

    assert min(ledger.feedbacks, ledger.expired) > 10
    for count in (1, 2, 3):
        assert await stream.on_workers(count, start, redis_server.url) == alone


@pytest.mark.parametrize("kind", FIELDS)
def test_other_times_give_other_numbers(kind: str) -> None:
    """What is held above is not held by anything: a stream in one second expires nothing."""
    stream = Stream(kind)
    then = stream.in_process(1e9)
    stream.gaps = [0.0] * SLOTS

    assert stream.in_process(1e9).state != then.state
