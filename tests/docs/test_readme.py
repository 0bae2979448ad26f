"""The README tells the truth: its tour is run, its tables are compared with the code."""

import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.errors import ServiceError
from service.learners import REGISTRY
from service.settings import Settings
from service.store.redis import keys
from tests.support.running import RunningService

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TOURS = [README, (ROOT / "docs/feedback.md").read_text()]
VOLATILE = {"version", "created_at"}
SIZES = {"n_arms": 3, "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
THEOREM = {"horizon": 1000, "max_delay": 3, "total_delay": 100}


def table(*heads):
    """The rows of the README's table with these heads."""
    head = f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    assert head in README, f"no table with the heads {heads}"
    return README.split(head)[1].split("\n\n")[0].splitlines()


def row(*cells):
    return f"| {' | '.join(cells)} |"


def spec(kind, fields):
    return REGISTRY[kind].model_validate(
        {"kind": kind} | {name: value for name, value in fields.items() if name in REGISTRY[kind].model_fields}
    )


def needs_rates(kind):
    try:
        spec(kind, SIZES)
    except ValidationError:
        return True
    return False


def test_the_learners_are_those_of_the_registry():
    """Each row is what a learner says of itself; after adding one, this shows the row that is missing."""
    expected = []
    for kind, cls in REGISTRY.items():
        name, _, description = cls.__doc__.splitlines()[0].partition(": ")
        information = spec(kind, SIZES | THEOREM).build().information
        rates = "given, or the theorem's" if needs_rates(kind) else "untuned"
        expected.append(row(f"`{kind}`", name, information, rates, description))

    assert table("`kind`", "learner", "feedback", "rates", "") == expected


def test_the_settings_are_those_of_the_code():
    expected = [
        row(f"`BANDIT_{name.upper()}`", f"`{field.default}`", field.description)
        for name, field in Settings.model_fields.items()
    ]

    assert table("variable", "default", "") == expected


def test_the_errors_are_those_of_the_code():
    errors = sorted(ServiceError.__subclasses__(), key=lambda error: (error.status, error.code))
    expected = [row(str(error.status), f"`{error.code}`", error.__doc__.splitlines()[0]) for error in errors]

    assert table("status", "`code`", "") == expected


def test_the_results_are_those_of_the_full_report():
    report = (ROOT / "docs/results.md").read_text()
    for line in table("over arms", "synthetic", "Jester") + table("over points", "synthetic", "yacht"):
        name, *figures = line.strip("| ").split(" | ")
        (full,) = [row for row in report.splitlines() if row.startswith(f"| {name} |")]

        assert set(figures) <= {cell.strip() for cell in full.split("|")}, name


def test_the_architecture_page_knows_every_key():
    told = re.findall(r"^\| `bandit(:[^`]+)` \|", (ROOT / "docs/architecture.md").read_text(), re.M)
    spelled = re.findall(r"^``<prefix>(:.+?)``", keys.__doc__, re.M)

    assert [key.replace("{id}", "{<session id>}") for key in told] == spelled


@pytest.mark.parametrize("path", ["README.md", "docs/feedback.md", "docs/learners.md"])
def test_linked_files_exist(path):
    page = ROOT / path
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_first_two_commands_start_and_test_the_service():
    commands = re.findall(r"```sh\n(.*?)\n```", README, re.S)[:2]

    assert commands == ["pip install '.[embedded]' && python -m service", "pip install '.[test]' && pytest"]


def same(told, got):
    """Equal, numbers up to rounding of another machine's exp and log, volatile fields aside."""
    if isinstance(told, dict):
        return told.keys() == got.keys() and all(same(told[key], got[key]) for key in told.keys() - VOLATILE)
    if isinstance(told, list):
        return len(told) == len(got) and all(map(same, told, got))
    if isinstance(told, float):
        return math.isclose(told, got, rel_tol=1e-9)
    return told == got


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("text", TOURS, ids=["README", "feedback"])
def test_the_tour_prints_what_it_says(tmp_path, text):
    steps = re.findall(r"```sh\n((?:sleep \d; )?curl [^`]*)\n```\n\n```json\n([^`]*)\n```", text)
    assert len(steps) == len(re.findall(r"```sh\n(?:sleep \d; )?curl ", text)) >= 8
    with RunningService(tmp_path) as service:
        service.wait_ready()
        for command, told in steps:
            run = command.replace("localhost:8000", service.url.removeprefix("http://"))
            answer = subprocess.run(["sh", "-c", run], capture_output=True, text=True, check=True).stdout

            assert same(json.loads(told), json.loads(answer)), f"{command}\n{answer}"
