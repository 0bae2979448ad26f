"""The bench measures every target, counts what it did, and fails where an answer is wrong."""

from __future__ import annotations

import json
import random
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.bench import floors
from loadtest.bench.closed_loop import act_and_feedback, posts, run_clients
from loadtest.bench.measured import spread
from loadtest.bench.targets import CALLS, IN_MEMORY, IN_REDIS, LABELS, TOGETHER, Options, acted, of_service
from loadtest.bench.throughput import cut_off
from loadtest.bench.wrk import find_wrk
from loadtest.commands import app
from loadtest.commands.bench import Part
from loadtest.errors import ServiceError
from service.engine.ledger import ArmFeedback, Params
from service.engine.run import start_run
from service.learners.dexp3 import Dexp3Spec
from tests.support.http import http_client
from tests.support.programs import server_binary
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService

HAS_RIVER = find_spec("river") is not None
NEEDS_WRK = pytest.mark.skipif(find_wrk() is None, reason="wrk is not installed")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("generator", ["--no-wrk", pytest.param("--wrk", marks=NEEDS_WRK)])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_tiny_run_has_every_ratio(tmp_path: Path, generator: str, workers: int) -> None:
    server_binary()
    arguments = ["bench", "--seconds", "0.2", "--repetitions", "2", "--clients", "4", "--out", str(tmp_path)]

    arguments += ["--workers", str(workers), "--sessions", "3", generator]
    result = CliRunner().invoke(app, [*arguments, *(f"--without={part}" for part in Part)])

    assert result.exit_code == 0, result.output
    assert ("river is left out: it is not installed" in result.output) == (not HAS_RIVER)
    assert ("river in Redis, locked: 3 sessions" in result.output) == HAS_RIVER
    summary = json.loads((tmp_path / "summary.json").read_text())
    measured = summary["workers"][str(workers)]
    names = set(LABELS) - set(IN_MEMORY if HAS_RIVER and workers > 1 else () if HAS_RIVER else IN_MEMORY + IN_REDIS)
    assert measured["per_second"].keys() == measured["cpu_microseconds"].keys() == names
    assert all(len(found["all"]) == 2 and found["min"] > 0 for found in measured["per_second"].values())
    for floor, ratios in measured["rate_over"].items():
        for name, ratio in ratios.items():
            rates = [measured["per_second"][each]["all"] for each in (name, floor)]
            assert ratio["all"] == [ours / theirs for ours, theirs in zip(*rates, strict=True)]
    latency = {name: each["median"] for name, each in measured["open_loop_milliseconds"].items()}
    assert latency["p99"] >= latency["p50"] > 0
    assert len(measured["open_loop_milliseconds"]["p99"]["all"]) == 2
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

        with http_client(service.url) as client:
            client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}})
        bodies = iter([b'{"count":2}'] * 5)
        assert run_clients(port, lambda: posts("/v1/sessions/s/acts", bodies), 2, 30).requests == 5


@pytest.mark.processes
def test_events_are_prepared_for_a_turn_and_sent_once(tmp_path: Path) -> None:
    with RunningService(tmp_path, "--store-url", "memory://") as service, http_client(service.url) as client:
        service.wait_ready()
        client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}})

        bodies = acted(f"{service.url}/v1/sessions/s/acts", 3, (TOGETHER + 1) / CALLS)
        shared = iter(bodies)
        port = int(service.url.rpartition(":")[2])
        sent = run_clients(port, lambda: posts("/v1/sessions/s/feedbacks", shared), 2, 30).requests

        view = client.get("/v1/sessions/s").json()
    assert sent == len(bodies) == 2 * TOGETHER
    assert view["slot"] == view["feedbacks"] == 3 * sent


def test_wrk_may_leave_a_request_of_each_client_in_each_turn() -> None:
    """The sessions may count so many acts and events more than were acknowledged."""
    options = Options(seconds=1, repetitions=2, clients=4, n_arms=2, workers=[1], bulk=100, wrk="wrk")
    targets = of_service("http://127.0.0.1:1", [], options, {})

    single, rounds = 7, 3
    assert cut_off(options, targets.values()) == 4 * rounds * (single + options.bulk)
    assert cut_off(options._replace(wrk=None), targets.values()) == 0


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
