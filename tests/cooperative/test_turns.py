"""Reads of one path take turns."""

from __future__ import annotations

import asyncio

import pytest

from service.cooperative import Turns


async def read(turns: Turns, path: str, begun: list[str], *, until: asyncio.Event | asyncio.Barrier) -> None:
    async with turns.of(path):
        begun.append(path)
        await until.wait()


async def test_few_reads_of_a_path_are_under_way_and_those_of_others_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "counts_seconds", 3600.0)
    turns, begun, done = Turns(), list[str](), asyncio.Event()
    reads = [asyncio.create_task(read(turns, path, begun, until=done)) for path in ["hot"] * 9 + ["quiet"]]
    await asyncio.sleep(0)

    assert begun == ["hot"] * Turns.at_once + ["quiet"]

    done.set()
    await asyncio.gather(*reads)
    assert begun.count("hot") == 9


async def test_a_read_that_waits_long_lets_the_next_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "counts_seconds", 0.0)
    turns, begun, together = Turns(), list[str](), asyncio.Barrier(10)
    reads = [asyncio.create_task(read(turns, "hot", begun, until=together)) for _ in range(9)]

    async with asyncio.timeout(30):
        await together.wait()

    await asyncio.gather(*reads)


async def test_readers_that_leave_keep_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "counts_seconds", 3600.0)
    turns, begun, never = Turns(), list[str](), asyncio.Event()
    for _ in range(3):
        reads = [asyncio.create_task(read(turns, "hot", begun, until=never)) for _ in range(9)]
        await asyncio.sleep(0)
        for each in reads:
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.gather(*reads)
        await asyncio.gather(*reads, return_exceptions=True)
        await asyncio.sleep(0)

    assert begun == ["hot"] * Turns.at_once * 3
