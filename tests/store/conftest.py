"""Several servers that together are one store."""

import asyncio
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from service.store.embedded import EmbeddedServer
from service.store.redis.store import RedisStore
from tests.support.cluster import Cluster
from tests.support.programs import WHEEL, program
from tests.support.sentinel import Watched
from tests.support.sessions import new_session


@pytest.fixture(autouse=True)
async def stores_are_closed(monkeypatch):
    """Closes what a test has opened in Redis, at its end."""
    opened, open_, loop = list[RedisStore](), RedisStore.__init__, asyncio.get_running_loop()

    def noted(store: RedisStore, *args: Any) -> None:
        open_(store, *args)
        with suppress(RuntimeError):  # No event loop runs, or another one, which closes it itself.
            opened.extend([store] if asyncio.get_running_loop() is loop else [])

    monkeypatch.setattr(RedisStore, "__init__", noted)
    yield
    for store in opened:
        await store.close()


@pytest.fixture
async def created(store):
    """Session ``s`` in the test's store, as nobody has used it yet."""
    await store.create(new_session())


@pytest.fixture
def cluster(server_program, tmp_path):
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
def watched(server_program, tmp_path):
    with ExitStack() as stack:
        yield Watched(tmp_path, stack)


@pytest.fixture
def started(tmp_path):
    """Starts the server of the folder ``data`` by its program; None searches for one."""
    with ExitStack() as stack:

        def started(binary: str | None = WHEEL) -> EmbeddedServer:
            server = EmbeddedServer(tmp_path / "data", binary=None if binary is None else Path(program(binary)))
            stack.callback(server.stop)
            server.start()
            return server

        yield started
