"""Several servers that together are one store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.store.embedded import EmbeddedServer
from tests.support.cluster import Cluster
from tests.support.data_folders import Started
from tests.support.programs import WHEEL, program
from tests.support.sentinel import Watched


@pytest.fixture
def cluster(server_program: str, tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture
def watched(server_program: str, tmp_path: Path) -> Iterator[Watched]:
    with ExitStack() as stack:
        yield Watched(tmp_path, stack)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Starts the server of the folder ``data`` by its program; None searches for one."""
    with ExitStack() as stack:

        def started(binary: str | None = WHEEL) -> EmbeddedServer:
            server = EmbeddedServer(tmp_path / "data", binary=None if binary is None else Path(program(binary)))
            stack.callback(server.stop)
            server.start()
            return server

        yield started
