"""A session with segments on two workers that share a Redis: the numbers of its twin in process."""

from __future__ import annotations

import contextlib
import random

import pytest

from service.engine.feedback import ArmFeedback
from service.models.specification import Specification
from service.models.stored import Stored
from tests.support.running import RunningService

FIELDS = {
    "learner": {"kind": "multiscale_tsallis", "n_arms": 4},
    "reward_range": [0, 1],
    "seed": 12,
    "segments": {"max": 5},
    "expiry": {"after_seconds": 3600, "default_reward": 0},
}
CONNECTIONS = 6
"""The system hands each new connection to one of the workers, so that both get some."""


@pytest.mark.processes
def test_two_workers_give_the_numbers_of_one_run(tmp_path, redis_server):
    """More segments than are kept, so that they are dropped and begun again by either worker."""
    run, chance = Stored.of(Specification.model_validate(FIELDS)).start(), random.Random(5)
    with contextlib.ExitStack() as stack:
        flags = ("--workers", "2", "--store-url", redis_server.url)
        service = stack.enter_context(RunningService(tmp_path, *flags))
        service.workers(2)
        clients = [stack.enter_context(service.client()) for _ in range(CONNECTIONS)]
        assert clients[0].post("/v1/sessions", json={"session_id": "s", **FIELDS}).status_code == 201
        waiting = []
        for _ in range(120):
            segment = f"s{chance.randrange(8)}"
            body = chance.choice(clients).post("/v1/sessions/s/act", json={"segment": segment}).json()
            action = run.act(None, segment)
            assert (body["slot"], body["arm"], body["probability"]) == action[:3]
            waiting.append((action.arm, segment))
            if chance.random() < 0.4:
                arm, segment = waiting.pop(chance.randrange(len(waiting)))
                run.settle(ArmFeedback(arm, 0.0, segment=segment))
                event = {"arm": arm, "reward": 1, "segment": segment}
                answer = chance.choice(clients).post("/v1/sessions/s/feedback", json=event)
                assert answer.json()["applied"] == 1
        view = clients[0].get("/v1/sessions/s").json()
        rows = clients[0].get("/v1/sessions/s/segments").json()["segments"]

    assert view["probabilities"] == run.probabilities.tolist()
    assert view["segments"] == 5
    kept = {name: each for name, each in run.segments.changes.items() if each is not None}
    assert [row["segment"] for row in rows] == sorted(kept)
    assert [row["slots"] for row in rows] == [kept[row["segment"]].segment.slots for row in rows]
