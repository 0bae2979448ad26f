"""Rehearsals of upgrades and drills of alerts: what they take from the manifests, and one of each kind."""

import math
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.operations.cluster import Probe, _count
from tests.support.pages import ROOT
from tests.support.programs import program
from tests.support.two_builds import QUICK, SECOND, build


@pytest.mark.parametrize(
    ("spec", "answers", "told"),
    [
        ({"failureThreshold": 2}, [False, True, False, False], [None, True, None, False]),
        ({}, [False, False, False], [None, None, False]),
        ({"successThreshold": 2}, [True, True, False], [None, True, None]),
    ],
)
def test_a_probe_tells_what_it_found_so_often_in_turn(
    monkeypatch: pytest.MonkeyPatch, spec: dict[str, int], answers: list[bool], told: list[bool | None]
) -> None:
    given = iter(answers)
    monkeypatch.setattr(Probe, "_answers", lambda _: next(given))
    probe = Probe(spec | {"periodSeconds": 0}, ("127.0.0.1", 1))

    assert [probe.asked() for _ in answers] == told


def test_a_percentage_of_pods_is_rounded_as_kubernetes_does() -> None:
    assert (_count("25%", 3, math.ceil), _count("25%", 3, math.floor), _count(2, 3, math.floor)) == (1, 0, 2)


def test_an_upgrade_of_units_asks_for_their_ports() -> None:
    script = [program("sh"), str(ROOT / "deploy/systemd/rolling-upgrade.sh")]
    refused = subprocess.run(script, capture_output=True, text=True, check=False)

    assert refused.returncode == 2
    assert "name the ports" in refused.stderr


@pytest.mark.recipes
@pytest.mark.servers("nginx", "redis-server", "kubectl", "sh")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("way", ["kubernetes", "ingress", "systemd"])
def test_an_upgrade_to_another_schema_and_the_way_back_cost_no_client_anything(tmp_path: Path, way: str) -> None:
    old, new = (build(tmp_path / str(len(patches)), patches) for patches in (QUICK, SECOND))
    flags = ("--old", str(old), "--new", str(new), "--out", str(tmp_path / "out"))
    done = CliRunner().invoke(app, ["upgrade", way, *flags])

    assert done.exit_code == 0, done.output


@pytest.mark.recipes
@pytest.mark.servers("nginx", "redis-server", "prometheus")
@pytest.mark.timeout(900)
def test_each_trouble_fires_its_alert_which_is_resolved_and_a_store_is_restored(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["drills", "--factor", "20", "--out", str(tmp_path / "out")])

    assert done.exit_code == 0, done.output


def test_an_unknown_drill_is_refused() -> None:
    assert CliRunner().invoke(app, ["drills", "flood"]).exit_code == 2
