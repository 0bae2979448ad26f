"""The store on a Redis cluster: all keys of a session are on one of its masters."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Sequence

from ..base import Listed
from . import messages, scripts
from .connection.client import RedisClient
from .connection.cluster_client import ClusterClient, SlotRange, slot_of
from .keys import Keys
from .listing import Listing
from .script_runner import ScriptRunner
from .store import RedisStore


class ClusterStore(RedisStore):
    """Sessions on a Redis cluster.

    Parameters
    ----------
    url : redis+cluster:// or rediss+cluster://, with one or more of the cluster's nodes
    options : as for every Redis store
    """

    def _open(self, url: str) -> RedisClient:
        self._nodes = ClusterClient(url, self._options)
        return self._nodes

    def _make_listing(self) -> Listing:
        return ClusterListing(self._runner, self._keys, self._nodes)


class ClusterListing(Listing):
    """Lists the sessions of a cluster: scans one master after another, and reads sessions one by one.

    Parameters
    ----------
    runner : of the store
    keys : names of the keys of sessions and of the index
    nodes : knows the masters of the cluster
    """

    scan_position = re.compile(r"[0-9]{1,20}-[0-9]{1,4}")
    has_all_keys = False

    def __init__(self, runner: ScriptRunner, keys: Keys, nodes: ClusterClient) -> None:
        super().__init__(runner, keys)
        self._nodes = nodes

    async def _scan(self, cursor: str, fewest: int, enough: int) -> tuple[str, Sequence[Listed]]:
        position, _, place = cursor.partition("-")
        at = int(place or 0)
        masters = await self._nodes.masters()
        if at >= len(masters):
            return "end", ()
        following, found = await self._scan_on(self._probe_on(masters[at]), position, fewest, enough)
        if following != "0":
            return f"{following}-{at}", found
        return ("end" if at + 1 == len(masters) else f"0-{at + 1}"), found

    async def _read(self, ids: Sequence[str]) -> Sequence[Listed]:
        return [session for found in await asyncio.gather(*map(self._read_one, ids)) for session in found]

    async def _read_one(self, session_id: str) -> Sequence[Listed]:
        keys = (self._keys.session(session_id), self._keys.probe(session_id))
        _, rows = await self._run(scripts.SESSIONS, keys)
        return messages.listed(rows, self._keys)

    def _probe_on(self, master: SlotRange) -> str:
        """Return a probe key in a slot of this master."""
        keys = (f"{self._keys.server_probe}:{{{n}}}" for n in itertools.count())
        return next(key for key in keys if master.first <= slot_of(key) <= master.last)
