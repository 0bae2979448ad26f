"""However the bench ends, its servers and all of their workers end too."""

import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from loadtest.processes import children
from tests.support.programs import server_binary
from tests.support.running import alive
from tests.support.waiting import wait_until

MARK = "BENCH_TEST_MARK"
PROCESSES = 5
"""The bench, Redis, the floors, and the service with its worker."""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("end", ["normal", "interrupted", "interrupted as on a terminal"])
def test_no_process_stays_behind(tmp_path, end):
    """A worker whose parent has ended is nobody's child, so a variable that it inherits shows it."""
    server_binary()
    mark = uuid.uuid4().hex
    words = ["bench", "--repetitions", "1", "--sessions", "2", "--clients", "2", "--no-wrk"]
    words += ["--seconds", "0.2" if end == "normal" else "60", "--out", str(tmp_path)]
    words += ["--part=bulk"]
    with subprocess.Popen(
        [sys.executable, "-m", "loadtest", *words],
        env=os.environ | {MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        started = wait_until(all_of(run.pid))
        if end == "interrupted":
            run.send_signal(signal.SIGINT)
        elif end != "normal":
            os.killpg(run.pid, signal.SIGINT)
        code = run.wait(60)

    wait_until(lambda: not any(map(alive, started)))
    assert marked(mark) == []
    assert (code == 0) == (end == "normal")


def all_of(bench):
    """All processes of the bench, once they are there."""

    def found():
        pids = [bench]
        for pid in pids:
            with suppress(OSError):
                pids += children(pid)
        commands = [command_of(pid) for pid in pids]
        has_all = all(any(name in command for command in commands) for name in ("bench.floors", "-m\0service"))
        return pids if has_all and len(pids) >= PROCESSES else False

    return found


def marked(mark):
    """Command lines of all processes with the mark in their environment; a Redis server writes over its own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes() and alive(int(folder.name)):
                found.append(command_of(int(folder.name)))
    return found


def command_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return ""
