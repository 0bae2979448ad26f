"""Applications that are measured, the processor time they take, and how numbers are put together."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

from loadtest.errors import LoadTestError
from loadtest.processes import RunningProcess, free_port, wait_until

PACKAGES = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools", "pydantic", "numpy", "redis", "hiredis")
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def running_uvicorn(
    module: str, environment: Mapping[str, str], logs: Path, probe: str
) -> Iterator[tuple[int, Sequence[int]]]:
    """Serve ``make_app`` of a module of this folder in one process, and end it in any case; port and process id.

    Parameters
    ----------
    environment : variables beside those of this process
    probe : path to which it can post an event once it has started
    """
    port = free_port()
    served = ("--port", str(port), "--loop", "uvloop", "--http", "httptools")
    quiet = ("--no-access-log", "--log-level", "warning", "--no-server-header")
    command = [sys.executable, "-m", "uvicorn", f"loadtest.bench.{module}:make_app", "--factory", *served, *quiet]
    server = RunningProcess(command, logs / f"{module}.log", os.environ | environment)

    def answers() -> bool:
        if not server.running:
            raise LoadTestError(f"a server ended: {server.last_words()}")
        try:
            answer = httpx.post(f"http://127.0.0.1:{port}{probe}", json={"arm": 0, "loss": 0.5})
        except httpx.TransportError:
            return False
        return answer.status_code == httpx.codes.OK

    try:
        server.start()
        wait_until(answers, f"{module} start")
        yield port, [server.pid]
    finally:
        server.end()


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time that these processes have used (Linux)."""
    used = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / _TICKS


def spread(numbers: Sequence[float]) -> dict[str, Any]:
    """Median, extremes and all of the numbers."""
    return {"median": statistics.median(numbers), "min": min(numbers), "max": max(numbers), "all": list(numbers)}


def ratios(numbers: Mapping[str, Sequence[float]], name: str, other: str) -> dict[str, Any]:
    """Compare two targets round by round."""
    return spread([one / two for one, two in zip(numbers[name], numbers[other], strict=True)])


def machine() -> dict[str, Any]:
    """Say what the figures were made on."""
    made_on = {"cpus": os.cpu_count(), "load_average": os.getloadavg(), "platform": platform.platform()}
    versions = {name: version(name) for name in PACKAGES}
    return made_on | {"python": platform.python_version(), "versions": versions}
