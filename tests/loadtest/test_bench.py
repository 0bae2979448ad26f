"""The bench measures every target, counts what it did, and fails where an answer is wrong."""

import json
import os
import pickle
import random
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.bench import capacity, floors, turns
from loadtest.bench.floors import LOCKED_PATH, MEMORY_PATH, PEERS_ARMS, PEERS_REDIS
from loadtest.bench.footprint import stored_bytes
from loadtest.bench.load import act_and_feedback, find_wrk, request, run_clients, sent
from loadtest.bench.measured import spread
from loadtest.bench.report import GOALS, MARKS, compared, section, spread_cell
from loadtest.bench.throughput import IN_MEMORY, IN_REDIS, LABELS, PARTS
from loadtest.commands import app
from loadtest.errors import ServiceError
from loadtest.processes import children
from loadtest.study.page import page_with
from service.engine.ledger import ArmFeedback, Params
from service.engine.run import start_run
from service.learners.dexp3 import Dexp3Spec
from tests.support.http import http_client
from tests.support.pages import ROOT
from tests.support.programs import server_binary
from tests.support.running import RunningService

HAS_RIVER = find_spec("river") is not None
NEEDS_WRK = pytest.mark.skipif(find_wrk() is None, reason="wrk is not installed")


@pytest.mark.alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("generator", ["--no-wrk", pytest.param("--wrk", marks=NEEDS_WRK)])
def test_a_tiny_run_has_every_ratio(tmp_path, generator):
    server_binary()
    arguments = ["bench", "--seconds", "0.2", "--repetitions", "2", "--clients", "4", "--out", str(tmp_path)]

    arguments += ["--sessions", "3", generator, *(f"--part={part}" for part in PARTS)]
    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0, result.output
    assert ("river is left out: it is not installed" in result.output) == (not HAS_RIVER)
    assert ("river in Redis, locked: 3 sessions" in result.output) == HAS_RIVER
    measured = json.loads((tmp_path / "summary.json").read_text())["rates"]
    names = set(LABELS) - set(() if HAS_RIVER else IN_MEMORY + IN_REDIS)
    assert measured["per_second"].keys() == measured["cpu_microseconds"].keys() == names
    assert all(len(found["all"]) == 2 and found["min"] > 0 for found in measured["per_second"].values())
    for name, ratio in measured["rate_over"].items():
        rates = [measured["per_second"][each]["all"] for each in (name, "nothing")]
        assert ratio["all"] == [ours / theirs for ours, theirs in zip(*rates, strict=True)]
    latency = {name: each["median"] for name, each in measured["open_loop_milliseconds"].items()}
    assert latency["p99"] >= latency["p50"] > 0
    assert len(measured["open_loop_milliseconds"]["p99"]["all"]) == 2
    assert measured["shares"]["conflict"]["hot"]["max"] == 0
    assert "the same update as a Lua script" in result.output


@pytest.mark.processes
def test_refusals_and_lost_connections_end_a_run(tmp_path):
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        port = int(service.url.rpartition(":")[2])

        act, feedback = (f"/v1/sessions/none/{call}" for call in ("act", "feedback"))
        with pytest.raises(ServiceError, match="status 404"):
            run_clients(port, lambda: act_and_feedback(act, feedback), 2, 0.2)

        with http_client(service.url) as client:
            client.post("/v1/sessions", json={"session_id": "s", "learner": {"kind": "dexp3", "n_arms": 2}})
        acts = iter([request("POST", "/v1/sessions/s/acts", b'{"count":1000}')] * 5)
        assert run_clients(port, lambda: sent(acts), 8, 30).requests == 5


def test_the_scripts_compute_what_the_learner_does(redis_server):
    """The floor is the same update, or it is none."""
    eta, clip, floor = floors.RATES
    spec = Dexp3Spec(n_arms=7, learning_rate=eta, loss_clip=clip, probability_floor=floor)
    run = start_run(Params(spec, seed=3))
    server = redis_server.client
    folder = Path(floors.__file__).parent / "lua"
    act, feedback = (server.register_script((folder / f"{name}.lua").read_text()) for name in ("act", "feedback"))
    chance, key = random.Random(5), "scripted"
    for slot in range(1, 200):
        drawn = act(keys=[key], args=[7, repr(run.draws.uniform(slot))])
        assert drawn == [run.act().arm, slot]
        loss = chance.random()
        run.settle(ArmFeedback(drawn[0], loss))
        feedback(keys=[key], args=[drawn[0], loss, *floors.RATES])
    unpacked = server.eval("return cjson.encode(cmsgpack.unpack(redis.call('GET', KEYS[1]))[3])", 1, key)
    server.delete(key)

    np.testing.assert_allclose(json.loads(unpacked), run.probabilities, rtol=1e-9)


PAGE = ROOT / "docs" / "performance.md"
BEYOND_SMALL_SIZES = {goal.name for goal in GOALS if goal.sessions}
NOT_COUNTED_YET = {"README's commits that are plain, share"}
"""Until the store counts them."""


@pytest.mark.recipes
@pytest.mark.alone
@pytest.mark.timeout(400)
@pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc")
def test_a_small_run_measures_all_parts(tmp_path):
    server_binary()
    page = tmp_path / "performance.md"
    page.write_text("\n\n".join(MARKS))
    before = children(os.getpid())
    small = ["--seconds=0.2", "--repetitions=1", "--clients=4", "--sessions=30", "--no-wrk"]

    result = CliRunner().invoke(app, ["bench", *small, f"--out={tmp_path}", f"--page={page}"])

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {goal.name for goal, found in compared(summary) if found is None} - NOT_COUNTED_YET == BEYOND_SMALL_SIZES
    assert section(summary) in page.read_text()
    assert "start until ready" in result.output
    assert json.loads((tmp_path / "results" / "bench.json").read_text()) == summary
    assert "1,000 acts at 1,000 arms" in result.output
    assert set(children(os.getpid())) <= set(before)


@pytest.mark.parametrize(
    ("text", "flags", "reason"),
    [(f"{MARKS[0]}\n", [], "lacks"), ("\n".join(MARKS), ["--part=start"], "all parts"), (None, [], "lacks")],
)
def test_a_page_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, text, flags, reason):
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)

    result = CliRunner().invoke(app, ["bench", *flags, f"--page={page}", f"--out={tmp_path / 'out'}"])

    assert result.exit_code == 2
    assert reason in result.output
    assert (page.read_text() if page.exists() else None) == text
    assert not (tmp_path / "out").exists()


def test_the_page_is_what_the_command_writes():
    """Numbers written by hand are faults: after a change of its words, write the page again."""
    summary = json.loads((PAGE.parent / "results" / "bench.json").read_text())

    text = PAGE.read_text()

    assert page_with(text, MARKS, section(summary)) == text
    assert {goal.name for goal, found in compared(summary) if found is None} <= NOT_COUNTED_YET


@pytest.mark.parametrize(("name", "good", "bad"), [("one session, over N", 0.6, 0.61), (GOALS[4].name, 80, 79)])
def test_a_goal_is_reached_at_its_number(name, good, bad):
    (goal,) = (each for each in GOALS if each.name == name)

    assert goal.is_reached(good)
    assert not goal.is_reached(bad)


def test_a_spread_is_shown_where_there_is_one():
    assert spread_cell({"median": 2.0, "min": 1.0, "max": 30.0}) == "2.00 (1.00 to 30.0)"
    assert (spread_cell({"median": 2.0, "min": 2.0, "max": 2.0}), spread_cell(None)) == ("2.00", "")
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0, "all": [3.0, 1.0, 2.0]}


async def test_another_answer_than_expected_ends_the_measurement(monkeypatch):
    monkeypatch.setitem(turns.ALL, "many_acts", turns.LARGE_REQUESTS["many_acts"]._replace(status=418))

    with pytest.raises(ServiceError, match="status 200"):
        await turns.longest_turn("many_acts", lambda: 0.0)


@pytest.mark.processes
def test_bytes_are_measured():
    """A vector of 3,000 arms is written once in many requests; one of 500 in each commit."""
    found = stored_bytes(clients=1, seconds=1, sessions=20, n_arms=(500, 3000))

    assert found["log_bytes"]["500"] > 500 * 8
    assert 100 < found["log_bytes"]["3000"] < 3000 * 8 / 2
    assert all(0.3 < each <= 1 for each in found["requests_per_commit"].values())
    assert 1_000 < found["idle_memory"]["redis"] < 20_000


@pytest.mark.processes
def test_the_capacity_page_has_what_was_measured_of_each_kind(monkeypatch, tmp_path):
    monkeypatch.setattr(capacity, "CALLS", 2)
    (page := tmp_path / "page.md").write_text("\n".join(["# Before", *capacity.MARKS, "after"]))
    kinds = ["--learner", "dexp3", "--learner", "tsallis_delayed", "--n-arms", "101"]
    sizes = ["--sessions", "300", "--seconds", "0.2", "--clients", "2", "--out", str(tmp_path), "--page", str(page)]
    ran = CliRunner().invoke(app, ["capacity", *kinds, *sizes])

    assert ran.exit_code == 0, ran.output
    (head, _, *memory), (_, _, *times) = (each.split("\n") for each in page.read_text().split("\n\n")[2:4])
    assert head == " | ".join(capacity.MEMORY)
    cells = [row.split(" | ") for row in memory]
    assert [each[:2] for each in cells] == [["`dexp3`", "101"], ["`tsallis_delayed`", "101"]]
    assert all(500 < float(each[2]) * 1000 < 50_000 and 20 < float(each[5]) < 500 for each in cells)
    assert len(times) == 2
    refused = CliRunner().invoke(app, ["capacity", "--learner", "ogd", "--out", str(tmp_path)])
    assert (refused.exit_code, "ogd is not measured" in refused.output) == (2, True)


SESSION = 7


@pytest.mark.skipif(not HAS_RIVER, reason="needs the extra peers")
@pytest.mark.parametrize("path", [MEMORY_PATH, LOCKED_PATH])
async def test_a_session_acts_and_learns(redis_server, monkeypatch, path):
    from loadtest.bench.peers import make_app

    monkeypatch.setenv(PEERS_ARMS, "5")
    monkeypatch.setenv(PEERS_REDIS, redis_server.url)
    path = path.format(session=SESSION)
    transport = httpx.ASGITransport(make_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://peers") as client:
        drawn = (await client.post(f"{path}/act")).raise_for_status().json()
        assert (drawn["session"], drawn["arm"] in range(5)) == (SESSION, True)
        event = {"arm": drawn["arm"], "loss": 0.0}
        for _ in range(2):
            (await client.post(f"{path}/feedback", json=event)).raise_for_status()
        assert (await client.post(f"{path}/feedback", json={"arm": "1", "loss": 0})).status_code == 422

    if path.startswith("/locked"):
        stored = redis_server.client.get(f"peers:{SESSION}")
        assert isinstance(stored, bytes)
        assert pickle.loads(stored)._counts[drawn["arm"]] == 2
        redis_server.client.delete(f"peers:{SESSION}")
