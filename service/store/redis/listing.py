"""Lists of the sessions on one Redis server or on the masters of a cluster, by scans or from an index of ids."""

import asyncio
import itertools
import re
from collections.abc import Sequence
from typing import Any

from ...errors import StoreUnavailableError
from ..base import Listed, Page, after_of, cursor_after
from . import scripts
from .client import ClusterClient, RedisClient, slot_of

MAX_SCANS_PER_PAGE = 50
"""On a server full of other keys a page ends after so many scans, perhaps empty, with a cursor to go on."""
STEPS_PER_SCAN = 20
"""Steps of one scan: it looks at this many times the sessions that are missing."""
MIN_SCAN = 10
"""Fewest keys that one step looks at."""
ROWS_AT_ONCE = 100
"""Sessions that one script reads for a page: each is cut out of a state, which may have 100 kB, in up to 0.2 ms."""
WALK = 500
"""Fewest keys that one step looks at when the index is made."""
INDEX_MS = 600_000
"""Milliseconds after which an index is forgotten."""
MAX_BUILDS = 3
"""Attempts to make an index before the store counts as unavailable."""
_POSITION = re.compile(r"[0-9]{1,20}-[0-9]{1,4}")
"""Where a scan stands on which master."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Listing:
    """Lists the sessions of one server, or of the masters of a cluster.

    A list of all sessions scans the keys, of one master after another. A list by prefix reads an index of ids, made
    when such a list is first asked for, and then again every ten minutes: so it never outlives its use,
    nor sessions for long.
    """

    def __init__(self, client: RedisClient) -> None:
        self._client, self._run, self._keys = client, client.run, client.keys
        self._has_one_server = not isinstance(client, ClusterClient)
        self.index_beside: Sequence[str] = (client.keys.index,) if self._has_one_server else ()
        """The key of the index, where a call may name it beside those of a session; otherwise nothing."""

    async def add(self, ids: Sequence[str]) -> None:
        """Add ids to the index, where there is one."""
        await self._run(scripts.INDEX_ADD, (self._keys.index,), (len(ids), *ids))

    async def page(self, cursor: str | None, limit: int, prefix: str = "") -> Page:
        """List sessions as ``Store.list`` says."""
        return await (self._page_by_prefix(cursor, limit, prefix) if prefix else self._scanned(cursor, limit))

    async def count(self, prefix: str, most: int) -> int:
        """Count sessions as ``Store.count`` says.

        The index may still have ids of sessions that are gone: they are told apart only where it has too many.
        """
        indexed, _, _ = await self._index_page(_first(prefix), prefix, 0)
        if indexed < most:
            return indexed
        found, cursor = 0, None
        while found < most:
            page = await self._page_by_prefix(cursor, min(most - found, 1000), prefix)
            found, cursor = found + len(page.sessions), page.next_cursor
            if cursor is None:
                break
        return found

    async def _scanned(self, cursor: str | None, limit: int) -> Page:
        """Return a page of all sessions.

        A scan may return more sessions than fit the page; the cursor carries the ids of the rest, since the same
        scan might not return them again.
        """
        scan, *carried = cursor.split("~") if cursor is not None else ("0",)
        at = _POSITION.fullmatch(scan) and int(scan.split("-")[0]) < 2**64
        if cursor is not None and not ((carried if scan == "end" else at) and all(map(_ID.fullmatch, carried))):
            raise ValueError("not a cursor of this list")
        found = list(await self._read(carried[:limit])) if carried else []
        rest, scans = carried[limit:], 0
        while len(found) < limit and scan != "end" and scans < MAX_SCANS_PER_PAGE:
            wanted = limit - len(found)
            scan, more = await self._scan(scan, MIN_SCAN, min(wanted, ROWS_AT_ONCE))
            found += more[:wanted]
            rest += [session.session_id for session in more[wanted:]]
            scans += 1
        return Page(found, None if scan == "end" and not rest else "~".join([scan, *rest]))

    async def _scan(self, cursor: str, fewest: int, enough: int) -> tuple[str, Sequence[Listed]]:
        """Return where to go on, and the sessions in the next part of the keys."""
        position, _, place = cursor.partition("-")
        at, masters = int(place or 0), await self._client.masters()
        if at >= len(masters):
            return "end", ()
        first, last, _ = masters[at]
        probes = (f"{self._keys.server_probe}:{{{n}}}" for n in itertools.count())
        probe = next(key for key in probes if first <= slot_of(key) <= last)
        args = (position, self._keys.session_pattern, fewest, STEPS_PER_SCAN, enough, int(fewest < WALK))
        _, following, rows = await self._run(scripts.SCAN, (probe,), args)
        goes_on = "end" if at + 1 == len(masters) else f"0-{at + 1}"
        found = sorted(scripts.listed(rows, self._keys))
        return (f"{scripts.text(following)}-{at}" if following != b"0" else goes_on), found

    async def _read(self, ids: Sequence[str]) -> Sequence[Listed]:
        """Return what lists show of sessions, without those that are gone; of a cluster one by one."""
        together: Sequence[str] = [*map(self._keys.session, ids), self._keys.server_probe]
        calls = [together] if self._has_one_server else map(self._keys.of, ids)
        replies = await asyncio.gather(*(self._run(scripts.SESSIONS, keys) for keys in calls))
        return [session for _, rows in replies for session in scripts.listed(rows, self._keys)]

    async def _page_by_prefix(self, cursor: str | None, limit: int, prefix: str) -> Page:
        after = after_of(cursor, prefix)
        found: list[Listed] = []
        while True:
            wanted = min(limit - len(found), ROWS_AT_ONCE)
            start = f"({after}" if after else _first(prefix)
            _, ids, rows = await self._index_page(start, prefix, wanted + 1)
            listed = scripts.listed(rows, self._keys) if self._has_one_server else await self._read(ids[:wanted])
            found += [session for session in listed if session.session_id not in ids[wanted:]]
            if len(ids) <= wanted or len(found) == limit:
                return Page(found, cursor_after(ids[wanted - 1]) if len(ids) > wanted else None)
            after = ids[wanted - 1]

    async def _index_page(self, start: str, prefix: str, limit: int) -> tuple[int, Sequence[str], Sequence[Any]]:
        """Return how many ids the index has from ``start`` on, some of them, and their sessions if it has them."""
        before_id = self._keys.before_id if self._has_one_server else ""
        args = (start, b"(" + prefix.encode() + b"\xff", limit, before_id)
        for _ in range(MAX_BUILDS):
            outcome, *found = await self._run(scripts.INDEX_PAGE, (self._keys.index,), args)
            if outcome == b"OK":
                count, ids, rows = found
                return count, [scripts.text(one) for one in ids], rows
            await self._make_index()
        raise StoreUnavailableError("the index of sessions is lost again and again")

    async def _make_index(self) -> None:
        """Put the ids of all sessions into an index; creators add those that are created meanwhile."""
        await self._run(scripts.INDEX_BUILD, (self._keys.index,), ("begin", INDEX_MS))
        scan = "0"
        while scan != "end":
            scan, sessions = await self._scan(scan, WALK, WALK)
            if sessions:
                await self.add([session.session_id for session in sessions])
        await self._run(scripts.INDEX_BUILD, (self._keys.index,), ("complete", INDEX_MS))


def _first(prefix: str) -> str:
    """Return where the ids with a prefix begin in the index; what marks its state comes before all ids."""
    return f"[{prefix or '0'}"
