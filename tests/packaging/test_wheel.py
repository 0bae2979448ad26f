"""The wheel, installed into an environment of its own, serves as the checkout does."""

import json
import sys

import pytest

from service import __version__
from service.__main__ import NOT_INSTALLED, SERVER_PACKAGES
from tests.packaging.conftest import run
from tests.support.running import RunningService, create


def test_it_serves_beside_a_foreign_service(scripts, elsewhere, tmp_path):
    command = (str(scripts / "delayed-bandits"), "serve")
    with RunningService(tmp_path, command=command, cwd=elsewhere, environment={"PYTHONPATH": ""}) as service:
        with service.client() as client:
            answer = client.post(f"/v1/sessions/{create(client)}/act")
            assert service.children("delayed_bandits.server.worker")

        assert answer.status_code == 200
        assert answer.json()["slot"] == 1
        assert service.stop() == 0
        loggers = {json.loads(line)["logger"] for line in service.text().splitlines()}

    assert "service.server.supervisor" in loggers
    assert not {name for name in loggers if name.startswith("delayed_bandits")}


@pytest.mark.parametrize("words", [["--version"], ["serve", "--version"]])
def test_it_tells_its_version_without_any_dependency(bare, elsewhere, words):
    told = run(bare / "delayed-bandits", *words, cwd=elsewhere)

    assert (told.returncode, told.stdout) == (0, f"delayed-bandits {__version__}\n")


def test_it_lists_its_commands_without_any_dependency(bare, elsewhere):
    told = run(bare / "delayed-bandits", "--help", cwd=elsewhere)

    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("usage: delayed-bandits [COMMAND] [FLAGS]")


def test_without_the_extra_it_says_which_one_to_install(bare, elsewhere):
    ended = run(bare / "delayed-bandits", "serve", cwd=elsewhere)

    assert ended.returncode == NOT_INSTALLED
    assert len(ended.stderr.splitlines()) == 1
    assert "pip install 'delayed-bandits[embedded]'" in ended.stderr
    assert "fastapi" in ended.stderr


@pytest.mark.parametrize(
    ("word", "says"),
    [("sessions", "pip install 'delayed-bandits[cli]'"), ("sesions", "there is no command sesions")],
)
def test_a_command_that_is_not_there_is_one_line(bare, elsewhere, word, says):
    ended = run(bare / "delayed-bandits", word, "list", cwd=elsewhere)

    assert (ended.returncode, len(ended.stderr.splitlines())) == (NOT_INSTALLED, 1)
    assert says in ended.stderr


USER = """
from typing import assert_type

from delayed_bandits import AsyncBandits, Bandits
from delayed_bandits.client import Action, ReportCounts, SessionView

def visit() -> str | int:
    with Bandits("http://localhost", api_key="k", timeout=2.0, max_retries=2) as bandits:
        shop = bandits.sessions.ensure("shop", learner={"kind": "fixed", "arms": ["a"]}, loss_range=[1, 0])
        action = shop.act(eligible=["a"], fallback="a")
        assert_type(action, Action)
        assert_type(shop.report(action, reward=1), bool)
        assert_type(shop.view(), SessionView)
        assert_type(bandits.reports, ReportCounts)
        assert_type([view.slot for view in bandits.sessions.list()], list[int])
        shop.act(eligable=["a"])  # type: ignore[call-arg]
        shop.report(action, los=1)  # type: ignore[call-arg]
        return action.choice

async def awaited() -> None:
    async with AsyncBandits("http://localhost") as bandits:
        assert_type(await bandits.session("shop").act(fallback="a"), Action)
        assert_type([view.slot async for view in bandits.sessions.list()], list[int])
"""


@pytest.mark.slow
def test_programs_that_use_the_client_have_their_types_checked(scripts, elsewhere):
    pytest.importorskip("mypy")
    (elsewhere / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", scripts / "python", "user.py"]
    checked = run(*command, "--cache-dir", elsewhere / "cache", cwd=elsewhere)

    assert (checked.returncode, checked.stdout) == (0, "Success: no issues found in 1 source file\n")


@pytest.mark.slow
def test_the_client_imports_nothing_of_the_server(scripts, elsewhere):
    code = "import sys; from delayed_bandits import AsyncBandits, Bandits; print(*sys.modules)"
    ended = run(scripts / "python", "-c", code, cwd=elsewhere)

    assert ended.returncode == 0, ended.stderr
    assert not {name.split(".")[0] for name in ended.stdout.split()} & set(SERVER_PACKAGES)


@pytest.mark.slow
def test_help_and_bad_flags_are_as_in_a_checkout(scripts, elsewhere):
    told = run(scripts / "delayed-bandits", "serve", "--help", cwd=elsewhere)
    refused = run(scripts / "delayed-bandits", "serve", "--no-such-flag", cwd=elsewhere)

    assert told.returncode == 0
    assert told.stdout.startswith("usage: delayed-bandits serve")
    assert (refused.returncode, refused.stderr) == (
        2,
        "delayed-bandits: there is no flag --no-such-flag: see --help\n",
    )
