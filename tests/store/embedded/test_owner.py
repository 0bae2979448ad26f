"""The embedded server has one owner, leaves no orphan, and lets nobody else in."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis

from service.store import embedded_child as child
from service.store.embedded import EmbeddedServer
from service.store.embedded_programs import EmbeddedStoreError
from tests.store.embedded.conftest import asked, script
from tests.support.pages import ROOT
from tests.support.running import alive
from tests.support.waiting import wait_until


def test_nobody_else_may_enter_the_folder_or_the_socket(server: EmbeddedServer) -> None:
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(server.socket_path).stat().st_mode) == 0o700


@pytest.mark.slow
def test_a_second_owner_is_told_who_has_the_folder(server: EmbeddedServer) -> None:
    second = EmbeddedServer(server.folder)
    with pytest.raises(EmbeddedStoreError, match=f"in use by another service .process {os.getpid()}"):
        second.start()
    second.stop()

    assert server.poll() is None
    server.stop()
    second.start()
    second.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_killing_the_owner_leaves_no_orphan_and_the_folder_free(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.support.owner", str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert owner.stdout is not None
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


def test_a_long_or_odd_folder_name_works(tmp_path: Path) -> None:
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


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedStoreError, match="can't be used as data folder"):
        EmbeddedServer(tmp_path / "file").start()


def test_it_starts_from_the_main_thread_only(tmp_path: Path) -> None:
    told: list[EmbeddedStoreError] = []

    def start() -> None:
        with pytest.raises(EmbeddedStoreError, match="main thread") as caught:
            EmbeddedServer(tmp_path).start()
        told.append(caught.value)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    assert len(told) == 1


def test_a_program_whose_parent_has_gone_is_not_started(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    words = [sys.executable, "-I", "-S", child.__file__, "1", str(script(tmp_path, f"touch {mark}"))]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "parent ended" in ended.stderr
    assert not mark.exists()
