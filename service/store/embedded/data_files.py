"""What is in a data folder: who wrote it, a snapshot that was put there, and what a power failure left."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from .folder_lock import EmbeddedStoreError
from .programs import Version

RECORD = "program.json"
SNAPSHOT, LOADED = "dump.rdb", "dump.rdb.loaded"
_APPEND_ONLY, _OLD_APPEND_ONLY = "appendonlydir", "appendonly.aof"
_WRITER = re.compile(rb"(valkey|redis)-ver.([0-9]+)\.([0-9]+)", re.DOTALL)
_HEAD_BYTES = 64
_CHUNK = 1 << 16

log = logging.getLogger(__name__)


def writers_of(folder: Path) -> Sequence[Version]:
    """Return the programs that wrote the data of a folder, the latest first; none where there is no data.

    Folders of version 0.1 have no record of it: the data itself says so.

    Raises
    ------
    EmbeddedStoreError
        where the record can't be read.
    """
    record = folder / RECORD
    bases = [*(folder / _APPEND_ONLY).glob("*.base.rdb"), folder / _OLD_APPEND_ONLY]
    if has_lone_snapshot(folder):
        bases = [folder / SNAPSHOT]
    elif (folder / SNAPSHOT).exists():
        log.warning("%s is not read: there is an append-only file beside it", folder / SNAPSHOT)
    try:
        fields = json.loads(record.read_text()) if record.exists() else None
        recorded = None if fields is None else Version(str(fields["program"]), *map(int, fields["version"]))
    except (ValueError, KeyError, TypeError) as error:
        raise EmbeddedStoreError(f"{record} can't be read: {error}; delete it if the data is whole") from error
    if recorded is not None and not has_data(folder):
        log.warning("%s has no data any more, though %s wrote there: starting empty", folder, recorded)
    writers = [recorded, *(_head_writer(path) for path in bases if path.exists())]
    return [one for one in writers if one is not None]


def _head_writer(path: Path) -> Version | None:
    with path.open("rb") as file:
        known = _WRITER.search(file.read(_HEAD_BYTES))
    return Version(known[1].decode(), int(known[2]), int(known[3])) if known else None


def record_writer(folder: Path, version: Version) -> None:
    """Note which program writes to a folder from now on.

    Parameters
    ----------
    folder : the data folder
    version : of the server's program; one that is not known leaves the record as it is
    """
    if not version.is_known:
        return
    record, new = folder / RECORD, folder / f"{RECORD}.new"
    text = json.dumps({"program": version.name, "version": version[1:]}) + "\n"
    if not record.exists() or record.read_text() != text:  # A full disk has no room for what is there already.
        new.write_text(text)
        new.replace(record)


def delete_temporary(folder: Path) -> None:
    """Delete what a server that was killed had begun to write; no server reads it."""
    for path in (*folder.glob("temp-*"), *(folder / _APPEND_ONLY).glob("temp-*")):
        path.unlink()


def has_lone_snapshot(folder: Path) -> bool:
    """Return whether a folder has a snapshot and no append-only file: a server would start empty beside it.

    Raises
    ------
    EmbeddedStoreError
        where parts of an append-only file have lost their manifest: a server would start empty beside them, too.
    """
    parts = folder / _APPEND_ONLY
    if _has_append_only(folder):
        return False
    if left := sorted(path.name for path in parts.glob("*.[ai]*") if path.stat().st_size):
        raise EmbeddedStoreError(
            f"{parts} has {left[0]} but no manifest, so that a server would start empty: restore the whole folder "
            "from a backup, or move this one away; nothing was changed"
        )
    return (folder / SNAPSHOT).exists()


def has_data(folder: Path) -> bool:
    """Return whether a folder has anything that a server loads."""
    return _has_append_only(folder) or (folder / SNAPSHOT).exists()


def _has_append_only(folder: Path) -> bool:
    return any((folder / _APPEND_ONLY).glob("*.manifest")) or (folder / _OLD_APPEND_ONLY).exists()


def cut_zeros(folder: Path) -> int:
    """Cut zero bytes off the end of append-only files and return how many.

    A power failure can leave them where a file grew and its data was not written yet. No command ends with a zero
    byte, so nothing that was acknowledged is cut.
    """
    return sum(_cut_zeros(path) for path in (folder / _APPEND_ONLY).glob("*.incr.aof"))


def _cut_zeros(path: Path) -> int:
    size = whole = path.stat().st_size
    with path.open("r+b") as file:
        while whole:
            start = max(0, whole - _CHUNK)
            file.seek(start)
            kept = len(file.read(whole - start).rstrip(b"\0"))
            if kept:
                whole = start + kept
                break
            whole = start
        if whole < size:
            file.truncate(whole)
    return size - whole
