"""A session with segments on two workers that share a Redis: the numbers of its twin in process."""

from __future__ import annotations

import pytest

from service.engine.ledger import ArmFeedback
from tests.support.two_workers import two_workers

FIELDS = {
    "learner": {"kind": "multiscale_tsallis", "n_arms": 4},
    "reward_range": [0, 1],
    "seed": 12,
    "segments": {"max": 5},
    "expiry": {"after_seconds": 3600, "default_reward": 0},
}


@pytest.mark.processes
def test_two_workers_give_the_numbers_of_one_run(tmp_path, redis_server):
    """More segments than are kept, so that they are dropped and begun again by either worker."""
    with two_workers(tmp_path, redis_server.url, FIELDS) as (workers, run):
        waiting, chance = [], workers.chance
        for _ in range(120):
            segment = f"s{chance.randrange(8)}"
            body = workers.post("/act", {"segment": segment})
            action = run.act(None, segment)
            assert (body["slot"], body["arm"], body["probability"]) == action[:3]
            waiting.append((action.arm, segment))
            if chance.random() < 0.4:
                arm, segment = waiting.pop(chance.randrange(len(waiting)))
                run.settle(ArmFeedback(arm, 0.0, segment=segment))
                assert workers.post("/feedback", {"arm": arm, "reward": 1, "segment": segment})["applied"] == 1
        view = workers.get()
        rows = workers.get("/segments")["segments"]

    assert view["probabilities"] == run.probabilities.tolist()
    assert view["segments"] == 5
    kept = {name: each for name, each in run.segments.changes.items() if each is not None}
    assert [row["segment"] for row in rows] == sorted(kept)
    assert [row["slots"] for row in rows] == [kept[row["segment"]].segment.slots for row in rows]
