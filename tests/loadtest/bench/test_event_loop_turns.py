"""``turns`` measures what it is asked to, and refuses what it does not know."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.bench import event_loop_turns as turns
from loadtest.bench.large_requests import LARGE_REQUESTS
from loadtest.commands import app
from loadtest.errors import ServiceError


@pytest.mark.slow
def test_a_request_is_measured_as_often_as_asked(tmp_path: Path) -> None:
    arguments = ["turns", "--request", "many_acts", "--repetitions", "2", "--out", str(tmp_path)]
    interval = sys.getswitchinterval()

    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary.keys() == {"many_acts"}
    found = summary["many_acts"]
    assert len(found["all"]) == 2
    assert 0 < found["min"] <= found["median"] <= found["max"]
    assert "1,000 acts at 1,000 arms" in result.output
    assert (sys.getswitchinterval(), gc.get_freeze_count()) == (interval, 0)


def test_an_unknown_request_is_told_with_those_that_exist(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["turns", "--request", "small", "--out", str(tmp_path)])

    assert result.exit_code == 2
    assert "small" in result.output


async def test_another_answer_than_expected_ends_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    other = LARGE_REQUESTS["many_acts"]._replace(status=418)
    monkeypatch.setitem(turns.LARGE_REQUESTS, "many_acts", other)

    with pytest.raises(ServiceError, match="status 200"):
        await turns.longest_turn("many_acts", lambda: 0.0)
