"""What went wrong with Redis, in a few words and without secrets."""

from __future__ import annotations

from typing import NamedTuple

from redis import exceptions


class Trouble(NamedTuple):
    """Why the store can't serve a call."""

    reason: str
    passing: bool = False
    """Whether the same call may well go through a moment later."""


_BY_CODE = {
    "LOADING": Trouble("the store is loading its data (LOADING)", passing=True),
    "BUSY": Trouble("the store is busy with a script (BUSY)", passing=True),
    "TRYAGAIN": Trouble("the store is moving this session (TRYAGAIN)", passing=True),
    "CLUSTERDOWN": Trouble("the cluster is down (CLUSTERDOWN)", passing=True),
    "MASTERDOWN": Trouble("the replica has lost its master (MASTERDOWN)", passing=True),
    "MOVED": Trouble("the server is one of a cluster and keeps this session elsewhere (MOVED)"),
    "ASK": Trouble("the server is one of a cluster and keeps this session elsewhere (ASK)"),
    "OOM": Trouble("the store is full (OOM)"),
    "READONLY": Trouble("the store is a read-only replica (READONLY)"),
    "MISCONF": Trouble("the store can't write to its disk (MISCONF)"),
    "NOREPLICAS": Trouble("the store has too few replicas (NOREPLICAS)"),
    "NOAUTH": Trouble("the store asks for a password (NOAUTH)"),
    "WRONGPASS": Trouble("the store refused the password (WRONGPASS)"),
    "NOPERM": Trouble("the store's user lacks a permission (NOPERM)"),
}
_NESTED = {"-OOM ": "OOM", "-READONLY ": "READONLY", "-MISCONF ": "MISCONF", "-NOREPLICAS ": "NOREPLICAS"} | {
    "user executing the script": "NOPERM",
    "can't access at least one of the keys": "NOPERM",
}
"""Words that tell what some servers wrap into the error of a script."""


def trouble(error: exceptions.RedisError) -> Trouble:
    """Tell the trouble behind an error of redis-py."""
    text = str(error)
    code = getattr(error, "status_code", None) or text.split(" ", 1)[0]
    if code in _BY_CODE:
        return _BY_CODE[code]
    if isinstance(error, exceptions.TimeoutError):
        return Trouble("the store did not answer in time", passing=True)
    if "max number of clients" in text:
        return Trouble("the store has too many clients", passing=True)
    if isinstance(error, exceptions.AuthenticationError):
        return Trouble("the store refused the credentials")
    if isinstance(error, exceptions.ConnectionError):
        return Trouble(f"no connection to the store: {text}", passing=True)
    nested = next((code for words, code in _NESTED.items() if words in text), None)
    return _BY_CODE[nested] if nested else Trouble(f"the store refused a call: {text[:200]}")
