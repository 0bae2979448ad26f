"""``pytest tests/learners --update-vectors``: recording the vector files of learners that have none."""

import json

import pytest

from service.learners import REGISTRY
from tests.support import vector_recorder

NEXT = (
    "Next: redo the first slots by hand and add them as a trace of its own, with what they rest on under 'about'; "
    "then commit the file."
)
RECORDED = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vectors of learners")
    group.addoption(
        "--update-vectors",
        nargs="?",
        const="",
        metavar="KIND",
        help="record tests/vectors/KIND.json of learners that have none, or the recorded trace of KIND again",
    )
    group.addoption("--vector-fields", metavar="JSON", help="parameters of the learner whose vectors are recorded")


def pytest_configure(config: pytest.Config) -> None:
    kind = config.getoption("--update-vectors", default=None)
    if kind is None or hasattr(config, "workerinput"):
        return
    if kind and kind not in REGISTRY:
        raise pytest.UsageError(f"no learner {kind!r} for --update-vectors; write the option behind the folder")
    text = config.getoption("--vector-fields", default=None)
    try:
        fields = None if text is None else json.loads(text)
        paths = [vector_recorder.record(each, fields) for each in ([kind] if kind else vector_recorder.missing())]
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[RECORDED] = [f"recorded {path}" for path in paths]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    recorded = config.stash.get(RECORDED, None)
    for line in [*recorded, NEXT] if recorded else [] if recorded is None else ["no learner lacks its vector file"]:
        terminalreporter.write_line(line)
