"""The Lua scripts that the store sends to the server; each is sent behind the files with its functions."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """A Lua script: ``source`` begins with the files of its functions, ``sha`` is its name for EVALSHA."""

    name: str
    source: bytes
    sha: str
    writes: bool
    """Whether it needs room in the store."""
    is_repeatable: bool
    """Whether running it twice gives the right answer: if not, it is retried only if it was not sent."""
    retry_seconds: float | None
    """How long it is retried; None for the option of the same name."""

    @classmethod
    def read(
        cls,
        name: str,
        *functions: str,
        writes: bool = False,
        is_repeatable: bool = True,
        retry_seconds: float | None = None,
    ) -> Script:
        """Read the script in ``lua/<name>.lua``.

        Parameters
        ----------
        name : its path in ``lua``, without the ending
        functions : paths of files that it begins with, behind ``prelude.lua``
        writes, is_repeatable, retry_seconds : as the fields of the same names
        """
        folder = files(__package__) / "lua"
        source = b"".join([(folder / f"{part}.lua").read_bytes() for part in ("prelude", *functions, name)])
        sha = hashlib.sha1(source, usedforsecurity=False).hexdigest()
        return cls(name, source, sha, writes, is_repeatable, retry_seconds)


CREATE = Script.read("create", writes=True)
LOAD = Script.read("load")
RECALL = Script.read("recall")
COMMIT = Script.read("commit", "sums", "writers", writes=True)
RECORDS = Script.read("beside/records")
COUNTS = Script.read("beside/counts")
LOG = Script.read("beside/log")
SEGMENTS = Script.read("beside/segments")
SEGMENT_NAMES = Script.read("beside/segment_names")
DELETE = Script.read("delete", is_repeatable=False)
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
RECORD_SAMPLE = Script.read("history/record", writes=True)
READ_SAMPLES = Script.read("history/read")
THIN_SAMPLES = Script.read("history/thin")
PING = Script.read("ping", retry_seconds=0.1)
"""Retried long enough to replace a lost connection."""
MAY_RUN = Script.read("may_run")
REMIND = Script.read("reminders/remind", writes=True)
DUE = Script.read("reminders/due")
RESCHEDULE = Script.read("reminders/reschedule", writes=True)
FORGET = Script.read("reminders/forget", writes=True)
ACQUIRE_LEASE = Script.read("reminders/acquire_lease", writes=True)
