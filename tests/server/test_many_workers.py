"""Sessions that several workers serve: expiry, provisional losses and segments."""

import contextlib
import itertools
import json
import random
import time
from typing import NamedTuple

import pytest

from loadtest.replay.session import pass_time
from service.engine.ledger import ArmFeedback
from service.learners import REGISTRY
from service.models.events import ArmEvent
from service.models.specification import ExpirySpec, Specification
from service.models.stored import Stored
from service.serialization import state as codec
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from service.store import open_store
from service.store.base import head_of
from tests.support.crashing import Worker
from tests.support.examples import some_quick
from tests.support.machines import FIELDS
from tests.support.running import RunningService, create

SESSION = "/v1/sessions/s"


# -- One stream at the same times gives the same numbers in process and on any number of workers.

WINDOW = 32.0
SLOTS = 120


class Played(NamedTuple):
    """What a stream came to: slots, arms and probabilities, and the state's bytes at the end."""

    actions: list[tuple[int, int, float]]
    state: bytes


class Stream:
    """Acts some seconds apart, most of them never clicked, some clicks later than the window."""

    def __init__(self, kind):
        fields = FIELDS[kind] | ({"max_open_slots": 1000} if kind in {"exp3", "bold"} else {})
        self.spec = REGISTRY[kind].model_validate({"kind": kind, "n_arms": 4} | fields)
        expiry = ExpirySpec(after_seconds=WINDOW, default_loss=1.0)
        self.session = Specification(learner=self.spec, seed=9, expiry=expiry)
        chance = random.Random(kind)
        self.gaps = [chance.choice([0.0, 0.2, 1.0, 3.0, 40.0]) for _ in range(SLOTS)]
        self.answered = [chance.choice([None, None, 1, 2, 9]) for _ in range(SLOTS)]
        """After how many further slots the click comes."""

    def clicks(self, slot, actions):
        """Slot and arm of the clicks that come after this slot's act."""
        return [(t, arm) for t, arm, _ in actions if self.answered[t - 1] == slot - t]

    def in_process(self, start):
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
        return Played(actions, codec.encode(run))

    async def on_workers(self, count, start, url):
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
        # Without what lists show besides, and what requests are counted for a hint.
        run = codec.decode(state, Stored.of(self.session).start())
        run.ledger.judged = run.ledger.late = 0
        return Played(actions, codec.encode(run))


@pytest.mark.parametrize("kind", some_quick(FIELDS, ["dexp3", "exp3_current"]))
@pytest.mark.slow
async def test_numbers_are_those_of_the_times_whoever_works(kind, redis_server):
    stream, start = Stream(kind), float(int(time.time()))
    alone = stream.in_process(start)
    ledger = codec.read_shown(head_of(alone.state)).ledger

    assert min(ledger.feedbacks, ledger.expired) > 10
    for count in (1, 2, 3):
        assert await stream.on_workers(count, start, redis_server.url) == alone


@pytest.mark.parametrize("kind", FIELDS)
def test_other_times_give_other_numbers(kind):
    """What is held above is not held by anything: a stream in one second expires nothing."""
    stream = Stream(kind)
    then = stream.in_process(1e9)
    stream.gaps = [0.0] * SLOTS

    assert stream.in_process(1e9).state != then.state


# -- A session with segments on two workers that share a Redis: the numbers of its twin in process.

SEGMENTED = {"learner": {"kind": "multiscale_tsallis", "n_arms": 4}, "reward_range": [0, 1], "seed": 12}
SEGMENTED |= {"segments": {"max": 5}, "expiry": {"after_seconds": 3600, "default_reward": 0}}


@pytest.mark.processes
def test_two_workers_give_the_numbers_of_one_run_with_segments(tmp_path, redis_server):
    """More segments than are kept, so that they are dropped and begun again by either worker."""
    run, waiting, chance = Stored.of(Specification.model_validate(SEGMENTED)).start(), [], random.Random(5)
    with contextlib.ExitStack() as stack:
        flags = ("--workers", "2", "--store-url", redis_server.url)
        service = stack.enter_context(RunningService(tmp_path, *flags))
        service.workers(2)
        # The system hands each new connection to one of the workers, so that both get some.
        clients = [stack.enter_context(service.client()) for _ in range(6)]
        create(clients[0], session_id="s", **SEGMENTED)

        def post(path, body):
            return chance.choice(clients).post(f"{SESSION}{path}", json=body).raise_for_status().json()

        for _ in range(120):
            segment = f"s{chance.randrange(8)}"
            body = post("/act", {"segment": segment})
            action = run.act(None, segment)
            assert (body["slot"], body["arm"], body["probability"]) == action[:3]
            waiting.append((action.arm, segment))
            if chance.random() < 0.4:
                arm, segment = waiting.pop(chance.randrange(len(waiting)))
                run.settle(ArmFeedback(arm, 0.0, segment=segment))
                assert post("/feedback", {"arm": arm, "reward": 1, "segment": segment})["applied"] == 1
        view = clients[0].get(SESSION).json()
        rows = clients[0].get(f"{SESSION}/segments").json()["segments"]

    assert (view["probabilities"], view["segments"]) == (run.probabilities.tolist(), 5)
    kept = {name: each for name, each in run.segments.changes.items() if each is not None}
    assert [row["segment"] for row in rows] == sorted(kept)
    assert [row["slots"] for row in rows] == [kept[row["segment"]].segment.slots for row in rows]
