"""docs/architecture.md names every file that an act and a feedback pass, and how many functions they take."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest

from tests.docs.test_readme import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()


@pytest.fixture(scope="module")
def passed(_embedded_server):
    """Functions by request, in the order of their calls."""
    command = [sys.executable, "-m", "tests.support.request_trace", _embedded_server.url]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    return {
        name: [tuple(call) for call in calls] for name, calls in json.loads(run.stdout.splitlines()[-1]).items()
    }


def figures(calls):
    files = [file for file, _ in calls]
    changes = sum(one != following for one, following in itertools.pairwise(files))
    return len(set(calls)), len(set(files)), changes


@pytest.mark.parametrize("request_", ["act", "feedback"])
def test_the_page_names_every_file_that_a_request_passes(passed, request_):
    unnamed = {file for file, _ in passed[request_] if f"`{file}`" not in PAGE}

    assert unnamed == set()


@pytest.mark.parametrize("request_", ["act", "feedback"])
def test_the_page_states_how_long_the_way_is(passed, request_):
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {request_} |"))
    stated = tuple(int(cell) for cell in row.split("|")[-4:-1])

    assert stated == figures(passed[request_])
