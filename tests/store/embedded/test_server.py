"""The embedded server keeps data over stops, deaths and starts, and ends when it is told."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from service.store.base import Committed
from service.store.embedded import EmbeddedServer
from service.store.embedded_programs import EmbeddedStoreError
from service.store.redis.store import RedisStore
from tests.store.embedded.conftest import asked
from tests.support.running import alive
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until


async def test_what_was_committed_is_there_after_a_stop_and_a_start(server: EmbeddedServer) -> None:
    store = RedisStore(server.url)
    await store.create(new_session())
    await store.commit(commit("v0", "v1", event_ids=[digest(1)], records={b"1": b"x"}, answers={digest("k"): b"y"}))
    before = await store.load("s")
    server.stop()
    server.start()

    assert await store.load("s") == before
    assert await store.commit(commit("v0", "v1")) == Committed()
    assert await store.recall("s", digest("k")) == b"y"
    assert await store.read_records("s") == {b"1": b"x"}
    await store.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_server_that_died_is_started_again_at_the_same_url(server: EmbeddedServer, number: int) -> None:
    store = RedisStore(server.url)
    await store.create(new_session())
    assert server.pid is not None
    os.kill(server.pid, number)
    wait_until(lambda: server.poll() is not None)
    url = server.url
    server.start()

    assert server.url == url
    assert server.poll() is None
    assert await store.commit(commit("v0", "v1")) == Committed()
    await store.close()


def test_starting_a_running_server_changes_nothing(server: EmbeddedServer) -> None:
    pid = server.pid
    server.start()

    assert server.pid == pid


def test_every_commit_is_on_the_disk_and_nothing_is_evicted(server: EmbeddedServer) -> None:
    with asked(server) as client:
        settings = client.config_get()

    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "always"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["save"] == ""
    assert settings["port"] == "0"


def test_the_file_may_be_synced_each_second_instead(tmp_path: Path) -> None:
    embedded = EmbeddedServer(tmp_path, fsync="everysec")
    embedded.start()
    with asked(embedded) as client:
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
    embedded.stop()


def test_a_stopped_server_stops_again_without_complaint(server: EmbeddedServer) -> None:
    pid = server.pid
    server.stop()
    server.stop()

    assert pid is not None
    assert not alive(pid)
    assert server.poll() is None


def test_a_broken_file_is_not_repaired_but_told(server: EmbeddedServer) -> None:
    with asked(server) as client:
        client.set("key", "x" * 100)
    server.stop()
    (file,) = [path for path in server.folder.rglob("*.aof") if path.stat().st_size]
    file.write_bytes(b"*not a command\r\n" + file.read_bytes())

    with pytest.raises(
        EmbeddedStoreError, match=re.compile("ended at once.*copy the whole folder first", re.DOTALL)
    ):
        server.start()


def test_a_server_that_does_not_end_is_killed(server: EmbeddedServer) -> None:
    pid = server.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    server.stop(timeout=0.2)

    assert not alive(pid)
