"""A lock that lets one service at a time use a data folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path


class EmbeddedStoreError(Exception):
    """The embedded store can't be started; the text says what to do."""


class FolderLock:
    """Acquire an flock on a file in the folder.

    It is held until ``release`` and until every process that inherits ``fd`` has ended.

    Parameters
    ----------
    folder : exists; the lock's file in it is made if missing, and stays
    wait_seconds : timeout; the server of a service that was killed needs a moment to end

    Raises
    ------
    EmbeddedStoreError
        if another process still holds the lock.
    OSError
        if the folder can't be written to.
    """

    def __init__(self, folder: Path, wait_seconds: float = 2.0) -> None:
        self.fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until = time.monotonic() + wait_seconds
        while not self._acquired():
            if time.monotonic() > until:
                holder = os.read(self.fd, 20).decode("ascii", "replace").strip() or "unknown"
                os.close(self.fd)
                raise EmbeddedStoreError(f"{folder} is in use by another service (process {holder})")
            time.sleep(0.02)
        try:
            os.truncate(self.fd, 0)
            os.write(self.fd, f"{os.getpid()}\n".encode())
        except OSError:
            self.release()
            raise

    def _acquired(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock in this process."""
        os.close(self.fd)
