"""How long the application takes to be imported, and a service with one worker to be ready."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loadtest.bench.measured import cpu_seconds, spread
from loadtest.processes import running_redis, running_service

IMPORT = "import time; began = time.perf_counter(); import service.app; print(time.perf_counter() - began)"


def start_times(repetitions: int) -> Mapping[str, Any]:
    """Measure each so many times, in turn.

    Returns
    -------
    Spreads in seconds: ``import_seconds`` of the application in a new process; ``ready_seconds`` from the start of
    a service, whose Redis runs already, until ``GET /readyz`` answers 200; and ``ready_cpu_seconds``, the processor
    time of its supervisor and worker until then.

    Raises
    ------
    LoadTestError
        where the service or Redis does not start.
    """
    imported, ready, used = [], [], []
    with TemporaryDirectory() as folder, running_redis(Path(folder), Path(folder)) as redis:
        for _ in range(repetitions):
            imported.append(_import_seconds())
            started = time.perf_counter()
            flags = ("--workers", "1", "--store-url", f"redis://127.0.0.1:{redis.port}/0")
            with running_service(Path(folder), *flags) as service:
                ready.append(time.perf_counter() - started)
                used.append(cpu_seconds([service.pid, *service.workers()]))
    return {"import_seconds": spread(imported), "ready_seconds": spread(ready), "ready_cpu_seconds": spread(used)}


def _import_seconds() -> float:
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - Python
