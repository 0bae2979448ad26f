"""A backup of a running store, restored elsewhere: everything acknowledged before it began is there, once."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from loadtest.chaos.audit import Ledger, audit
from loadtest.chaos.load import LEARNERS, Load, connection, open_sessions
from loadtest.client import Client
from loadtest.processes import running_redis
from tests.support.compose import ROOT
from tests.support.programs import REDIS
from tests.support.running import RunningService
from tests.support.waiting import wait_until

SCRIPT = ROOT / "deploy/backup/backup.py"
CLIENTS = len(LEARNERS)


def back_up(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, source, target], capture_output=True, text=True, check=False)


@contextmanager
def clients_of(url: str) -> Iterator[list[Client]]:
    with ExitStack() as stack:
        yield [stack.enter_context(connection(url)) for _ in range(CLIENTS)]


def load(clients: list[Client], name: str, until: Callable[[list[Ledger]], object]) -> list[Ledger]:
    """Act and report on new sessions until a condition holds, and all calls are acknowledged."""
    ledgers = list(open_sessions(clients[0], name))
    with Load(clients, ledgers).running():
        until(ledgers)
    return ledgers


def enough(ledgers: list[Ledger]) -> None:
    wait_until(lambda: all(len(ledger.events) > 10 for ledger in ledgers))


@contextmanager
def embedded(folder: Path) -> Iterator[tuple[str, Path]]:
    """The address of a service with the embedded store in this folder, and the folder of the files."""
    folder.mkdir(exist_ok=True)
    with RunningService(folder) as service:
        service.wait_ready()
        yield service.url, folder / "data"


@contextmanager
def on_redis(folder: Path) -> Iterator[tuple[str, Path]]:
    """The address of a service on a Redis whose files are in this folder, and the folder of the files."""
    (folder / "data").mkdir(exist_ok=True, parents=True)
    with (
        running_redis(folder / "data", folder) as redis,
        RunningService(folder, "--store-url", f"redis://127.0.0.1:{redis.port}/0") as service,
    ):
        service.wait_ready()
        yield service.url, folder / "data"


@pytest.mark.processes
@pytest.mark.parametrize(
    "store", [embedded, pytest.param(on_redis, marks=[pytest.mark.recipes, pytest.mark.servers(REDIS)])]
)
def test_what_was_acknowledged_before_a_backup_is_in_it(tmp_path, store):
    with store(tmp_path / "first") as (url, files), clients_of(url) as clients:
        before = load(clients, "before", enough)
        target = tmp_path / "second/data"

        def meanwhile(ledgers: list[Ledger]) -> None:
            enough(ledgers)
            made = back_up(files, target)
            assert made.returncode == 0, made.stderr
            enough(ledgers)

        late = load(clients, "meanwhile", meanwhile)

    with store(tmp_path / "second") as (url, _), clients_of(url) as clients:
        assert [problem for ledger in before for problem in audit(clients[0], ledger)] == []
        for ledger in late:
            view = clients[0].call("view", "GET", ledger.path)
            assert 0 < view["slot"] <= ledger.slots
            assert view["outstanding"] == view["slot"] - view["feedbacks"] - view["voided"]
        # What the backup lacks can be sent again, and counts once.
        after = load(clients, "after", enough)
        assert [problem for ledger in after for problem in audit(clients[0], ledger)] == []


def fake_store(folder: Path) -> Path:
    """Files that look like those of a store."""
    appended = folder / "appendonlydir"
    appended.mkdir(parents=True)
    (appended / "a.manifest").write_text("file a.1.base.rdb seq 1 type b\nfile a.1.incr.aof seq 1 type i\n")
    (appended / "a.1.base.rdb").write_text("base")
    (appended / "a.1.incr.aof").write_text("more")
    (folder / "store.log").write_text("log")
    return folder


def test_the_listed_files_are_copied_and_nothing_else(tmp_path):
    made = back_up(fake_store(tmp_path / "data"), tmp_path / "deep/copy")

    assert (made.returncode, made.stderr) == (0, "")
    found = sorted(str(each.relative_to(tmp_path / "deep/copy")) for each in (tmp_path / "deep/copy").rglob("*.*"))
    assert found == [f"appendonlydir/{name}" for name in ("a.1.base.rdb", "a.1.incr.aof", "a.manifest")]
    assert [each.name for each in (tmp_path / "deep").iterdir()] == ["copy"]


@pytest.mark.parametrize("what", ["a missing file", "no append-only folder", "a copy that exists"])
def test_what_cannot_be_copied_is_said_and_leaves_nothing(tmp_path, what):
    source, target = fake_store(tmp_path / "data"), tmp_path / "copy"
    if what == "a missing file":
        (source / "appendonlydir/a.1.incr.aof").unlink()
    elif what == "no append-only folder":
        source = tmp_path
    else:
        (target / "x").mkdir(parents=True)
    made = back_up(source, target)

    assert made.returncode == 1
    assert made.stderr.startswith("backup: ")
    assert not (target / "appendonlydir").exists()
