"""What went wrong with Redis, in a few words and without secrets."""

from __future__ import annotations

from typing import NamedTuple

from redis import exceptions
from redis.asyncio.sentinel import MasterNotFoundError


class Trouble(NamedTuple):
    """Why the store can't serve a call."""

    reason: str
    passing: bool = False
    """Whether the same call may well go through a moment later."""


LOADING = Trouble("the store is loading its data (LOADING)", passing=True)
BUSY = Trouble("the store is busy with a script (BUSY)", passing=True)
MOVING = Trouble("the store is moving this session (TRYAGAIN)", passing=True)
CLUSTER_DOWN = Trouble("the cluster is down (CLUSTERDOWN)", passing=True)
MASTER_DOWN = Trouble("the replica has lost its master (MASTERDOWN)", passing=True)
MASTERLESS = Trouble("the sentinels know no master now", passing=True)
SILENT = Trouble("the store did not answer in time", passing=True)
CROWDED = Trouble("the store has too many clients", passing=True)
ELSEWHERE = Trouble("the server is one of a cluster and keeps this session elsewhere (MOVED)")
FULL = Trouble("the store is full (OOM)")
READ_ONLY = Trouble("the store is a read-only replica (READONLY)")
UNWRITABLE = Trouble("the store can't write to its disk (MISCONF)")
BEHIND = Trouble("too few replicas of the store have the commit (BANDIT_MIN_REPLICAS)")
ALONE = Trouble("the store has too few replicas (NOREPLICAS)")
FORBIDDEN = Trouble("the store's user lacks a permission (NOPERM)")


class ReplicasBehindError(exceptions.RedisError):
    """A call was carried out, but too few replicas have said in time that they have it."""


# The first that fits counts: a subclass stands before its base.
_BY_CLASS: tuple[tuple[type[exceptions.RedisError], Trouble], ...] = (
    (ReplicasBehindError, BEHIND),
    (exceptions.BusyLoadingError, LOADING),
    (exceptions.TryAgainError, MOVING),
    (exceptions.MasterDownError, MASTER_DOWN),
    (exceptions.ClusterDownError, CLUSTER_DOWN),
    (exceptions.AskError, ELSEWHERE),
    (exceptions.OutOfMemoryError, FULL),
    (exceptions.ReadOnlyError, READ_ONLY),
    (exceptions.NoPermissionError, FORBIDDEN),
    (exceptions.TimeoutError, SILENT),
    (MasterNotFoundError, MASTERLESS),
)
_BY_WORDS = {
    "BUSY ": BUSY,
    "MISCONF ": UNWRITABLE,
    "NOREPLICAS ": ALONE,
    "max number of clients": CROWDED,
    "user executing the script": FORBIDDEN,
    "can't access at least one of the keys": FORBIDDEN,
    "-OOM ": FULL,
    "-READONLY ": READ_ONLY,
}
"""Errors that redis-py has no class for, or that some servers wrap into the error of a script."""


_ECHO = ", with args beginning with"
"""Behind it servers tell the words of a command they don't know, also where that is AUTH and its password."""


def trouble(error: exceptions.RedisError) -> Trouble:
    """Tell the trouble behind an error of redis-py."""
    for kind, known in _BY_CLASS:
        if isinstance(error, kind):
            return known
    text = str(error).partition(_ECHO)[0]
    for words, known in _BY_WORDS.items():
        if words in text:
            return known
    if isinstance(error, exceptions.AuthenticationError):
        return Trouble(f"the store refused the credentials: {text}")
    if isinstance(error, exceptions.ConnectionError):
        return Trouble(f"no connection to the store: {text}", passing=True)
    return Trouble(f"the store refused a call: {text[:200]}")
