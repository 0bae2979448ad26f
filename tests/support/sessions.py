"""Short ways to write sessions and commits."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from service.commit.cache import SessionCache
from service.commit.committer import Committer, SessionQueues
from service.commit.schemas import Schemas
from service.learners import REGISTRY
from service.sessions.service import Sessions
from service.settings import Settings
from service.store import open_store
from service.store.base import (
    DOUBLE,
    GROUP,
    INCREMENT,
    Commit,
    Committed,
    Known,
    NewSession,
    Rows,
    Snapshot,
    Store,
    StoreOptions,
    Written,
)
from service.store.memory import MemoryStore
from service.telemetry.metrics import Labels, Metrics
from service.tokens import TokenKeys


def queues_on(store: Store, max_wait: float = 60) -> SessionQueues:
    """The queues of one worker on a store, with a cache of its own."""
    keys = TokenKeys(None, store.token_key)
    committer = Committer(store, SessionCache(10), Metrics(Labels()), Schemas(store), keys)
    return SessionQueues(committer, max_queue=1000, max_waiting=10_000, max_wait=max_wait)


def sessions_on(store: Store, **settings: Any) -> Sessions:
    """The sessions of a store, as one worker with these settings serves them."""
    return Sessions(store, Settings(**settings), Metrics(Labels(learners=REGISTRY)))


def digest(text: object) -> bytes:
    """Sixteen bytes that stand for an event id or a key."""
    return hashlib.blake2b(str(text).encode(), digest_size=16).digest()


def new_session(session_id: str = "s", **fields: Any) -> NewSession:
    usual = {"session_id": session_id, "version": "a-0", "spec": b"spec", "state": b"state0"}
    return NewSession(**(usual | fields))


def commit(expected: str, version: str | None, **fields: Any) -> Commit:
    """From ``expected`` to ``version`` by writer a, whose state is named after the version; None writes nothing."""
    written = None
    if version is not None:
        given = {"version": version, "state": f"state of {version}".encode()}
        fields |= {"counts": increments(fields.get("counts", {}))}
        written = Written(**given | {name: fields.pop(name) for name in Written._fields if name in fields})
    return Commit(**({"session_id": "s", "writer": "a", "expected": expected, "written": written} | fields))


async def loaded(store: Store, session_id: str = "s") -> Snapshot:
    """A session that is there."""
    snapshot = await store.load(session_id)
    assert snapshot is not None
    return snapshot


async def version(store: Store, session_id: str = "s") -> str | None:
    """The version of a session, None without one."""
    snapshot = await store.load(session_id)
    return snapshot.version if snapshot is not None else None


def increments(rows: Rows) -> dict[int, bytes]:
    """What adds these counts, as commits have it."""
    found = defaultdict[int, bytes](bytes)
    for arm, row in rows.items():
        for kind, amount in enumerate(row):
            if amount:
                found[arm // GROUP] += INCREMENT.pack(kind * GROUP + arm % GROUP + 1, DOUBLE, amount)
    return dict(found)


async def use(url: str, **options: Any) -> None:
    """Make every kind of call of the service to its store."""
    store = open_store(url, options=StoreOptions(**options))
    try:
        await store.ping()
        await store.create(new_session(answer=(digest("c"), b"created")))
        changed = commit("a-0", "a-1", event_ids=[digest(1)], records={b"1": b"x"}, idle_ttl_ms=60_000)
        assert await store.commit(changed) == Committed()
        assert await store.commit(commit("a-1", None, event_ids=[digest(1)])) == Known({digest(1): b""}, {})
        assert await store.recall("s", digest("c")) == b"created"
        assert await store.read_records("s") == {b"1": b"x"}
        assert [each.session_id for each in (await store.list(None, 10)).sessions] == ["s"]
        await store.remind("s", 1.0)
        assert await store.due(10) == ["s"]
        await store.reschedule("s", 2.0)
        await store.reschedule("s", None)
        assert await store.due(10) == []
        assert await store.acquire_lease("w", 1)
        assert await store.delete("s")
    finally:
        await store.close()


class CountingStore(MemoryStore):
    """Counts how often a whole session is read."""

    loads = 0

    async def load(self, session_id: str, arms: Sequence[int] = ()) -> Snapshot | None:
        self.loads += 1
        return await super().load(session_id, arms)
