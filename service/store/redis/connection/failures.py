"""The meaning of Redis errors: a short reason without secrets, and whether a retry may succeed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from redis import exceptions
from redis.asyncio.sentinel import MasterNotFoundError

from ...base.failures import (
    NO_CONNECTION,
    KeysApartError,
    StoreFullError,
    StoreUnavailableError,
    WrongTypeError,
)

_CLOSED_HANDLE = "the handler is closed"


class StoreFailure(NamedTuple):
    """Why the store can't serve a call."""

    reason: str
    is_transient: bool = False
    """Whether a retry may succeed."""
    kind: type[StoreUnavailableError] = StoreUnavailableError
    """What is raised of it."""


LOADING = StoreFailure("the store is loading its data (LOADING)", is_transient=True)
BUSY = StoreFailure("the store is busy with a script (BUSY)", is_transient=True)
MOVING = StoreFailure("the store is moving this session (TRYAGAIN)", is_transient=True)
CLUSTER_DOWN = StoreFailure("the cluster is down (CLUSTERDOWN)", is_transient=True)
MASTER_DOWN = StoreFailure("the replica has lost its master (MASTERDOWN)", is_transient=True)
NO_MASTER = StoreFailure("the sentinels know no master now", is_transient=True)
NO_SENTINEL = StoreFailure("sentinels are out of reach, and no other knows the master", is_transient=True)
TIMEOUT = StoreFailure("the store did not answer in time", is_transient=True)
TOO_MANY_CLIENTS = StoreFailure("the store has too many clients", is_transient=True)
MOVED = StoreFailure("the server is one of a cluster and keeps this session elsewhere (MOVED)")
APART = StoreFailure("the server is one of a cluster and keeps these keys apart (CROSSSLOT)", kind=KeysApartError)
FULL = StoreFailure("the store is full (OOM)", kind=StoreFullError)
READ_ONLY = StoreFailure("the store is a read-only replica (READONLY)")
DISK_ERROR = StoreFailure("the store can't write to its disk (MISCONF)", kind=StoreFullError)
WRONG_TYPE = StoreFailure("a key of the store has another type (WRONGTYPE)", kind=WrongTypeError)
REPLICAS_BEHIND = StoreFailure("too few replicas of the store have the commit (BANDIT_MIN_REPLICAS)")
NO_REPLICAS = StoreFailure("the store has too few replicas (NOREPLICAS)")
NO_PERMISSION = StoreFailure("the store's user lacks a permission (NOPERM)")


class ReplicasBehindError(exceptions.RedisError):
    """A call was carried out, but too few replicas acknowledged it before the timeout."""


# The first match counts, so a subclass comes before its base.
_BY_CLASS: tuple[tuple[type[exceptions.RedisError], StoreFailure], ...] = (
    (ReplicasBehindError, REPLICAS_BEHIND),
    (exceptions.BusyLoadingError, LOADING),
    (exceptions.TryAgainError, MOVING),
    (exceptions.MasterDownError, MASTER_DOWN),
    (exceptions.ClusterDownError, CLUSTER_DOWN),
    (exceptions.AskError, MOVED),
    (exceptions.ClusterCrossSlotError, APART),
    (exceptions.OutOfMemoryError, FULL),
    (exceptions.ReadOnlyError, READ_ONLY),
    (exceptions.NoPermissionError, NO_PERMISSION),
    (exceptions.TimeoutError, TIMEOUT),
    (MasterNotFoundError, NO_MASTER),
)
_BY_TEXT = {
    "BUSY ": BUSY,
    "MISCONF ": DISK_ERROR,
    "NOREPLICAS ": NO_REPLICAS,
    "WRONGTYPE ": WRONG_TYPE,
    "max number of clients": TOO_MANY_CLIENTS,
    "user executing the script": NO_PERMISSION,
    "can't access at least one of the keys": NO_PERMISSION,
    "-OOM ": FULL,
    "-READONLY ": READ_ONLY,
}
"""By part of the text: errors without a class in redis-py, or that some servers wrap into a script's error."""


_REFUSED_COMMAND = re.compile(r"permissions to run the '([A-Za-z|-]{1,40})' command")
"""The command that an access list lacks."""
_ECHO = ", with args beginning with"
"""After these words servers quote the arguments of an unknown command; those of AUTH are the password."""


def failure_of(error: exceptions.RedisError) -> StoreFailure:
    """Return the meaning of an error of redis-py: a short reason without secrets, and whether it is transient."""
    text = str(error).partition(_ECHO)[0]
    if refused := _REFUSED_COMMAND.search(text):
        return StoreFailure(f"{NO_PERMISSION.reason}: {refused[1]}")
    if isinstance(error, MasterNotFoundError) and " : " in text:  # what follows are errors of sentinels
        return NO_SENTINEL
    for kind, known in _BY_CLASS:
        if isinstance(error, kind):
            return known
    for part, known in _BY_TEXT.items():
        if part in text:
            return known
    if isinstance(error, exceptions.AuthenticationError):
        return StoreFailure(f"the store refused the credentials: {text}")
    if isinstance(error, exceptions.ConnectionError):
        return StoreFailure(f"{NO_CONNECTION}: {text}", is_transient=True)
    return StoreFailure(f"the store refused a call: {text[:200]}")


@contextmanager
def lost_connections_told() -> Iterator[None]:
    """Raise redis-py's ConnectionError for a connection that was just lost, where uvloop raises a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if _CLOSED_HANDLE not in str(error):
            raise
        raise exceptions.ConnectionError("connection lost while it was used") from error
