"""The embedded store on a disk of its own, which is full for a while."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from loadtest.errors import LoadTestError
from loadtest.processes import ServiceProcess, running_service

DISK_BYTES = 256 * 2**20
LEAST_LEFT, MOST_LEFT = 0, 128 * 1024
"""Bytes that are left; the service refuses commits where less than 64 kB beside them would be."""
LONGEST = 1.2
"""Seconds for which the disk is full."""


class DiskStage(NamedTuple):
    """What full disks happen to."""

    folder: Path
    service: ServiceProcess
    chance: random.Random


def fill_disk(stage: DiskStage) -> None:
    """Fill the disk of the store, and free it again."""
    disk = os.statvfs(stage.folder)
    left = stage.chance.randint(LEAST_LEFT, MOST_LEFT)
    filler = stage.folder / "filler"
    # The store writes meanwhile, and then no room at all may be left.
    with suppress(OSError), filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, disk.f_bavail * disk.f_frsize - left))
    time.sleep(stage.chance.uniform(0.05, LONGEST))
    filler.unlink()


def kill_embedded_store(stage: DiskStage) -> None:
    """SIGKILL the embedded server; the supervisor starts it again on its append-only file."""
    for child in stage.service.children():
        if "server" in Path(f"/proc/{child}/comm").read_text():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


DISKS: dict[str, Callable[[DiskStage], None]] = {
    "disk full": fill_disk,
    "embedded store killed": kill_embedded_store,
}


def lacks_mount() -> str | None:
    """Why no disk can be filled here, None where one can."""
    if shutil.which("mount") is None:
        return "needs the program mount"
    try:
        with tempfile.TemporaryDirectory(prefix="disk-") as folder, small_disk(Path(folder)):
            return None
    except LoadTestError as error:
        return f"needs the right to mount a file system ({error})"


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
