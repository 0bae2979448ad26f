"""An embedded server, of each kind of program in turn."""

import os

import pytest
import redis

from service.store.embedded import BINARIES, EmbeddedServer
from tests.support.programs import program


@pytest.fixture(autouse=True)
def in_path(server_program, tmp_path_factory, monkeypatch):
    """Each kind of server in turn is the one that is found."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / BINARIES[0]).symlink_to(program(server_program))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def server(tmp_path):
    embedded = EmbeddedServer(tmp_path / "data")
    embedded.start()
    yield embedded
    embedded.stop()


def asked(server):
    return redis.Redis.from_url(server.url, protocol=2)


def script(folder, text):
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
