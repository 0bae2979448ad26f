"""Processes of the load test: what they started ends with them where that is asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loadtest.processes import RunningProcess
from tests.support.running import alive
from tests.support.waiting import wait_until

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_children_end_with_their_parent(tmp_path: Path) -> None:
    process = RunningProcess([sys.executable, "-c", PARENT], tmp_path / "log", with_children=True)
    process.start()
    child = int(wait_until(lambda: process.log.read_text().endswith("\n") and process.log.read_text()))
    assert alive(child)

    process.end()

    wait_until(lambda: not alive(child))
    assert not process.running
