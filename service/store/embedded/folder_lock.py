"""One owner at a time for a data folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path


class EmbeddedStoreError(Exception):
    """The embedded store can't be started; the text says what to do."""


class FolderLock:
    """An flock on a file of the folder, held until ``release`` and by every process that inherits ``fd``.

    Parameters
    ----------
    patience : seconds to wait for a server that is just ending with its owner

    Raises
    ------
    EmbeddedStoreError
        where another process holds it.
    """

    def __init__(self, folder: Path, patience: float = 2.0) -> None:
        self.fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + patience
        while not self._acquired():
            if time.monotonic() > until:
                holder = os.read(self.fd, 20).decode("ascii", "replace").strip() or "unknown"
                os.close(self.fd)
                raise EmbeddedStoreError(f"{folder} is in use by another service (process {holder})")
            time.sleep(0.02)
        os.truncate(self.fd, 0)
        os.write(self.fd, f"{os.getpid()}\n".encode())

    def _acquired(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the folder for other processes."""
        os.close(self.fd)
