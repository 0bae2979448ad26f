from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from loadtest.replay import delays
from loadtest.replay.arm_worlds import ArmWorld, mab_synthetic
from loadtest.replay.in_process_driver import InProcessDriver
from loadtest.replay.plan import RateChoice, World, plan_session
from loadtest.replay.quadratic_worlds import bco_synthetic
from loadtest.replay.replay import Replay
from loadtest.replay.report import Report, build_report, write_report
from loadtest.replay.report_table import table_of
from service.engine.ledger import LossRange


def report(world: World, kind: str = "dexp3", **how: bool) -> Report:
    plan = plan_session(world, kind, RateChoice.AUTO, 1, {})
    driver = InProcessDriver(plan)
    replaying = Replay(world, delays.strict(2000), driver)
    record = replaying.run(**how)
    return build_report(world, plan, record, driver.log, replaying.pace, {"rates": "anytime"})


def test_regret_by_hand() -> None:
    """Losses (0, 1) and (1/2, 1/2) at p = (1/2, 1/2) in both slots: no loss is known before slot 2 is drawn."""
    world = ArmWorld("hand", np.array([[0.0, 1.0], [0.5, 0.5]]), LossRange())
    found = report(world)

    assert found.regret.tolist() == [0.25, 0.25]
    assert found.baseline.tolist() == [0.25, 0.25]
    summary = found.summary
    assert (summary["regret_per_slot"], summary["uniform_regret_per_slot"]) == (0.25, 0.25)
    assert (summary["expected_mean_loss"], summary["uniform_mean_loss"]) == (0.5, 0.5)
    assert (summary["best_arm"], summary["best_action"], summary["best_mean_loss"]) == (0, "arm 1", 0.25)


def test_the_summary_says_what_was_played_and_what_became_of_it() -> None:
    summary = report(mab_synthetic().head(300)).summary

    assert summary["scenario"] == "mab_synthetic"
    assert (summary["learner"], summary["slots"], summary["seed"]) == ("dexp3", 300, 1)
    assert (summary["sent"], summary["acknowledged"], summary["settled"], summary["pending"]) == (300, 300, 300, 0)
    assert summary["total_delay"] == {"strict": int(delays.strict(300).sum()), "last": int(delays.last(300).sum())}
    assert set(summary["latency_ms"]) == {"act", "view", "feedbacks", "slot"}
    assert list(summary["latency_ms"]["act"]) == ["p50", "p95", "p99", "max"]
    assert (
        summary["requests"]
        == 600 + len({t + d for t, d in enumerate(delays.strict(2000)[:300], 1)} - {301, 302}) + 1
    )
    assert summary["ok"]


def test_pending_events_are_listed() -> None:
    summary = report(mab_synthetic().head(8), drain=False).summary

    assert summary["pending"] == 2
    assert [event["slot"] for event in summary["pending_events"]] == [7, 8]


def test_points_are_compared_with_standing_still() -> None:
    summary = report(bco_synthetic(), "dbgd").summary

    assert summary["best_arm"] is None
    assert "uniform_mean_loss" not in summary
    assert summary["still_mean_loss"] == 0.0
    assert summary["regret_per_slot"] < summary["still_regret_per_slot"]


@pytest.mark.parametrize("slots", [1, 40, 2000])
def test_three_files_are_written(tmp_path: Path, slots: int) -> None:
    found = report(mab_synthetic().head(slots))
    write_report(found, tmp_path / "deep" / "out")

    folder = tmp_path / "deep" / "out"
    assert json.loads((folder / "summary.json").read_text()) == found.summary
    with (folder / "curve.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["slot", "normalised_regret", "uniform_play"]
    assert [float(row[1]) for row in rows] == found.regret.tolist()
    assert (folder / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_the_table_fits_a_terminal() -> None:
    table = table_of(report(mab_synthetic().head(50)).summary)

    assert table.row_count == 13
