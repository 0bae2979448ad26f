"""Faults of workers, service, store and the network between them, each made good again."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from loadtest.errors import LoadTestError
from loadtest.processes import (
    Listener,
    RedisProcess,
    ServiceProcess,
    packaged_server,
    running_service,
    started,
    wait_until,
)

Where = Literal["request", "half_request", "reply", "half_reply"]
"""What is lost: all of the next chunk, or its second half; the connection with it."""


class CuttingProxy(Listener):
    """Forwards connections in a background thread, late if told to; when armed, it cuts the next request or reply.

    Parameters
    ----------
    upstream : the local port to forward to; it may be closed for a while
    """

    def __init__(self, upstream: int) -> None:
        super().__init__()
        self._upstream = upstream
        self._armed: tuple[Where, ...] = ()
        self.cut = 0
        """Connections cut so far."""
        self.late: dict[str, float] = {}
        """Seconds by which a "request" or a "reply" arrives late, in its order."""

    def arm(self, *cuts: Where) -> None:
        """Cut once for each of these, in this order; they replace what was armed before."""
        self._armed = cuts

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        ways = (self._pass_on("request", reader, back), self._pass_on("reply", there, writer))
        self._writers |= {writer, back}
        tasks = [asyncio.create_task(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, back):
            end.transport.abort()
        await asyncio.wait(tasks)
        self._writers -= {writer, back}

    async def _read(
        self, what: str, reader: asyncio.StreamReader, found: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                found.put_nowait((self._loop.time() + self.late.get(what, 0), data))
        found.put_nowait((0, b""))

    async def _pass_on(self, what: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = asyncio.Queue[tuple[float, bytes]]()
        reading = asyncio.create_task(self._read(what, reader, found))
        with suppress(ConnectionError):
            while (chunk := await found.get())[1]:
                due, data = chunk
                await asyncio.sleep(due - self._loop.time())
                if self._armed and self._armed[0].endswith(what):
                    cut, *later = self._armed
                    self._armed = tuple(later)
                    self.cut += 1
                    if cut.startswith("half"):
                        writer.write(data[: len(data) // 2])
                        await writer.drain()
                    reading.cancel()
                    return
                writer.write(data)
                await writer.drain()


CUTS_APART = 0.02
"""Seconds between two cuts."""
CUTTING_SECONDS = 0.5
LONGEST_STOP = 3.0
"""Seconds for which some of several workers are stopped."""
LONGEST_FREEZE = 1.2
"""Longer than a call to the store may take in rounds: some are carried out after they were given up."""
SLOW_BY = (0.05, 0.5, 1.5)
"""Seconds; each is less than a call to a slow store may take."""


class Stage(NamedTuple):
    """What faults happen to."""

    redis: RedisProcess
    proxy: CuttingProxy
    service: ServiceProcess
    chance: random.Random


def kill_worker(stage: Stage) -> None:
    """SIGKILL one worker, or both; the supervisor replaces them."""
    for worker in stage.service.workers()[: stage.chance.randint(1, 2)]:
        _signal(worker, signal.SIGKILL)


def restart_service(stage: Stage, number: signal.Signals) -> None:
    """End the supervisor, with which the workers end, and start the service again."""
    stage.service.end(number)
    stage.service.start()


def kill_store(stage: Stage) -> None:
    """SIGKILL Redis and start it again on its append-only file."""
    stage.redis.end()
    time.sleep(stage.chance.uniform(0, 0.5))
    stage.redis.start()


def freeze(stage: Stage, pid: int) -> None:
    """SIGSTOP a process for a while; what was sent to it is carried out afterwards, or by others meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(stage.chance.uniform(0.05, LONGEST_FREEZE))
    os.kill(pid, signal.SIGCONT)


def fill_memory(stage: Stage) -> None:
    """Let Redis refuse commits for want of memory for a while."""
    used = stage.redis.information("memory")["used_memory"]
    stage.redis.command(f"CONFIG SET maxmemory {used}")
    time.sleep(stage.chance.uniform(0.05, LONGEST_FREEZE))
    stage.redis.command("CONFIG SET maxmemory 0")


def cut(stage: Stage, *places: Where) -> None:
    """Cut connections to Redis at these places: a request is lost, or was carried out and its reply is lost."""
    _repeat(lambda: stage.proxy.arm(stage.chance.choice(places)))
    stage.proxy.arm()


def _repeat(fault: Callable[[], object]) -> None:
    until = time.monotonic() + CUTTING_SECONDS
    while time.monotonic() < until:
        fault()
        time.sleep(CUTS_APART)


def harm_workers(stage: Stage) -> None:
    """SIGKILL, end (SIGTERM) or stop for a while some of several workers, shortly after each other."""
    workers = list(stage.service.workers())
    workers = stage.chance.sample(workers, min(len(workers), stage.chance.randint(1, 3)))
    for worker in workers:
        _signal(worker, stage.chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGSTOP)))
        time.sleep(stage.chance.uniform(0, 0.3))
    time.sleep(stage.chance.uniform(0.2, LONGEST_STOP))
    for worker in workers:
        _signal(worker, signal.SIGCONT)


def slow_down(stage: Stage) -> None:
    """Let what Redis is asked, or what it answers, arrive late, by each of ``SLOW_BY``."""
    for seconds in stage.chance.sample(SLOW_BY, len(SLOW_BY)):
        stage.proxy.late = {stage.chance.choice(("request", "reply")): seconds}
        time.sleep(0.3 + 2 * seconds)
    stage.proxy.late = {}


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


FAULTS: dict[str, Callable[[Stage], None]] = {
    "worker killed": kill_worker,
    "service killed": lambda stage: restart_service(stage, signal.SIGKILL),
    "service stopped": lambda stage: restart_service(stage, signal.SIGTERM),
    "store killed": kill_store,
    "store frozen": lambda stage: freeze(stage, stage.redis.pid),
    "worker frozen": lambda stage: freeze(stage, stage.chance.choice(stage.service.workers())),
    "scripts forgotten": lambda stage: _repeat(lambda: stage.redis.command("SCRIPT FLUSH")),
    "memory full": fill_memory,
    "request cut": lambda stage: cut(stage, "request", "half_request"),
    "reply cut": lambda stage: cut(stage, "reply", "half_reply"),
}
WORKERS = {"several workers harmed": harm_workers}
SLOWNESS = {"store slow": slow_down}


class Freeze(NamedTuple):
    """How the service behaved while its store was frozen for long, in seconds."""

    red_after: float
    """From the freeze until ``/readyz`` was not ready."""
    slowest_livez: float
    ready_after: float
    """From the thaw until ``/readyz`` was green."""

    def problems(self, time_factor: float = 1.0) -> list[str]:
        """Return the exceeded time limits, each multiplied by ``time_factor`` first."""
        return exceeded(self._asdict(), (20.0, 1.0, 5.0), time_factor)


def exceeded(seconds: Mapping[str, float], limits: Sequence[float], factor: float) -> list[str]:
    """Return which of the times, by name, exceed their limit times a factor."""
    named = zip(seconds.items(), limits, strict=True)
    return [
        f"{name} was {took:.2f} s, allowed {factor * limit:g} s"
        for (name, took), limit in named
        if took > factor * limit
    ]


def freeze_long(stage: Stage, seconds: float) -> Freeze:
    """SIGSTOP Redis for so long and watch what the service says of itself."""
    stage.redis.send(signal.SIGSTOP)
    frozen = time.monotonic()
    red_after = wait_until(lambda: not stage.service.ready(), "readiness turns red")
    slowest = 0.0
    while (now := time.monotonic()) < frozen + seconds:
        if stage.service.status("/livez") != 200:
            slowest = float("inf")
        slowest = max(slowest, time.monotonic() - now)
        time.sleep(0.1)
    stage.redis.send(signal.SIGCONT)
    return Freeze(red_after, slowest, wait_until(stage.service.ready, "readiness turns green"))


HOUR = 3600
STEPS = (30, HOUR, 13 * HOUR, -30, -HOUR, -13 * HOUR)
"""Seconds by which the clock is wrong; less than the dedupe window, so that no id may be forgotten."""
LONGEST_SHIFT = 0.5
"""Seconds for which it is wrong."""


class ShiftedRedis(RedisProcess):
    """A Redis whose clock is that of the machine plus some seconds."""

    def __init__(self, data: Path, logs: Path) -> None:
        self._file = data / "shift"
        fake = {"LD_PRELOAD": str(_library()), "FAKETIME_TIMESTAMP_FILE": str(self._file)}
        fake |= {"FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
        super().__init__(data, logs, program=packaged_server(), environment=fake)
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


class DiskStage(NamedTuple):
    """What full disks happen to."""

    folder: Path
    service: ServiceProcess
    chance: random.Random


def set_clock(stage: ClockStage) -> None:
    """Set the store's clock wrong, and right again: forwards and back, or back and forwards."""
    for seconds in (stage.chance.choice(STEPS), 0):
        stage.redis.shift(seconds)
        wait_until(lambda shown=seconds: stage.redis.shows(shown), "the clock is set")  # type: ignore[misc]
        time.sleep(stage.chance.uniform(0.05, LONGEST_SHIFT))


CLOCKS = {"clock set": set_clock}


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


DISK_BYTES = 256 * 2**20
LEAST_LEFT, MOST_LEFT = 0, 128 * 1024
"""Bytes that are left; the service refuses commits where less than 64 kB beside them would be."""
LONGEST_FULL = 1.2
"""Seconds for which the disk is full."""


def fill_disk(stage: DiskStage) -> None:
    """Fill the disk of the store, and free it again."""
    disk = os.statvfs(stage.folder)
    left = stage.chance.randint(LEAST_LEFT, MOST_LEFT)
    filler = stage.folder / "filler"
    # The store writes meanwhile, and then no room at all may be left.
    with suppress(OSError), filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, disk.f_bavail * disk.f_frsize - left))
    time.sleep(stage.chance.uniform(0.05, LONGEST_FULL))
    filler.unlink()


def kill_embedded_store(stage: DiskStage) -> None:
    """SIGKILL the embedded server; the supervisor starts it again on its append-only file."""
    for child in stage.service.workers():
        if "server" in Path(f"/proc/{child}/comm").read_text():
            _signal(child, signal.SIGKILL)


DISKS = {"disk full": fill_disk, "embedded store killed": kill_embedded_store}


def lacks_mount() -> str | None:
    """Why no disk can be filled here, None where one can."""
    with tempfile.TemporaryDirectory(prefix="disk-") as folder:
        return lacks_right("mount", "mount a file system", lambda: small_disk(Path(folder)))


def lacks_right(program: str, right: str, tried: Callable[[], AbstractContextManager[object]]) -> str | None:
    """Why something can't be done on this machine, None where it can be tried."""
    if shutil.which(program) is None:
        return f"needs the program {program}"
    try:
        with tried():
            return None
    except LoadTestError as error:
        return f"needs the right to {right} ({error})"


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of ``DISK_BYTES`` on a folder.

    Raises
    ------
    LoadTestError
        where that is not allowed.
    """
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise LoadTestError(done.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S603, S607


@contextmanager
def staged_disk(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[DiskStage]:
    """Start the service with an embedded store on a small disk; end them in any case."""
    with small_disk(data) as folder:
        where = ("--store-url", "embedded:", "--data-dir", str(folder / "store"))
        with running_service(logs, "--workers", "2", *where, *flags) as service:
            yield DiskStage(folder, service, random.Random(seed))  # noqa: S311 - a repeatable plan
