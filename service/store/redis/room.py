"""Whether the store has room for another commit: what was refused, and what the embedded store's disk has left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..base import StoreFullError
from .connection.pipeline import RedisArgument

RESERVED_BYTES = 64 * 1024
"""Left free on the disk: a server with ``appendfsync always`` ends when it can't write to it."""
OVERHEAD_BYTES = 1024
"""Of a call beside its arguments, in memory and on the disk."""


def size_of(args: Sequence[RedisArgument]) -> int:
    """Return about how many bytes a call with these arguments needs: of interest where room is or was scarce."""
    return OVERHEAD_BYTES + sum(len(arg) if isinstance(arg, (str, bytes)) else 8 for arg in args)


class Room:
    """What a store has room for, as far as this worker knows.

    Parameters
    ----------
    folder : the folder to which an embedded store writes, on the disk of this machine; None for other stores

    Attributes
    ----------
    refused : size of the largest call that was refused because the store is full; 0 once one of that size fits
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.refused = 0

    def check(self, size: int) -> None:
        """Refuse a call for which the embedded store's disk has no room, before it is sent.

        Parameters
        ----------
        size : bytes that the call needs, as ``size_of`` estimates them

        Raises
        ------
        StoreFullError
            where the disk has fewer than ``RESERVED_BYTES`` and these bytes free.
        """
        if self.folder is None:
            return
        disk = os.statvfs(self.folder)
        free = disk.f_bavail * disk.f_frsize
        if free < size + RESERVED_BYTES:
            raise StoreFullError(f"the store's disk is full: {free:,} bytes are free")

    def on_refused(self, size: int) -> None:
        """Note that a call of ``size`` bytes was refused for want of room."""
        self.refused = max(self.refused, size)

    def on_written(self, size: int) -> None:
        """Note that a call of ``size`` bytes was carried out."""
        if size >= self.refused:
            self.refused = 0
