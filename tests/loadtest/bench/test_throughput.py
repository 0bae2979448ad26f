"""The bench measures every target, counts what it did, and fails where an answer is wrong."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.bench import floors
from loadtest.bench.closed_loop import act_and_feedback, repeated_get, run_clients
from loadtest.bench.throughput import TARGETS, spread
from loadtest.commands import app
from loadtest.errors import ServiceError
from service.engine.feedback import ArmFeedback
from service.engine.params import Params
from service.engine.run import start_run
from service.learners.dexp3 import Dexp3Spec
from tests.support.programs import server_binary
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService


@pytest.mark.slow
@pytest.mark.alone
def test_a_tiny_run_has_every_ratio(tmp_path: Path) -> None:
    server_binary()
    arguments = ["bench", "--seconds", "0.2", "--repetitions", "2", "--clients", "4", "--out", str(tmp_path)]

    result = CliRunner().invoke(app, [*arguments, "--workers", "1"])

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    measured = summary["workers"]["1"]
    assert measured["requests_per_second"].keys() == TARGETS.keys()
    assert all(len(found["all"]) == 2 and found["min"] > 0 for found in measured["requests_per_second"].values())
    for floor, ratio in measured["service_to_floor"].items():
        rates = [measured["requests_per_second"][name]["all"] for name in ("service", floor)]
        assert ratio["all"] == [ours / theirs for ours, theirs in zip(*rates, strict=True)]
    assert summary["machine"]["versions"].keys() >= {"fastapi", "uvicorn", "redis"}
    assert "the same update as a Lua script" in result.output


def test_a_spread_is_median_and_extremes() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0, "all": [3.0, 1.0, 2.0]}


@pytest.mark.processes
def test_refusals_and_lost_connections_end_a_run(tmp_path: Path) -> None:
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        port = int(service.url.rpartition(":")[2])

        act, feedback = (f"/v1/sessions/none/{call}" for call in ("act", "feedback"))
        with pytest.raises(ServiceError, match="status 404"):
            run_clients(port, lambda: act_and_feedback(act, feedback), 2, 0.2)
        assert run_clients(port, lambda: repeated_get("/livez"), 2, 0.1).requests >= 2


def test_the_scripts_compute_what_the_learner_does(redis_server: RedisServer) -> None:
    """The floor is the same update, or it is none."""
    eta, clip, floor = floors.RATES
    spec = Dexp3Spec(n_arms=7, learning_rate=eta, loss_clip=clip, probability_floor=floor)
    run = start_run(Params(spec, seed=3))
    server = redis_server.client
    folder = Path(floors.__file__).parent / "lua"
    act, feedback = (server.register_script((folder / f"{name}.lua").read_text()) for name in ("act", "feedback"))
    chance, key = random.Random(5), "scripted"
    for slot in range(1, 200):
        u = run.draws.uniform(slot)
        drawn: Any = act(keys=[key], args=[7, repr(u)])
        assert drawn == [run.act().arm, slot]
        loss = chance.random()
        run.settle(ArmFeedback(drawn[0], loss))
        feedback(keys=[key], args=[drawn[0], loss, *floors.RATES])
    unpacked = server.eval("return cjson.encode(cmsgpack.unpack(redis.call('GET', KEYS[1]))[3])", 1, key)
    server.delete(key)

    np.testing.assert_allclose(json.loads(unpacked), run.probabilities, rtol=1e-9)
