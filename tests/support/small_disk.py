"""A file system of a fixed size, for tests as root that fill a disk."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.programs import program


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a file system of ``size`` bytes; skip the test where that is not allowed."""
    mount, unmount = program("mount"), program("umount")
    folder.mkdir()
    words = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(words, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run([unmount, "--lazy", str(folder)], check=True)


def fill(folder: Path, left: int) -> Path:
    """Write a file that leaves about ``left`` bytes free."""
    disk = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(bytes(disk.f_bavail * disk.f_frsize - left))
    return filler
