"""``counts`` commits one session with counts and one without, and leaves the service as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loadtest.bench import count_costs
from loadtest.commands import app
from service.commit.batch import Journal
from service.store.redis.store import RedisStore


async def test_one_session_has_its_counts_and_one_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    commit, counts, counted = RedisStore.commit, Journal.counts, {"counted": 0, "bare": 0}

    async def noted(store, commit_):
        counted[commit_.session_id] += sum(row[1] for row in commit_.written.counts.values())
        return await commit(store, commit_)

    monkeypatch.setattr(RedisStore, "commit", noted)

    found = await count_costs.count_costs(None, repetitions=2, pairs=3)

    assert counted == {"counted": 9, "bare": 0}
    assert [len(times) for times in found] == [2, 2]
    assert min(*found.counted, *found.bare) > 0
    assert Journal.counts is counts


def test_the_command_writes_what_it_found(tmp_path: Path) -> None:
    arguments = ["counts", "--repetitions", "2", "--pairs", "2", "--out", str(tmp_path)]

    result = CliRunner().invoke(app, arguments)

    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert f"{summary['ratio']:.3f} times" in result.output
