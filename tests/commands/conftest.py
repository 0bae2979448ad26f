"""Commands run as from a shell, against one real service for each file."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from service.commands.run import main
from tests.support.running import RunningService

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("commands"), "--store-url", "memory://") as service:
        service.wait_ready()
        yield service


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a word with its arguments; returns exit code, output and errors."""
    monkeypatch.delenv("DELAYED_BANDITS_API_KEY", raising=False)

    def run(word: str, *arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        return main(word, [str(each) for each in arguments], "prog"), *capsys.readouterr()

    return run


@pytest.fixture
def called(command: Run, service: RunningService) -> Callable[..., Any]:
    """Runs a word that calls the service, and returns its JSON."""

    def run(word: str, *arguments: object) -> Any:
        code, out, err = command(word, *arguments, "--json", "--url", service.url)
        assert (code, err) == (0, "")
        return json.loads(out)

    return run
