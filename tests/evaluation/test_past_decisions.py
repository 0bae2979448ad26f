"""Past decisions of a file, folded into what a session begins with; wrong rows are named."""

import pytest

from service.row_files import LogFileError, initial_of
from service.testing import LocalBandits

CLICKS = "when,label,reward\n1,hat,1\n2,shoes,\n3,hat,\n4,hat,0\n"


@pytest.fixture
def file(tmp_path):
    def written(text, name="past.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return written


def test_each_arm_has_its_acts_and_its_mean(file):
    shoes = {"label": "shoes", "acts": 1, "mean_reward": 0.0}

    assert initial_of(file(CLICKS), default=0) == [
        {"label": "hat", "acts": 3, "mean_reward": pytest.approx(1 / 3)},
        shoes,
    ]
    assert initial_of(file(CLICKS), default=0, most_acts=2)[0]["acts"] == 2


def test_rows_may_stand_for_many_and_means_stay_in_the_range(file):
    rows = file("".join(f'{{"arm": {arm}, "loss": 0.1, "count": 3}}\n' for arm in (1, 0, 1)), "past.jsonl")
    other, one = initial_of(rows, (0.5, 0.1))

    assert other == {"arm": 1, "acts": 6, "mean_loss": pytest.approx(0.1)}
    assert one == {"arm": 0, "acts": 3, "mean_loss": pytest.approx(0.1)}
    assert min(one["mean_loss"], other["mean_loss"]) >= 0.1


def test_a_session_takes_it(file):
    with LocalBandits() as bandits:
        spec = {"learner": {"kind": "multiscale_tsallis", "arms": ["hat", "shoes"]}, "reward_range": [0, 1]}
        rows = "label;reward;count\nhat;0,1;5000\nshoes;0,3;5000\n"
        bandits.sessions.create("s", initial=initial_of(file(rows)), seed=1, **spec).act()

        assert bandits.sessions.get("s").probabilities[1] > 0.9


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("label,reward\na,1\na,x\n", "line 3: reward: 'x' can't be read"),
        ("label,reward\na,1\na,nan\n", "line 3: reward is empty"),
        ("label,reward\na,1\na,1.5\n", r"line 3: reward must lie in \[0, 1\], not 1.5"),
        ("label,reward\n,1\n", "line 2: give either label or arm"),
        ("label,arm,reward\na,1,1\n", "line 2: give either label or arm"),
        ("label,clicks\na,1\n", "line 2: give either reward or loss"),
        ("label,reward,loss\na,1,\n", "line 2: give either reward or loss"),
        ("label,reward,count\na,1,2\na,1,0.5\n", "line 3: count must be a whole number from 1"),
        ("label,reward,count\na,1,9e8\na,1,9e8\n", "line 3: count must be .* 1000000000 acts"),
        ("arm,reward\n1,1\n1e300,1\n", "line 3: arm must be .* below 100000"),
        (f"label,reward\n{'a' * 65_537},1\n", "line 2: label must have 65536 characters at most"),
        ("label,reward\n", "no past decisions"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_line(file, rows, told):
    with pytest.raises(LogFileError, match=f"past.csv.*{told}"):
        initial_of(file(rows))


@pytest.mark.parametrize("lines", ["[1]", "{", '{"label": "a", "loss": 1}\n{"label": "a", "reward": 1}'])
def test_lines_that_are_no_such_objects_are_named(file, lines):
    with pytest.raises(LogFileError, match=r"past.jsonl, line [12]: "):
        initial_of(file(lines, "past.jsonl"))
