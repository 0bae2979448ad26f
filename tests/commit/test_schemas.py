"""Which schema a worker writes: the newest that all live workers of its store read."""

import asyncio
from functools import partial

import pytest

from service.app import create_app
from service.commit import schemas as module
from service.commit.schemas import LEASE_SECONDS, RENEW_SECONDS, Schemas
from service.errors import StoreUnavailableError
from service.settings import Settings
from tests.support.waiting import until


@pytest.fixture
def three(monkeypatch):
    """A program that reads schemas 1, 2 and 3."""
    monkeypatch.setattr(module, "SCHEMAS", {1: None, 2: None, 3: None})


@pytest.mark.usefixtures("three")
async def test_the_newest_is_written_that_all_have_announced_for_a_renewal(memory, clock):
    new, written = Schemas(memory), []

    async def renewed():
        await new.announce()
        written.append(new.written)
        clock.now += RENEW_SECONDS

    await renewed()
    await renewed()
    await memory.announce("older", [1, 2], LEASE_SECONDS)
    await renewed()
    await memory.announce("oldest", [1], LEASE_SECONDS)
    await renewed()
    await memory.announce("oldest", [1], 0)
    await renewed()
    await renewed()
    await renewed()
    await memory.announce("stranger", [7], LEASE_SECONDS)
    await renewed()

    assert written == [1, 3, 2, 1, 1, 2, 3, 1]


async def told(condition):
    await asyncio.sleep(0.001)
    return condition()


@pytest.mark.usefixtures("three")
async def test_who_can_not_renew_its_lease_writes_the_oldest_when_it_is_over(memory, monkeypatch):
    new, failures = Schemas(memory), []
    for _ in range(2):
        await new.announce()
    assert new.written == 3

    async def fails(*_):
        raise outcomes.pop(0) if outcomes else ValueError("a fault")

    monkeypatch.setattr(memory, "announce", fails)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)
    outcomes = [StoreUnavailableError("away"), ValueError("a fault"), TimeoutError()]
    task = await new.begin(lambda *failure: failures.append(failure))
    await until(partial(told, lambda: len(failures) == 2))
    assert new.written == 3
    new._lease_ends = 0.0
    outcomes.append(StoreUnavailableError("away"))
    await until(partial(told, lambda: new.written == 1))
    assert ("announce", "away") in failures
    assert not task.done()
    task.cancel()


async def test_a_service_announces_itself_before_it_serves_and_is_gone_when_it_has_stopped(memory):
    app = create_app(Settings(), memory)
    async with app.router.lifespan_context(app):
        assert list(await memory.announce("other", [], 0)) == [{1}]
    assert list(await memory.announce("other", [], 0)) == []
