"""Short ways to write sessions and commits."""

import hashlib
from collections import defaultdict
from typing import Any

from service.commit.cache import SessionCache
from service.commit.committer import Committer, SessionQueues
from service.commit.schemas import Schemas
from service.learners import REGISTRY
from service.sessions.service import Sessions
from service.settings import Settings
from service.store.base import DOUBLE, GROUP, INCREMENT, Commit, NewSession, Rows, Snapshot, Store, Written
from service.telemetry.metrics import Labels, Metrics
from service.tokens import TokenKeys


def queues_on(store: Store, max_wait: float = 60) -> SessionQueues:
    """The queues of one worker on a store, with a cache of its own."""
    committer = Committer(
        store, SessionCache(10), Metrics(Labels()), Schemas(store), TokenKeys(None, store.token_key)
    )
    return SessionQueues(committer, max_queue=1000, max_waiting=10_000, max_wait=max_wait)


def sessions_on(store: Store, **settings: Any) -> Sessions:
    """The sessions of a store, as one worker with these settings serves them."""
    return Sessions(store, Settings(**settings), Metrics(Labels(learners=REGISTRY)))


def digest(text: object) -> bytes:
    """Sixteen bytes that stand for an event id or a key."""
    return hashlib.blake2b(str(text).encode(), digest_size=16).digest()


def new_session(session_id: str = "s", **fields: Any) -> NewSession:
    return NewSession(
        **({"session_id": session_id, "version": "a-0", "spec": b"spec", "state": b"state0"} | fields)
    )


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
