"""The clock of the store is set while it runs (libfaketime)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from loadtest.processes import RedisProcess, ServiceProcess, packaged_server, running_service, started, wait_until

HOUR = 3600
STEPS = (30, HOUR, 13 * HOUR, -30, -HOUR, -13 * HOUR)
"""Seconds by which the clock is wrong; less than the dedupe window, so that no id may be forgotten."""
LONGEST = 0.5
"""Seconds for which it is wrong."""


class ShiftedRedis(RedisProcess):
    """A Redis whose clock is that of the machine plus some seconds."""

    def __init__(self, data: Path, logs: Path) -> None:
        self._file = data / "shift"
        environment = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        super().__init__(data, logs, program=packaged_server(), environment=environment)
        self.shift(0)

    def shift(self, seconds: int) -> None:
        """Set the clock."""
        self._file.write_text(f"{seconds:+d}")

    def shows(self, seconds: int) -> bool:
        """Whether its clock is so many seconds fast, to a few."""
        text = self.information("server").get("server_time_usec")
        return text is not None and abs(int(text) / 1e6 - time.time() - seconds) < 5


class ClockStage(NamedTuple):
    """What steps of the clock happen to."""

    redis: ShiftedRedis
    service: ServiceProcess
    chance: random.Random


def set_clock(stage: ClockStage) -> None:
    """Set the store's clock wrong, and right again: forwards and back, or back and forwards."""
    for seconds in (stage.chance.choice(STEPS), 0):
        stage.redis.shift(seconds)
        wait_until(lambda shown=seconds: stage.redis.shows(shown), "the clock is set")  # type: ignore[misc]
        time.sleep(stage.chance.uniform(0.05, LONGEST))


CLOCKS: dict[str, Callable[[ClockStage], None]] = {"clock set": set_clock}


def lacks_faketime() -> str | None:
    """Why clocks can't be set here, None where they can."""
    return None if _library() else "needs libfaketime (Debian: faketime)"


def _library() -> Path | None:
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


@contextmanager
def staged_clock(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[ClockStage]:
    """Start a Redis whose clock can be set, and the service; end them in any case."""
    with started(ShiftedRedis(data, logs)) as redis:
        store = f"redis://127.0.0.1:{redis.port}/0"
        with running_service(logs, "--workers", "2", "--store-url", store, *flags) as service:
            yield ClockStage(redis, service, random.Random(seed))  # noqa: S311 - a repeatable plan
