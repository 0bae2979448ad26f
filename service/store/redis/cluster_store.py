"""The store on a Redis cluster: all keys of a session are on one of its masters."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from . import scripts
from .connection.client import RedisClient
from .connection.cluster_client import ClusterClient, SlotRange, slot_of
from .store import RedisStore


class ClusterStore(RedisStore):
    """Sessions on a Redis cluster; ``list`` scans one master after another.

    Parameters
    ----------
    url : redis+cluster://, with one or more of the cluster's nodes
    """

    _scan_position = re.compile(r"[0-9]{1,20}-[0-9]{1,4}")

    def _open(self, url: str) -> RedisClient:
        self._nodes = ClusterClient(url, self._options)
        return self._nodes

    async def _scan(self, cursor: str, count: int) -> tuple[str, Sequence[str]]:
        position, _, place = cursor.partition("-")
        at = int(place or 0)
        masters = await self._nodes.masters()
        if at >= len(masters):
            return "end", ()
        args = (position, self._keys.session_pattern, count)
        _, following, keys = await self._run(scripts.SCAN, (self._probe_on(masters[at]),), args)
        ids = sorted(self._keys.session_id(key.decode("utf-8", "replace")) for key in keys)
        if following != b"0":
            return f"{following.decode()}-{at}", ids
        return ("end" if at + 1 == len(masters) else f"0-{at + 1}"), ids

    def _probe_on(self, master: SlotRange) -> str:
        """Return a probe key in a slot of this master."""
        keys = (f"{self._keys.server_probe}:{{{n}}}" for n in itertools.count())
        return next(key for key in keys if master.first <= slot_of(key) <= master.last)
