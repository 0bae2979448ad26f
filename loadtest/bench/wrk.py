"""Load by wrk, which takes less of a core than a client in Python: more is left to what is measured."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from loadtest.bench.closed_loop import SECONDS_TO_ANSWER, Rate
from loadtest.errors import LoadTestError

SCRIPT = Path(__file__).parent / "lua" / "talk.lua"
_REQUESTS = re.compile(r"(\d+) requests in ([0-9.]+)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_FAILURES = ("Non-2xx", "Socket errors")


def find_wrk() -> str | None:
    """Return the program, None where it is not installed."""
    return shutil.which("wrk")


def run_wrk(program: str, port: int, clients: int, seconds: float, says: Mapping[str, str]) -> Rate:
    """Run ``clients`` connections; those whose request is under way at the end leave without the answer.

    Parameters
    ----------
    says : variables of ``talk.lua``

    Raises
    ------
    LoadTestError
        where an answer was no success, or a connection failed.
    """
    whole = max(1, round(seconds))
    many = ("-t1", f"-c{clients}", f"-d{whole}s", "--timeout", f"{SECONDS_TO_ANSWER}s")
    command = [program, *many, "-s", str(SCRIPT), f"http://127.0.0.1:{port}"]
    run = subprocess.run(command, env=os.environ | says, capture_output=True, text=True, check=False)  # noqa: S603 - wrk
    found = _REQUESTS.search(run.stdout)
    if found is None or any(failure in run.stdout for failure in _FAILURES):
        raise LoadTestError(f"wrk: {(run.stdout + run.stderr)[-500:]}")
    return Rate(int(found[1]), float(found[2]) * _UNITS[found[3]])
