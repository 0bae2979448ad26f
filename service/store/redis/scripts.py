"""The Lua scripts that the store sends to the server; each is sent behind ``prelude.lua``."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """A Lua script: ``source`` begins with ``prelude.lua``, ``sha`` is its name for EVALSHA."""

    name: str
    source: bytes
    sha: str

    @classmethod
    def read(cls, name: str) -> Script:
        """Read the script in ``lua/<name>.lua``."""
        folder = files(__package__) / "lua"
        source = (folder / "prelude.lua").read_bytes() + (folder / f"{name}.lua").read_bytes()
        return cls(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


CREATE = Script.read("create")
LOAD = Script.read("load")
RECALL = Script.read("recall")
COMMIT = Script.read("commit")
RECORDS = Script.read("beside/records")
COUNTS = Script.read("beside/counts")
LOG = Script.read("beside/log")
DELETE = Script.read("delete")
SCAN = Script.read("listing/scan")
SESSIONS = Script.read("listing/sessions")
INDEX_ADD = Script.read("listing/index_add")
INDEX_BUILD = Script.read("listing/index_build")
INDEX_PAGE = Script.read("listing/index_page")
COPY = Script.read("transfer/copy")
PART = Script.read("transfer/part")
PUT = Script.read("transfer/put")
DROP = Script.read("transfer/drop")
RESTORE = Script.read("transfer/restore")
PING = Script.read("ping")
REMIND = Script.read("reminders/remind")
DUE = Script.read("reminders/due")
RESCHEDULE = Script.read("reminders/reschedule")
FORGET = Script.read("reminders/forget")
ACQUIRE_LEASE = Script.read("reminders/acquire_lease")
