"""A session with a provisional default on two workers that share a Redis: the numbers of its twin in process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.engine.ledger import ArmFeedback
from tests.support.running import RunningService
from tests.support.two_workers import CONNECTIONS, two_workers

FIELDS = {
    "learner": {"kind": "multiscale_tsallis", "n_arms": 5},
    "loss_range": [1, 0],
    "seed": 11,
    "expiry": {"after_seconds": 3600, "default_loss": 0},
}


@pytest.mark.processes
def test_two_workers_give_the_numbers_of_one_run(tmp_path, redis_server):
    with two_workers(tmp_path, redis_server.url, FIELDS) as (workers, run):
        arms, chance = [], workers.chance
        for _ in range(100):
            body = workers.post("/act")
            action = run.act()
            assert (body["slot"], body["arm"], body["probability"]) == action[:3]
            arms.append(action.arm)
            if chance.random() < 0.4:
                arm = arms.pop(chance.randrange(len(arms)))
                run.settle(ArmFeedback(arm, 0.0))
                assert workers.post("/feedback", {"arm": arm, "loss": 1})["applied"] == 1
        view = workers.get()

    assert view["probabilities"] == run.probabilities.tolist()
    assert view["outstanding"] == run.ledger.outstanding == len(arms)


@pytest.mark.processes
def test_acts_and_clicks_at_once_are_each_counted_once(tmp_path, redis_server):
    with RunningService(tmp_path, "--workers", "2", "--store-url", redis_server.url) as service:
        service.workers(2)
        with service.client() as client:
            client.post("/v1/sessions", json={"session_id": "s", **FIELDS})

        def visit(_: int) -> int:
            with service.client() as client:
                for _ in range(8):
                    arm = client.post("/v1/sessions/s/act").json()["arm"]
                    client.post("/v1/sessions/s/feedback", json={"arm": arm, "loss": 1}).raise_for_status()
            return 8

        with ThreadPoolExecutor(CONNECTIONS) as threads:
            visits = sum(threads.map(visit, range(CONNECTIONS)))
        with service.client() as client:
            view = client.get("/v1/sessions/s").json()

    assert (view["slot"], view["feedbacks"], view["outstanding"]) == (visits, visits, 0)
    assert sum(view["probabilities"]) == pytest.approx(1, abs=1e-12)
