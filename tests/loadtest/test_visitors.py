"""What features are worth: every learner plays, and sees what it should."""

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.visitors import MARKS, PLAYERS, WORLDS, score, table

HERE = [name for name in PLAYERS if not name.startswith("VW")]
NUMBERS = next(world for world in WORLDS if world.name == "5 items, 5 numbers")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_chances_are_chances_and_an_oracle_gains(world):
    chances = world.make(np.random.default_rng(1), world.arms, world.features)
    for t in (1, 10_001, 20_000):
        p = chances(t, np.eye(world.features)[0])
        assert p.shape == (world.arms,)
        assert (p > 0).all()
        assert (p < 1).all()
        assert p.max() > p.mean()


@pytest.mark.slow
def test_learners_that_see_features_gain_more_of_what_depends_on_them():
    played = {name: score((NUMBERS._replace(slots=2000, window=200, delay=60.0), name, 1)) for name in HERE}

    assert played["ours"] > played["without features"] + 0.1
    assert min(played[name] for name in ("SquareCB", "LinTS")) > played["without features"]
    assert score((NUMBERS._replace(slots=300, all_come=True), "ours", 1)) < 1


@pytest.mark.slow
def test_what_was_played_is_not_played_again_and_stands_on_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("\n\n".join(("before", *MARKS, "after")))
    words = f"visitors --slots 40 --world xor --learner ours --out {tmp_path} --page {page} --seeds".split()
    for seeds in ("2", "3"):
        result = CliRunner().invoke(app, [*words, seeds, "--learner", "without features"])
        assert result.exit_code == 0, result.output

    assert "\n10 items, xor | 3 |" in page.read_text()
    assert page.read_text().endswith("after")
    assert len(table({})) == 1
