"""The largest requests of every kind let others have their turn.

What a turn comes to is counted in lines of Python run, which depends on no machine, and beside it how often a
request pauses: most of the work on large answers is done below Python, between pauses. ``python -m loadtest bench
--part turns`` measures turns in time.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from loadtest.bench.turns import LARGE_REQUESTS, in_process_app, longest_turn, worker_settings
from service.commit.cache import CachedSession
from service.cooperative import FairYield
from tests.support.examples import some_quick

MOST = 100_000
"""Lines in one turn, some 3 ms. In one go the batches run 500,000 to 900,000, most others fewer than this."""
PIECES = 200
"""Pauses at least; each of the requests has parts by the thousand."""
BELOW_PYTHON = dict.fromkeys(("many_labels_paused", "floor_at_many_labels", "many_probabilities"), MOST // 10)
"""Requests of which no step looks at each label in Python, but in a thread; some 50,000 to 80,000 lines else."""
TOGETHER = {"many_acts"}
"""Requests that are carried out in a few steps, each for many of their parts."""


class Lines:
    """Counts the lines that this thread runs."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        return self.count

    def trace(self, _frame: FrameType, event: str, _argument: object) -> Any:
        """Count, as ``sys.settrace`` asks for it."""
        self.count += event == "line"
        return self.trace


class Pauses:
    """Counts pauses, and takes each of them."""

    def __init__(self) -> None:
        self.count = 0

    async def take(self, _pause: FairYield) -> None:
        """Pause, however short the work was."""
        self.count += 1
        await asyncio.sleep(0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    pauses = Pauses()
    monkeypatch.setattr(FairYield, "__call__", lambda pause: pauses.take(pause))
    return pauses


@pytest.fixture
def lines() -> Iterator[Lines]:
    lines, before = Lines(), sys.gettrace()
    sys.settrace(lines.trace)
    yield lines
    sys.settrace(before)


IN_SECONDS = {"many_acts"}
"""The others take longer, being counted line by line."""


@pytest.mark.parametrize("name", some_quick(LARGE_REQUESTS, IN_SECONDS))
async def test_others_have_their_turn(lines: Lines, pauses: Pauses, name: str) -> None:
    assert await longest_turn(name, lines) < BELOW_PYTHON.get(name, MOST)
    assert pauses.count > (0 if name in TOGETHER else PIECES)


async def test_many_arms_that_changed_are_encoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where none was added: pauses are encoded with all arms."""
    encode, threads = CachedSession.encode, []

    def noted(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return encode(*arguments)

    monkeypatch.setattr(CachedSession, "encode", noted)
    labels = [str(number) for number in range(2_000)]
    async with in_process_app() as service:
        path = await service.create({"kind": "fixed", "arms": labels})
        await service.call("PATCH", f"{path}/arms", {"pause": labels[:1]})
        paused = threads.pop()
        await service.call("POST", f"{path}/act")

    assert paused != threading.get_ident() == threads.pop()


@pytest.mark.slow
async def test_the_document_is_not_made_by_the_event_loop(lines: Lines) -> None:
    async with in_process_app() as service:
        before = lines.count
        status, _ = await service.call("GET", "/openapi.json")

    assert status == 200
    assert lines.count - before < MOST / 10


def test_what_a_worker_starts_with_is_not_looked_through_for_garbage() -> None:
    with worker_settings():
        assert gc.get_freeze_count() > 10 * len(gc.get_objects())


def test_a_worker_looks_for_garbage_from_when_it_serves() -> None:
    gc.disable()  # As a worker that starts.
    try:
        with worker_settings():
            assert gc.isenabled()
    finally:
        gc.enable()
