"""Copy the append-only files of a running store, without stopping it and without a password.

    python deploy/backup/backup.py bandit-data /backups/2026-11-28

The first folder is the data folder of the embedded store, or the ``/data`` of a Redis. The copy holds every commit
that was acknowledged before the backup began, and maybe some that came meanwhile. It needs Python's standard
library alone, and the right to read the files.

A file is only appended to, until the server rewrites all of them into new ones and names these in its manifest. So
the manifest is read first and again at the end: where it has changed, the copy is made anew. The server cuts off a
half-written last command when it loads the copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

TRIES = 10
"""Copies made anew because the server rewrote its files meanwhile."""
NOT_COPIED = ("store.sock", "lock", "temp-", "appendonlydir")
"""What of a data folder belongs to the running server, or is copied by its manifest."""


class BackupError(Exception):
    """The folder can't be copied; the text says why."""


def back_up(source: Path, target: Path) -> list[str]:
    """Copy a store's files to a new folder.

    Parameters
    ----------
    source : data folder of a running or stopped store
    target : must not exist, or be empty; appears whole or not at all

    Returns
    -------
    Names of the files that were copied.

    Raises
    ------
    BackupError
        where there is no append-only file, or the target is in use.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(f"{target} exists already")
    appended = source / "appendonlydir"
    if not appended.is_dir():
        raise BackupError(f"{source} has no appendonlydir: the store has no append-only file, or lies elsewhere")
    target.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=target.parent) as made:
            copy = Path(made) / "data"
            if (copied := _copy(source, appended, copy)) is not None:
                copy.replace(target)
                return copied
    raise BackupError(f"{appended} was rewritten again and again while it was copied")


def _copy(source: Path, appended: Path, copy: Path) -> list[str] | None:
    """Copy everything once; None where the server rewrote its files meanwhile."""
    (manifest,) = appended.glob("*.manifest")
    listed = manifest.read_bytes()
    (copy / "appendonlydir").mkdir(parents=True)
    names = [words[1] for line in listed.decode().splitlines() if len(words := line.split()) > 1]
    try:
        for name in names:
            _copy_file(appended / name, copy / "appendonlydir" / name)
    except FileNotFoundError:
        return None
    for file in source.iterdir():
        if file.is_file() and not file.name.startswith(NOT_COPIED) and not file.name.endswith((".log", ".lock")):
            _copy_file(file, copy / file.name)
    if manifest.read_bytes() != listed:
        return None
    (copy / "appendonlydir" / manifest.name).write_bytes(listed)
    return [*names, manifest.name]


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with target.open("rb") as written:
        os.fsync(written.fileno())


def main() -> int:
    """Copy as the command line says."""
    parser = argparse.ArgumentParser(description="Copy the append-only files of a running store.")
    parser.add_argument("source", type=Path, help="data folder of the embedded store, or of a Redis")
    parser.add_argument("target", type=Path, help="folder of the copy, which must not exist")
    arguments = parser.parse_args()
    try:
        copied = back_up(arguments.source, arguments.target)
    except (BackupError, OSError) as error:
        sys.stderr.write(f"backup: {error}\n")
        return 1
    sys.stdout.write("\n".join(copied) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
