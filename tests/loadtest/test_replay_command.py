"""The command line: exit codes, messages and files."""

import json

import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from tests.support.jester_files import invented, write_csv
from tests.support.running import RunningService

KEY = "key-of-the-load-test"


def run(*arguments):
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


@pytest.fixture
def jester(tmp_path):
    return write_csv(tmp_path, *invented(60).tolist())


def test_jester_in_process(tmp_path, jester):
    result = run("jester", "--data", jester, "--in-process", "--seed", 4, "--out", tmp_path / "out")

    assert result.exit_code == 0, result.output
    found = summary(tmp_path / "out")
    assert (found["slots"], found["acknowledged"], found["settled"], found["seed"]) == (60, 60, 60, 4)
    assert (found["rates"], found["data"][0]["users"]) == ("anytime", 60)
    assert "regret per slot" in result.output


@pytest.mark.processes
def test_an_api_key_is_sent_from_the_environment(tmp_path, monkeypatch):
    environment = {"BANDIT_API_KEYS": json.dumps([{"name": "load", "role": "admin", "key": KEY}])}
    with RunningService(tmp_path, "--store-url", "memory://", environment=environment) as service:
        refused = run("synthetic", "--url", service.url, "--slots", 5, "--out", tmp_path / "none")
        monkeypatch.setenv("LOADTEST_API_KEY", KEY)
        done = run("synthetic", "--url", service.url, "--slots", 5, "--out", tmp_path / "out")
        (tmp_path / "key").write_text(f"{KEY}\n")
        both = run("synthetic", "--url", service.url, "--api-key-file", tmp_path / "key")
        monkeypatch.delenv("LOADTEST_API_KEY")
        monkeypatch.setenv("LOADTEST_API_KEY_FILE", str(tmp_path / "key"))
        by_file = run("synthetic", "--url", service.url, "--slots", 5, "--out", tmp_path / "file")
        monkeypatch.setenv("LOADTEST_API_KEY_FILE", str(tmp_path / "missing"))
        missing = run("synthetic", "--url", service.url)

    assert by_file.exit_code == 0, by_file.output
    assert "give either --api-key or --api-key-file" in both.output
    assert (missing.exit_code, "can't be read" in missing.output) == (1, True)
    assert refused.exit_code == 1
    assert "unauthorized" in refused.output
    assert done.exit_code == 0, done.output
    assert summary(tmp_path / "out")["settled"] == 5
    assert KEY not in done.output + (tmp_path / "out" / "summary.json").read_text()


@pytest.mark.slow
def test_the_same_files_in_the_same_order_are_the_same_events(tmp_path):
    """The hash in the report tells; a user's number is a place in the joined stream, so none comes twice."""
    files = [write_csv(tmp_path, *invented(20, seed).tolist(), name=f"{seed}.csv") for seed in (1, 2, 3)]

    def hash_of(*order):
        data = [part for place in order for part in ("--data", files[place - 1])]
        result = run("jester", *data, "--in-process", "--out", tmp_path)
        assert result.exit_code == 0, result.output
        found = summary(tmp_path)
        assert [source["name"] for source in found["data"]] == [f"{place}.csv" for place in order]
        return found["events_sha256"]

    assert hash_of(1, 2, 3) == hash_of(1, 2, 3) != hash_of(3, 1, 2) == hash_of(3, 1, 2)


def test_synthetic_points_in_process(tmp_path):
    result = run("synthetic", "--learner", "dbgd", "--rates", "theorem", "--in-process", "--out", tmp_path)

    assert result.exit_code == 0, result.output
    found = summary(tmp_path)
    assert (found["scenario"], found["rates"]) == ("bco_synthetic", "theorem")


def test_more_slots_than_there_are_is_the_whole_stream(tmp_path):
    run("synthetic", "--in-process", "--slots", 5000, "--out", tmp_path)

    assert summary(tmp_path)["slots"] == 2000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["jester", "--in-process"], "jester_dataset_1_1.zip"),
        (["jester", "--in-process", "--data", "gone.csv"], "no such file"),
        (["synthetic", "--in-process", "--data", "gone.csv"], "takes no --data"),
        (["synthetic", "--in-process", "--url", "http://127.0.0.1:1"], "either --url or --in-process"),
        (["synthetic", "--in-process", "--learner", "ucb"], "no learner 'ucb'"),
        (["synthetic", "--in-process", "--option", "rate=2"], "rate"),
        (["synthetic", "--in-process", "--learner", "clw", "--option", "schedule=sometimes"], "schedule"),
        (["synthetic", "--url", "http://127.0.0.1:port"], "--url http://127.0.0.1:port"),
        (["synthetic", "--in-process", "--option", "n_arms=150"], "n_arms is 5 in this stream, it can't be 150"),
        (["synthetic", "--url", "http://127.0.0.1:1"], "http://127.0.0.1:1 does not answer (ConnectError); start"),
        (["synthetic", "--url", "ftp://127.0.0.1:1"], "the load client failed"),
        (["clicks", "--in-process"], "jester_dataset_1_1.zip"),
        (["clicks", "--in-process", "--slots-per-second", "5"], "not --slots-per-second"),
        (["synthetic", "--in-process", "--speed", "600"], "only clicks take --speed"),
        (["synthetic", "--in-process", "--delay-median", "6"], "only clicks take --delay-median"),
    ],
)
def test_what_cannot_be_replayed_ends_in_one_sentence(tmp_path, arguments, message):
    result = run(*arguments, "--out", tmp_path / "out")

    assert result.exit_code == 1
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "out").exists()


def test_an_option_reaches_the_learner(tmp_path):
    options = ["--option", "learning_rate=0.1", "--option", "loss_clip=9.5", "--option", "probability_floor=0.001"]
    result = run("synthetic", "--in-process", *options, "--out", tmp_path)

    assert result.exit_code == 0, result.output
    assert summary(tmp_path)["parameters"]["loss_clip"] == 9.5


@pytest.mark.parametrize("command", ["bench", "chaos"])
def test_a_service_is_broken_only_where_its_workers_are_found(tmp_path, monkeypatch, command):
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    result = CliRunner().invoke(app, [command, "--out", str(tmp_path / "out")])

    assert result.exit_code == 1
    assert "needs Linux" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_command_in_process(tmp_path):
    data = write_csv(tmp_path, *invented(400).tolist())
    result = run("clicks", "--data", data, "--in-process", "--window", 100, "--out", tmp_path)

    assert result.exit_code == 0, result.output
    found = summary(tmp_path)
    assert (found["scenario"], found["learner"], found["impressions"]) == ("jester_clicks", "centred_tsallis", 400)
    assert found["settled"] + found["expired"] == 400
    assert found["expired_share"] == found["expired"] / 400
    assert found["click_rate"] == pytest.approx(1 - found["mean_loss"])
    assert found["uniform_click_rate"] == pytest.approx(1 - found["uniform_mean_loss"])
    assert "slot" not in found["latency_ms"]
    for text in ("regret per slot", "expired share", "click rate, uniform play"):
        assert text in result.output


@pytest.mark.processes
def test_the_command_against_a_service_in_a_hurry(tmp_path):
    """The service's own clock: windows of half a second."""
    data = write_csv(tmp_path, *invented(150).tolist())
    with RunningService(tmp_path, "--store-url", "memory://") as service:
        service.wait_ready()
        result = run("clicks", "--data", data, "--url", service.url, "--speed", 1200, "--out", tmp_path / "out")

    assert result.exit_code == 0, result.output
    found = summary(tmp_path / "out")
    assert found["settled"] + found["expired"] == 150
    assert found["settled"] > 0
