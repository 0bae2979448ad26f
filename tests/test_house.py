"""The budget of the house: how much there may be to read, and how far a request may walk.

``REACHED`` is a ratchet. What is measured may not be above it, and above the budget it is lowered when less is
reached.
"""

import re

import pytest

from tests.support.house import ROOT, code_lines, figures, files_with_code, words_of_docs

BUDGET = {
    "code lines of service": 19_500,
    "files of service": 120,
    "folders of service": 17,
    "largest file of service": 350,
    "code lines of tests": 32_000,
    "code lines of loadtest": 7_000,
    "words of docs": 45_000,
    "files of a feedback": 20,
    "functions of a feedback": 90,
    "changes of file of a feedback": 55,
    "files of an act": 20,
    "functions of an act": 90,
    "changes of file of an act": 55,
}
REACHED = {
    "code lines of service": 19_340,
    "files of service": 111,
    "folders of service": 16,
    "largest file of service": 350,
    "code lines of tests": 32_000,
    "code lines of loadtest": 6_860,
    "words of docs": 45_000,
    "files of a feedback": 18,
    "functions of a feedback": 78,
    "changes of file of a feedback": 50,
    "files of an act": 19,
    "functions of an act": 77,
    "changes of file of an act": 53,
}
STAND_ALONE = {"service/flag_parser.py", "service/server/worker_child.py", "service/store/embedded_child.py"}
"""Small files: two begin a process, one is for commands that need nothing of the server."""
SLACK = 0.03
"""How much less than what is reached nobody has to write down."""


def held(measured: dict[str, int]) -> None:
    for name, value in measured.items():
        assert value <= max(REACHED[name], BUDGET[name]), f"{name}: {value}"
        lowered = REACHED[name] <= BUDGET[name] or value >= REACHED[name] * (1 - SLACK)
        assert lowered, f"{name}: write {value} into REACHED"


def test_the_service_is_within_its_budget():
    sizes = files_with_code("service")

    held(
        {
            "code lines of service": sum(sizes.values()),
            "files of service": len(sizes),
            "folders of service": len({name.rpartition("/")[0] for name in sizes}),
            "largest file of service": max(sizes.values()),
        }
    )


def test_a_file_is_a_subject_and_a_folder_a_layer():
    sizes = files_with_code("service")
    sole = ("__init__.py", "__main__.py")
    small = {name for name, lines in sizes.items() if lines < 40 and not name.endswith(sole)}
    nested = {name.rpartition("/")[0] for name in sizes if name.count("/") > 2}

    assert small == STAND_ALONE
    assert nested == {"service/api/routes", "service/store/redis"}


@pytest.mark.parametrize("folder", ["tests", "loadtest"])
def test_what_stands_beside_it_is_within_its_budget(folder):
    held({f"code lines of {folder}": sum(files_with_code(folder).values())})


def test_the_pages_are_within_their_budget():
    held({"words of docs": words_of_docs()})


@pytest.mark.parametrize("request_", ["a feedback", "an act"])
def test_a_request_walks_no_further_than_its_budget(passed, request_):
    functions, files, changes = figures(passed[request_.split()[1]])

    found = {"functions": functions, "files": files, "changes of file": changes}
    held({f"{what} of {request_}": count for what, count in found.items()})


@pytest.mark.parametrize("request_", ["act", "feedback"])
def test_every_file_that_a_request_passes_is_named(passed, request_):
    named = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "docs/architecture.md").read_text()))

    assert {file for file, _ in passed[request_]} - named == set()


def test_code_lines_are_counted_without_docstrings_comments_and_blank_lines(tmp_path):
    file = tmp_path / "counted.py"
    file.write_text('"""One.\n\nTwo."""\n\n# three\nx = (\n    1,  # four\n)\n\n\ndef f():\n    """Five."""\n')

    assert code_lines(file) == 4
