"""An embedded store that is backed up, or moved to a Redis: everything acknowledged is there, once."""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import pytest

from loadtest.chaos.audit import audit
from loadtest.chaos.load import LEARNERS, Load, connection, open_sessions
from loadtest.processes import running_redis
from service.client import Bandits
from tests.support.compose import ROOT
from tests.support.programs import REDIS
from tests.support.running import RunningService
from tests.support.waiting import wait_until

SCRIPT = ROOT / "deploy/backup/backup.py"


CLIENTS = len(LEARNERS) + 1


def back_up(source, target):
    return subprocess.run([sys.executable, SCRIPT, source, target], capture_output=True, text=True, check=False)


@contextmanager
def clients_of(url):
    with ExitStack() as stack:
        yield [stack.enter_context(connection(url)) for _ in range(CLIENTS)]


def load(clients, name, until):
    """Act and report on new sessions until a condition holds, and all calls are acknowledged."""
    ledgers = list(open_sessions(clients[0], name))
    with Load(clients, ledgers).running():
        until(ledgers)
    return ledgers


def enough(ledgers):
    wait_until(lambda: all(len(ledger.events) > 10 for ledger in ledgers))


@contextmanager
def embedded(folder):
    """The address of a service with the embedded store in this folder, and the folder of the files."""
    folder.mkdir(exist_ok=True)
    with RunningService(folder) as service:
        service.wait_ready()
        yield service.url, folder / "data"


@contextmanager
def on_redis(folder):
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

        def meanwhile(ledgers):
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


def fake_store(folder):
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


MOVE = ROOT / "deploy/move/embedded_to_redis.py"


CLICKS = {"reward_range": [0, 1], "expiry": {"after_seconds": 86_400, "default_reward": 0}}


def move(data, store_url, *flags):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
    environment = kept | ({"BANDIT_STORE_URL": store_url} if store_url else {})
    command = [sys.executable, MOVE, data, *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)


@pytest.mark.recipes
@pytest.mark.timeout(600)
def test_every_session_goes_on_in_the_redis_as_it_was(tmp_path, own_redis_server, monkeypatch):
    (tmp_path / "delayed_bandits").symlink_to(ROOT / "service")  # Not a version that is installed beside.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    point = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    with RunningService(tmp_path) as service:
        service.wait_ready()
        with Bandits(service.url, timeout=30) as bandits:
            learner = {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]}
            shop = bandits.sessions.create("shop", learner=learner, seed=1, **CLICKS)
            shop.feedback(shop.acts(20)[0], reward=1, event_id="click-1")
            tuner = bandits.sessions.create("tuner", learner=point, seed=2)
            tuner.acts(3)
        refused = move(tmp_path / "data", own_redis_server.url)
        assert (refused.returncode, "in use by another service" in refused.stderr) == (1, True)

    moved = move(tmp_path / "data", own_redis_server.url)
    assert (moved.returncode, moved.stdout) == (0, "2 sessions are in the Redis, each as it was\n"), moved.stderr
    with RunningService(tmp_path, "--store-url", own_redis_server.url) as service:
        service.wait_ready()
        with Bandits(service.url, timeout=30) as bandits:
            shop = bandits.session("shop")
            assert shop.feedback("a", reward=1, event_id="click-1").duplicates == 1
            assert shop.act().slot == 21
    present = move(tmp_path / "data", own_redis_server.url)
    assert (present.returncode, "session_exists" in present.stderr) == (1, True)
    different = move(tmp_path / "data", own_redis_server.url, "--skip-present")
    assert (different.returncode, "shop: " in different.stderr) == (1, True)


@pytest.mark.parametrize(
    ("folder", "url", "says"), [("none", "redis://x", "is no folder"), ("", "", "BANDIT_STORE_URL")]
)
def test_what_is_missing_is_said(tmp_path, folder, url, says):
    refused = move(tmp_path / folder, url)

    assert (refused.returncode, refused.stderr.startswith("move: ")) == (1, True)
    assert says in refused.stderr
