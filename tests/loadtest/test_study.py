"""What happens in a world of the study: windows, lost and doubled events, slates, and items that wear out."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from loadtest.commands import app
from loadtest.study.catalogue import CHANGES, CLICKS, FULL, STALLS, WEARY, shortened, worlds
from loadtest.study.cells import Game, Size, batches, cells_of, load, play, run
from loadtest.study.learners import ENTRIES, chosen
from loadtest.study.page import MARKS, page_with, section
from loadtest.study.players import Greedy, Player, Thompson, Turn, Uniform, rounds
from loadtest.study.worlds import Drawn, World, bots, gap, growing, novel, switching
from tests.support.pages import ROOT

SEEDS = (0, 1, 2)
CLICKS_ALONE = World("clicks", 4, 120, gap(0.5, 0.2), ("constant", 5), window=20)


class Recorder(Player):
    """Counts what it is told, and notes who could be drawn."""

    def __init__(self, drawn):
        super().__init__(1.0)
        self._inner = Uniform(drawn.runs, drawn.world.arms)
        self.settled, self.expired = np.zeros(drawn.runs, dtype=int), np.zeros(drawn.runs, dtype=int)
        self.turns, self.drawn = [], []

    def act(self, turn):
        self.turns.append(turn)
        p, arms = self._inner.act(turn)
        self.drawn.append(arms)
        return p, arms

    def settle(self, runs, arms, losses, slots):
        self.settled[runs] += 1

    def expire(self, runs, arms, slots):
        self.expired[runs] += 1


def played(*which):
    drawn = Drawn(which, SEEDS)
    recorder = Recorder(drawn)
    Game(drawn, recorder).play()
    return recorder, drawn


def test_every_decision_of_a_window_ago_is_settled_once():
    recorder, drawn = played(CLICKS_ALONE)

    left = recorder.turns[-1].outstanding + 1
    assert (recorder.settled + recorder.expired <= CLICKS_ALONE.slots).all()
    assert (recorder.settled > 0).all()
    assert (left <= 40).all()
    assert (recorder.settled + recorder.expired >= CLICKS_ALONE.slots - 40).all()
    assert drawn.windows()[0][0] == 20


def test_lost_events_do_not_come_and_doubled_ones_settle_others():
    all_lost, _ = played(replace(CLICKS_ALONE, lost=1.0))
    twice, _ = played(replace(CLICKS_ALONE, doubled=1.0))
    once, _ = played(CLICKS_ALONE)

    assert not all_lost.settled.any()
    assert (all_lost.expired == CLICKS_ALONE.slots - CLICKS_ALONE.window).all()
    assert (twice.settled > once.settled).all()


SLOW = pytest.param("multiscale_tsallis", marks=pytest.mark.slow)


@pytest.mark.parametrize("key", [SLOW, "thompson", "thompson_provisional", "greedy"])
def test_worlds_played_together_are_those_played_alone(key):
    (entry,) = chosen(ENTRIES, [key])
    other = replace(CLICKS_ALONE, name="other", window=30, delay=("spread", 9.0), lost=0.2)
    both = Drawn([CLICKS_ALONE, other], SEEDS)
    together = Game(both, entry.build(both)).play()

    for world in (CLICKS_ALONE, other):
        drawn = Drawn([world], SEEDS)
        alone = Game(drawn, entry.build(drawn)).play()
        assert alone.player == pytest.approx(together.player[:, both.columns(world)], abs=1e-9)


def test_without_an_answer_nothing_is_learned_if_the_default_is_null():
    recorder, drawn = played(replace(CLICKS_ALONE, null=True, lost=0.5))

    assert (recorder.expired > 30).all()
    assert (recorder.settled + recorder.expired >= CLICKS_ALONE.slots - CLICKS_ALONE.window).all()
    assert not drawn.world.clicks  # all losses are reported


def test_epsilon_greedy_explores_less_and_less():
    player, ones = Greedy(200, 4, None, ["one"], provisional=False), np.zeros(200, dtype=int)
    random, other = np.random.default_rng(0), np.full((200, 4), True)
    other[:, 1] = False
    shares = []
    for t in range(1, 2001):
        eligible = other if t > 1900 else None
        _, arms = player.act(Turn(ones, random.random(200), random.random(200), eligible))
        player.settle(np.arange(200), arms, (arms != 1).astype(float), ones)
        shares.append(np.bincount(arms, minlength=4) / 200)

    assert np.mean(shares[:120], axis=0) == pytest.approx([0.25] * 4, abs=0.02)
    assert np.mean(shares[1000:1900], axis=0)[1] == pytest.approx(1 - 0.75 * 120 / 1430, abs=0.02)
    assert np.array(shares[1900:])[:, 1].max() == 0


def test_bots_click_on_all_and_what_is_new_more_often():
    chances = bots(gap(0.5, 0.2), 100, 10)(np.random.default_rng(0), 3)
    found = [sorted(chances(t).tolist()) for t in (1, 89, 90, 99, 100)]
    assert found == [*([[0.2, 0.2, 0.5]] * 2), *([[1.0] * 3] * 2), [0.2, 0.2, 0.5]]
    fresh = novel(gap(0.4, 0.4), 2, 50, 100)(np.random.default_rng(0), 4)
    assert fresh(0).tolist() == [0.8] * 4
    assert fresh(100) == pytest.approx(0.4 * (1 + np.exp([-1, -1, -0.5, 0])))


def test_items_of_a_slate_differ_and_barred_ones_stay_away():
    recorder, _ = played(replace(CLICKS_ALONE, arms=8, places=3, barred=True, slots=30))

    for turn, arms in zip(recorder.turns, recorder.drawn, strict=True):
        assert turn.eligible is None or turn.eligible[np.arange(3), arms].all()
    for first in range(0, len(recorder.drawn), 3):
        slates = np.stack(recorder.drawn[first : first + 3])
        assert all(len(set(column)) == 3 for column in slates.T.tolist())


def test_rounds_name_a_run_once():
    runs = np.array([2, 0, 2, 1, 2, 0])
    parts = [part.tolist() for part in rounds(runs)]

    assert [sorted(runs[part]) for part in parts] == [[0, 1, 2], [0, 2], [2]]
    assert parts[2] == [4]


def test_the_best_arm_changes_in_every_block():
    for maker, slots in ((switching(gap(0.9, 0.1), 10), (1, 11, 21)), (growing(gap(0.9, 0.1), 10), (1, 10, 20))):
        chances = maker(np.random.default_rng(3), 5)
        best = [int(chances(t).argmax()) for t in slots]
        assert best[0] != best[1] != best[2]


def test_the_catalogue_names_its_worlds_apart_and_items_wear_out():
    groups = worlds(None)
    names = [world.name for group in groups.values() for world in group]

    assert len(set(names)) == len(names)
    weary = replace(CLICKS_ALONE, weary=("most", 10))
    found = Game(Drawn([weary], SEEDS), Thompson(3, 4, 1.0, ["one"], provisional=False)).play()

    assert all(world.weary for world in groups[WEARY])
    assert np.isnan(found.best).all()
    assert (found.player[-1] < weary.slots * 0.5).all()
    assert shortened(replace(CLICKS_ALONE, window=100), 50) is None


SMALL = Size(2, 3, 30)


def few(group, place=0):
    world = worlds(None)[group][place]
    return replace(world, window=world.window and 8, few=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "results.json"
    groups = {FULL: [few(FULL, 2)], CLICKS: [few(CLICKS)], CHANGES: [few(CHANGES, 4)], WEARY: [few(WEARY)]}
    for _ in run(cells_of(groups | {STALLS: [few(STALLS)]}, SMALL), path):
        pass
    return path


def test_the_page_is_what_the_command_writes():
    """Numbers written by hand are faults: after a change of its words, write the page again."""
    text = (ROOT / "docs" / "results.md").read_text()

    assert page_with(text, MARKS, section(load(ROOT / "docs" / "results" / "study.json"))) == text


@pytest.mark.slow
def test_every_learner_plays(results):
    cells = load(results)

    assert {cell["learner"] for cell in cells.values()} == {entry.key for entry in ENTRIES if not entry.needs}
    for cell in cells.values():
        assert cell["best"] is None or all(
            reward <= best + 1e-9 for reward, best in zip(cell["reward"], cell["best"], strict=True)
        )


@pytest.mark.slow
def test_cells_are_played_once(results, monkeypatch):
    monkeypatch.setattr("loadtest.study.cells.play", lambda batch: pytest.fail(f"{batch} is known"))
    groups = {FULL: [few(FULL, 2)]}

    assert list(run(cells_of(groups, SMALL), results)) == []


@pytest.mark.slow
def test_cells_of_one_kind_make_a_batch():
    groups = {FULL: [few(FULL, 2), few(FULL, 1)]}
    made = batches(cells_of(groups, SMALL, [entry for entry in ENTRIES if entry.key in {"dexp3", "exp3"}]))

    assert [len(batch) for batch in made] == [2, 1, 1]
    assert {result["world"] for result in play(made[0])} == {world.name for world in groups[FULL]}


@pytest.mark.slow
def test_the_page_has_its_tables_and_first_says_where_we_lose(results):
    text = section(load(results))

    assert text.startswith("**Where we lose.**")
    for heading in ("All losses are reported", "Only clicks", "The world changes", "wear out", "Stalled"):
        assert heading in text


@pytest.mark.slow
def test_the_command_writes_page_and_figures(tmp_path):
    (tmp_path / "results.md").write_text("# Results\n\n" + "\n".join(MARKS))
    asked = ["study", "--quick", "--only", "10 arms, .02", "--out", tmp_path, "--page", tmp_path / "results.md"]
    done = CliRunner().invoke(app, [str(part) for part in asked])

    assert done.exit_code == 0, done.output
    assert (tmp_path / "results.md").read_text().startswith("# Results")
    assert {path.suffix for path in (tmp_path / "results").iterdir()} == {".svg", ".png", ".json"}
    assert json.loads((tmp_path / "results.json").read_text())


def test_a_page_without_marks_is_refused_before_anything_is_played(tmp_path):
    page = tmp_path / "results.md"
    page.write_text("# Results")
    done = CliRunner().invoke(app, ["study", "--quick", f"--out={tmp_path / 'out'}", f"--page={page}"])

    assert done.exit_code == 2
    assert "lacks" in done.output
    assert page.read_text() == "# Results"
    assert not (tmp_path / "out").exists()
