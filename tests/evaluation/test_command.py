"""The command ``evaluate`` on files of every format."""

import csv
import io
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from service.evaluation.command import main

FIELDS = ("kind", "slot", "arm", "label", "probability", "eligible", "reward", "loss", "outcome", "at")


def log(word="reward", acts=600):
    rng, entries = np.random.default_rng(1), []
    for slot in range(1, acts + 1):
        arm = int(rng.integers(2))
        act = {"kind": "act", "slot": slot, "arm": arm, "label": "ab"[arm], "probability": 0.5, "eligible": 2}
        value = float(rng.random() < (0.2, 0.6)[arm])
        entries += [act, {"kind": "event", "arm": arm, word: value, "outcome": "applied"}]
    return entries


@pytest.fixture
def jsonl(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in log()))
    return path


def run(capsys, *arguments):
    code = main([str(each) for each in arguments], "prog")
    out, err = capsys.readouterr()
    return code, out, err


def test_a_report_has_means_and_policies(jsonl, capsys):
    code, out, _ = run(capsys, jsonl)

    assert code == 0
    assert out.startswith("600 acts with a reward\n")
    assert "uniform" in out
    assert len([line for line in out.splitlines() if line.startswith("  ")]) == 5


def test_json_says_the_same_of_all_formats(jsonl, tmp_path, capsys):
    pages = tmp_path / "pages.jsonl"
    pages.write_text(json.dumps({"decisions": log(), "next_cursor": None}) + "\n\n")
    table = tmp_path / "log.csv"
    with table.open("w", newline="") as file:
        rows = csv.DictWriter(file, FIELDS)
        rows.writeheader()
        rows.writerows(log())

    found = [json.loads(run(capsys, path, "--json")[1]) for path in (jsonl, pages, table)]

    assert found[0] == found[1] == found[2]
    assert found[0]["acts"] == 600
    assert [arm["name"] for arm in found[0]["arms"]] == ["a", "b"]
    low, high = (found[0]["policies"][2]["snips"][end] for end in ("low", "high"))
    assert low < 0.6 < high


def test_columns_are_those_of_off_policy_libraries(jsonl, tmp_path, capsys):
    for name in ("out.csv", "out.npz"):
        assert run(capsys, jsonl, "--columns", tmp_path / name)[0] == 0
    with np.load(tmp_path / "out.npz") as columns:
        assert sorted(columns) == ["action", "position", "pscore", "reward"]
        assert set(columns["reward"]) == {0.0, 1.0}
        assert set(columns["pscore"]) == {0.5}
        assert not columns["position"].any()
        first = [columns[name][0] for name in ("action", "reward", "pscore", "position")]
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[0] == "action,reward,pscore,position"
    assert [float(cell) for cell in rows[1].split(",")] == first


def test_a_log_of_losses_needs_its_range_for_columns(tmp_path, capsys):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in log("loss")))

    code, _, err = run(capsys, path, "--columns", tmp_path / "out.csv")
    assert (code, "--loss-range" in err) == (1, True)
    assert run(capsys, path, "--columns", tmp_path / "out.csv", "--loss-range", 1, 0)[0] == 0
    assert "1,1.0,0.5,0" in (tmp_path / "out.csv").read_text().splitlines()


def test_an_empty_log_is_no_data(tmp_path, capsys):
    (tmp_path / "log.jsonl").write_text("")

    assert run(capsys, tmp_path / "log.jsonl")[1] == "0 acts with a loss\n\nnot enough data\n"


def test_wrong_flags_are_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["--nix"], "prog")
    err = capsys.readouterr().err

    assert err.startswith("prog evaluate: ")
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_it_is_a_word_of_the_command(jsonl):
    command = [sys.executable, "-m", "service", "evaluate", str(jsonl), "--json"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)

    assert json.loads(found.stdout)["acts"] == 600


def test_one_segment_is_asked_for(capsys, jsonl):
    _, out, _ = run(capsys, jsonl, "--json", "--segment", "")
    code, other, _ = run(capsys, jsonl, "--json", "--segment", "a")

    assert (json.loads(out)["acts"], json.loads(other)["acts"], code) == (600, 0, 0)


def test_standard_input_is_lines_of_json(jsonl, capsys, monkeypatch):
    with jsonl.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=file))
        code, out, _ = run(capsys, "-", "--json")

    assert (code, json.loads(out)["acts"], json.loads(out)["slots"]) == (0, 600, "known")


def test_what_is_wrong_on_standard_input_is_said_of_it(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'\n{"kind": "act"}')))

    _, _, err = run(capsys, "-")

    assert err == ("prog evaluate: standard input, line 2: not an entry of a decision log (slot: is missing)\n")
