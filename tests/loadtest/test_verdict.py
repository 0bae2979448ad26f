"""Sessions that are alike but for their control group: verdicts by the published formula, seldom outside."""

from itertools import islice

import pytest
from typer.testing import CliRunner

from loadtest import terminal
from loadtest import verdict as simulation
from loadtest.commands import app
from loadtest.verdict import LEARNERS, MARKS, Case, counted_cases, jobs_of, looks, play
from tests.support.plain_verdict import written_out

ALIKE = (0.06,) * 5
SESSIONS, ACTS, MOST = 40, 2_000, 7
"""Sessions of so many acts, and how many may ever be outside: more would be, at 6.5 %, in one of 250 trials."""


@pytest.mark.slow
def test_a_session_without_a_difference_is_seldom_ever_outside():
    """Each verdict on the way is the formula of the clicks that were applied, counted beside the session."""
    outside = set()
    for number in range(SESSIONS):
        case = Case(LEARNERS[number % 10 > 1], (0.1, 0.5)[number % 2], ALIKE, ACTS)
        for look in looks(case, number):
            assert (look.verdict is not None) == (look.acts >= 200)
            if look.verdict is None:
                continue
            acts, clicks = zip(*look.counts, strict=True)
            difference, radius = written_out(acts, clicks, clicks)
            found = [look.verdict[name] for name in ("difference", "low", "high")]
            assert found == pytest.approx([difference, difference - radius, difference + radius], abs=1e-12)
            if not difference - radius <= 0 <= difference + radius:
                outside.add(number)

    assert len(outside) <= MOST


def test_a_session_with_a_difference_is_played_until_it_is_found():
    case = Case("dexp3", 0.5, (0.1, 0.9), 2_000)

    found = play(case, 1)

    assert found == play(case, 1)
    assert found.found is not None
    assert 200 <= found.found < 1_500
    assert not found.outside


def test_visitors_come_again_and_stay_in_their_group():
    case = Case("fixed", 0.5, ALIKE, 3_000, 20)
    assert [look.acts for look in islice(looks(case, 1), 2)] == [50, 100]
    chance = simulation.np.random.default_rng(1)
    names = [name for name, _ in simulation._visits(case, chance)]
    counts = {name: names.count(name) for name in set(names)}
    assert len(names) == 3_000
    assert 15 < max(counts.values()) <= 20


def test_the_sessions_asked_for_are_all_of_different_seeds():
    jobs = jobs_of(counted_cases(2_000, 60))
    once = [case for case, _ in jobs if not case.has_effect and case.most_visits == 1]
    assert (len(once), len({seed for _, seed in jobs})) == (2_000, len(jobs))
    assert set(jobs_of(counted_cases(800, 24))) == set(jobs_of(counted_cases(2_000, 60), 8))


def test_the_command_keeps_what_was_played_and_writes_its_tables(tmp_path, monkeypatch):
    small = {Case("dexp3", 0.5, ALIKE, 300): 20, Case("dexp3", 0.5, (0.1, 0.9), 400): 1}
    monkeypatch.setattr(simulation, "counted_cases", lambda runs, effects: small)
    monkeypatch.setattr(simulation, "ACTS", 300)
    monkeypatch.setattr(terminal, "on_all_cores", lambda label, work, jobs: list(map(work, jobs)))
    page = tmp_path / "page.md"
    page.write_text("\n".join(["before", *MARKS, "after"]))

    for _ in range(2):
        result = CliRunner().invoke(app, ["verdict", "--out", str(tmp_path / "out"), "--page", str(page)])
        assert result.exit_code == 0, result.output
        monkeypatch.setattr(terminal, "on_all_cores", None)

    text = page.read_text()
    assert text.startswith(f"before\n{MARKS[0]}")
    assert "| all | once |  | 20 |" in text
    assert "| 10 % | 0.5 | 1 |" in text
    assert CliRunner().invoke(app, ["verdict", "--page", str(tmp_path / "none.md")]).exit_code == 2
