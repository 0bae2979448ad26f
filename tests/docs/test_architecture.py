"""docs/architecture.md names every file that an act and a feedback pass, and how many functions they take."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys

import pytest
import redis

from tests.support.pages import ROOT, rows
from tests.test_imports import ARROWS, LEAVES

PAGE_NAME = "docs/architecture.md"
PAGE = (ROOT / PAGE_NAME).read_text()
WAY = PAGE.partition("## The way of one feedback")[2].partition("\n`python -m")[0]
NAMED = r"`([\w.]+)`(†?)(?:\s+in\s+`([\w/]+\.py)`)?"
OF_A_FUNCTION = r"[A-Z]\w*\.\w+|[a-z]+_\w+"


@pytest.fixture(scope="module")
def passed(_embedded_server):
    """Functions by request, in the order of their calls."""
    with redis.Redis.from_url(_embedded_server.url) as store:
        store.flushall()  # Decisions of other tests that are due would keep the sweeper busy beside the requests.
    command = [sys.executable, "-m", "tests.support.request_trace", _embedded_server.url]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    calls = [line.split("\t") for line in run.stdout.splitlines() if line.count("\t") == 2]
    return {name: [tuple(call) for request, *call in calls if request == name] for name in ("act", "feedback")}


def cells_of(*heads):
    """The cells of each row of a table of the page."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in rows(PAGE_NAME, *heads)]


def figures(calls):
    files = [file for file, _ in calls]
    changes = sum(one != following for one, following in itertools.pairwise(files))
    return len(set(calls)), len(set(files)), changes


def told_of(request):
    """What each step of the way says of a request: what happens, and the files."""
    steps = []
    for step in re.split(r"^\d+\. ", WAY, flags=re.M)[1:]:
        happens, *lines = re.split(r"^ +- ", step, flags=re.M)
        by_head = dict(re.split(r":\s", line, maxsplit=1) for line in lines)
        act, _, files_of_act = by_head.get("Act", "").partition("Files:")
        told = (happens, by_head["Files"]) if request == "feedback" else (act, by_head["Files"] + files_of_act)
        steps.append(told)
    return steps


@pytest.mark.parametrize("request_", ["act", "feedback"])
def test_the_steps_name_every_file_that_a_request_passes_in_order(passed, request_):
    """By the first call of each file; a file may be named in several steps."""
    steps = [set(re.findall(r"`([\w/]+\.py)`", files)) for _, files in told_of(request_)]
    step, misplaced = 0, []
    for file in dict.fromkeys(file for file, _ in passed[request_]):
        named = [number for number in range(step, len(steps)) if file in steps[number]]
        step = min(named, default=step)
        misplaced += [] if named else [file]

    assert misplaced == []


@pytest.mark.parametrize("request_", ["act", "feedback"])
def test_the_page_states_how_long_the_way_is(passed, request_):
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {request_} |"))
    stated = tuple(int(cell.split()[0]) for cell in row.split("|")[-4:-1])

    assert stated == figures(passed[request_])


@pytest.mark.parametrize("request_", ["act", "feedback"])
def test_a_request_calls_the_functions_that_its_way_names(passed, request_):
    """Methods, functions named with their file, and others with an underscore; a dagger marks other branches."""
    called = {name for file, function in passed[request_] for name in (function, f"{function} in {file}")}
    told = "\n".join(happens for happens, _ in told_of(request_))
    named = [
        (f"{name} in {file}" if file else name, bool(dagger))
        for name, dagger, file in re.findall(NAMED, told)
        if file or re.fullmatch(OF_A_FUNCTION, name)
    ]

    assert named
    assert [name for name, elsewhere in named if (name in called) is elsewhere] == []


def test_the_table_of_folders_has_every_arrow():
    """As ``tests/test_imports.py`` has them."""
    told = {}
    for name, imports, _ in cells_of("folder or file", "imports", "holds"):
        told[re.sub(r"`|/|\.py", "", name)] = set(imports.replace("`", "").split(", ")) - {""}

    assert {name for name, imports in told.items() if "leaf" in imports} == LEAVES
    assert {name: imports - {"leaf"} for name, imports in told.items()} == ARROWS | {"dashboard": set()}
    assert {path.name for path in (ROOT / "service").iterdir() if path.is_dir()} - {"__pycache__"} <= told.keys()
