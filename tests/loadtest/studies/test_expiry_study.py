"""What expiry does for learning: the study's games, and its claims on shorter streams."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.commands.expiry import kept, rows_of
from loadtest.replay.arm_worlds import ArmWorld
from loadtest.replay.click_worlds import CLICKS, switching_clicks
from loadtest.replay.delays import strict
from loadtest.replay.simulated_time import pass_time
from loadtest.studies import expiry_study as study
from loadtest.studies.expiry_game import WINDOW, Game, Mode, alone, longest_delay, play, spec_of
from loadtest.studies.expiry_study import NO_CLICK_LOSS, TASKS, Case, Found, Task
from loadtest.studies.many_runs import expected_losses
from service.engine.ledger import ArmFeedback, Expiry, Params
from service.engine.run import start_run
from tests.support.examples import some_quick
from tests.support.jester_files import invented, write_csv

SLOTS = 3000
SEEDS = range(4)


def clicks(rate: float, seed: int) -> Game:
    world = switching_clicks(SLOTS, rate, seed)
    return Game(world, world.posted == 1, NO_CLICK_LOSS, longest_delay(1 - rate))


@cache
@cache
def gain(kind: str, mode: Mode, rate: float) -> float:
    """What the learner saves a slot against uniform play, mean over the seeds."""
    saved = []
    for seed in SEEDS:
        game = clicks(rate, seed)
        played = play(game, spec_of(game, kind), mode, seed)
        saved.append(game.world.baseline().losses.mean() - played.mean())
    return float(np.mean(saved))


@pytest.mark.slow
@pytest.mark.parametrize("kind", study.LEARNERS)
@pytest.mark.parametrize("rate", [0.8, 0.2])
def test_clicks_alone_teach_nothing_without_expiry(kind: str, rate: float) -> None:
    """All losses that come are 0, so every learner stays at uniform play up to rounding."""
    assert gain(kind, Mode.OFF, rate) == pytest.approx(0, abs=0.003)


@pytest.mark.slow
@pytest.mark.parametrize("kind", some_quick(["centred_tsallis", "dexp3"], ["dexp3"]))
@pytest.mark.parametrize("rate", some_quick([0.8, 0.2], [0.2]))
def test_with_expiry_a_learner_learns_where_full_feedback_would(kind: str, rate: float) -> None:
    """Seeded; full feedback gains .02 or more here, expiry keeps over half of it in every case."""
    assert gain(kind, Mode.FULL, rate) > 0.02
    assert gain(kind, Mode.ON, rate) > 0.5 * gain(kind, Mode.FULL, rate)


def test_full_feedback_is_the_replay_of_many_runs() -> None:
    game = clicks(0.2, 0)
    spec = spec_of(game, "dexp3")
    one = play(game, spec, Mode.FULL, 7)

    assert one == pytest.approx(expected_losses(game.world, spec, strict(SLOTS), (7,))[:, 0], abs=1e-12)


def test_decisions_expire_a_window_and_a_bucket_after_their_act() -> None:
    """An act at second 1 with a window of 8 s is given up before the act at second 10."""
    spec = spec_of(clicks(0.2, 0), "clw")
    run = start_run(Params(spec, 1, CLICKS, Expiry(float(WINDOW), 1.0)))
    expired = []
    for t in range(1, 12):
        pass_time(run, float(t))
        run.act()
        expired.append(run.ledger.expired)

    assert expired == [0] * 9 + [1, 2]


def test_a_missing_click_is_noticed_later_where_clicks_are_many() -> None:
    """One arm, four clicks in five acts, no delay: the oldest of nine outstanding decisions is the first too old.

    It takes 45 acts until so many are left over, so slot 5's missing click is noticed 41 slots later.
    """
    spec = spec_of(clicks(0.8, 0), "clw")
    run = start_run(Params(spec, 1, CLICKS, Expiry(float(WINDOW), 1.0)))
    first = 0
    for t in range(1, 100):
        pass_time(run, float(t))
        first = first or (t if run.ledger.expired else 0)
        arm = run.act().arm
        if t % 5:
            run.settle(ArmFeedback(arm, 0.0))

    assert first == 46
    assert longest_delay(0.2) == 40


def test_who_answers_is_drawn_or_decided_by_clicking() -> None:
    drawn, switching = study.game_of("synthetic", 0.8, 3), study.game_of("switching", 0.99, 3)

    assert drawn.answered.mean() == pytest.approx(0.2, abs=4 * 0.4 / np.sqrt(2000))
    assert (drawn.answered.all(axis=1) == drawn.answered.any(axis=1)).all()
    assert np.array_equal(switching.answered, switching.world.posted == 1)
    assert switching.answered.mean() == pytest.approx(0.01, abs=4 * 0.1 / np.sqrt(100_000))


def test_answered_slots_alone() -> None:
    game = study.game_of("synthetic", 0.8, 3)
    kept_slots = alone(game)

    assert kept_slots.answered.all()
    assert kept_slots.world.slots == int(game.answered[:, 0].sum())
    assert np.array_equal(kept_slots.world.posted, game.world.posted[game.answered[:, 0]])


def test_uniform_play_and_full_feedback_are_the_ends_of_what_is_kept() -> None:
    modes = {"full": {"mean": 0.1, "stderr": 0.01}, "on": {"mean": 0.2, "stderr": 0.01}}

    assert kept({"uniform": 0.3, "modes": modes}) == pytest.approx(0.5)
    assert kept({"uniform": 0.12, "modes": modes}) is None


def test_rows_hold_the_modes_of_one_learner_side_by_side() -> None:
    cases = [
        Case("switching", 0.2, kind, mode, (0, 1)) for mode in (Mode.OFF, Mode.FULL) for kind in ("clw", "dexp3")
    ]
    rows = list(rows_of(cases, [Found(0.1 * n, 0.01, 0.5) for n in range(4)]).values())

    assert [row["learner"] for row in rows] == ["clw", "dexp3"]
    assert rows[1]["modes"]["off"] == {"mean": 0.1, "stderr": 0.01}
    assert (rows[1]["uniform"], rows[1]["seeds"]) == (0.5, 2)


def test_every_learner_meets_every_task_in_every_mode() -> None:
    cases = study.cases(5, 2, Path("ratings"))

    assert len(cases) == sum(3 * len(task.shares) * len(task.modes) for task in TASKS.values())
    assert {len(case.seeds) for case in cases if case.task == "synthetic"} == {5}
    assert {case.seeds for case in cases if case.task != "synthetic"} == {(0, 1)}
    assert not any(TASKS[case.task].needs_ratings for case in study.cases(5, 2, None))


def test_ratings_as_clicks(tmp_path: Path) -> None:
    path = write_csv(tmp_path, *invented(300).tolist())
    top, above = (study.game_of(name, 0.8, 0, path) for name in ("Jester, top ratings", "Jester, rating > 5"))

    assert top.answered.mean() == pytest.approx(0.2, abs=1e-3)
    assert isinstance(above.world, ArmWorld)
    assert above.answered.mean() != pytest.approx(0.2, abs=1e-3)


@pytest.mark.slow
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one task; its processes would not know of the others being left out, so it runs in this one."""
    monkeypatch.setattr(study, "TASKS", {"synthetic": Task("synthetic", 2000, (0.8,), tuple(Mode))})
    command = import_module("loadtest.commands.expiry")
    monkeypatch.setattr(command, "on_cores_with_progress", lambda _, work, items: [work(item) for item in items])
    result = CliRunner().invoke(app, ["expiry", "--seeds", "2", "--out", str(tmp_path)])

    assert result.exit_code == 0, result.output
    (row, *_) = rows = json.loads((tmp_path / "summary.json").read_text())
    assert [row["learner"] for row in rows] == list(study.LEARNERS)
    assert set(row["modes"]) == set(Mode)
    assert row["modes"]["full"]["mean"] < row["uniform"]
    assert "skipped the ratings" in result.stderr
