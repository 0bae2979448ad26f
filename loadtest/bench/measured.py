"""Numbers of the bench, and how they are put together."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loadtest.bench.targets import FLOORS, HOT, MANY, SEPARATE

PACKAGES = ("fastapi", "starlette", "uvicorn", "uvloop", "httptools", "pydantic", "numpy", "redis", "hiredis")
VERSIONS_SHOWN = ("fastapi", "uvicorn", "pydantic", "numpy")
_TICKS = os.sysconf("SC_CLK_TCK")


class Measured:
    """Requests, acts or events per second of every target, and processor time of each, by repetition.

    Parameters
    ----------
    names : of the targets
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.rates: dict[str, list[float]] = {name: [] for name in names}
        self.cpu: dict[str, list[float]] = {name: [] for name in self.rates}
        """Microseconds of all processes that work for the target, Redis included."""
        self.latencies: list[dict[str, float]] = []
        """What the open loop found, in each repetition."""

    def summary(self) -> dict[str, Any]:
        """Rates, and the ratios of each target and its processor time to each floor within each repetition."""
        others = [name for name in self.rates if name not in FLOORS]
        return {
            "per_second": {name: spread(rates) for name, rates in self.rates.items()},
            "cpu_microseconds": {name: spread(used) for name, used in self.cpu.items()},
            "rate_over": {floor: {name: _over(self.rates, name, floor) for name in others} for floor in FLOORS},
            "cpu_over": {floor: {name: _over(self.cpu, name, floor) for name in others} for floor in FLOORS},
            "open_loop_milliseconds": {
                name: spread([each[name] for each in self.latencies]) for name in self.latencies[0]
            },
        }


def _over(numbers: Mapping[str, Sequence[float]], name: str, floor: str) -> dict[str, Any]:
    return spread([one / other for one, other in zip(numbers[name], numbers[floor], strict=True)])


SCALED = (HOT, MANY, SEPARATE)
"""Targets whose rates with several workers are compared with those of one."""


def workers_ratio(found: Mapping[str, Measured]) -> dict[str, Any]:
    """Return the service's medians with the most workers to those with the fewest.

    ``cpu_allows`` is what processor time would allow with a core for each process: the ratio of the numbers of
    workers, over that of the processor time of an act or event.
    """
    fewest, most = (pick(found, key=int) for pick in (min, max))

    def ratio(numbers: str, target: str) -> float:
        one, other = (statistics.median(getattr(found[count], numbers)[target]) for count in (most, fewest))
        return float(one / other)

    rate = {target: ratio("rates", target) for target in SCALED}
    allowed = {target: int(most) / int(fewest) / ratio("cpu", target) for target in SCALED}
    return {f"{most}_to_{fewest}": rate | {f"{target}_cpu_allows": number for target, number in allowed.items()}}


def spread(numbers: Sequence[float]) -> dict[str, Any]:
    """Median, extremes and all of the numbers."""
    return {"median": statistics.median(numbers), "min": min(numbers), "max": max(numbers), "all": list(numbers)}


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time that these processes have used (Linux)."""
    used = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used / _TICKS


def machine() -> dict[str, Any]:
    """Say what the figures were made on."""
    return {
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }
