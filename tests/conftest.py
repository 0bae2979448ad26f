"""Real servers and the three stores, for every test folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from service.store import open_store
from service.store.base import Store
from service.store.embedded.server import EmbeddedServer
from service.store.options import StoreOptions
from tests.support.clock import Clock
from tests.support.key_leaks import leaks
from tests.support.real_redis import RedisServer, server_binary
from tests.support.running import RunningService, create


@pytest.fixture(scope="session")
def _redis_server() -> Iterator[RedisServer]:
    with TemporaryDirectory(prefix="bandit-redis-") as folder:
        server = RedisServer(Path(folder)).start()
        yield server
        server.close()


@pytest.fixture
def redis_server(_redis_server: RedisServer) -> Iterator[RedisServer]:
    """One real redis-server for the whole run, empty for each test; afterwards no key may have leaked."""
    _redis_server.client.flushall()
    yield _redis_server
    assert leaks(_redis_server.client) == []


@pytest.fixture
def own_redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A redis-server of one test, which may harm it."""
    server = RedisServer(tmp_path).start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def _embedded_server() -> Iterator[EmbeddedServer]:
    server_binary()
    with TemporaryDirectory(prefix="bandit-embedded-") as folder:
        server = EmbeddedServer(Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """Real processes that keep their sessions in memory, among them session ``s`` of three arms."""
    with RunningService(tmp_path_factory.mktemp("service"), "--store-url", "memory://") as service:
        with service.client() as client:
            create(client, session_id="s")
        yield service


@pytest.fixture
def clock() -> Clock:
    """For stores in memory."""
    return Clock()


@pytest.fixture(params=["memory", "redis", "embedded"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of each kind of store in turn."""
    if request.param == "memory":
        return "memory://"
    name = "redis_server" if request.param == "redis" else "_embedded_server"
    url: str = request.getfixturevalue(name).url
    return url


@pytest.fixture
def store_options(request: pytest.FixtureRequest) -> StoreOptions:
    """Every test has keys of its own."""
    return StoreOptions(prefix=f"t{abs(hash(request.node.nodeid))}")


@pytest.fixture
async def store(store_url: str, store_options: StoreOptions) -> AsyncIterator[Store]:
    """Each kind of store in turn."""
    opened = open_store(store_url, options=store_options)
    yield opened
    await opened.close()
