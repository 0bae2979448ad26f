"""The schemas of states: each state begins with the number of its own.

Schema 1 is version 0.1's. It holds neither voided decisions, paused arms, means nor times of the last act and
event: see ``needed_schema``, and ``Ledger.restart_means`` for what its readers count.

Schema 3 has the ledger's integers as short as the largest allows, behind a byte that says how many bytes each has,
arrays as a compact state has them, and in place of vectors that follow from another to the bit what ``logs`` says.
Vectors that follow by powers and exponentials need not have the same bits on every processor, and are stored.

Schema 4 has the bytes of schema 3. It says that counts beside the state are packed, so that version 1.0, which
would read 0 in their place, refuses the session. A session that began with an older schema never gets it, and one
that has it keeps it: see ``CachedSession.schema``. Its logs begin at fewer arms (``least_logged_arms``), and what
commits write for lists is shorter (``compact_summary``).
"""

from __future__ import annotations

from ...engine.arm_run import Arms
from ...engine.ledger import Ledger

SCHEMA = 4
"""The newest schema."""
SCHEMA_BYTE = 0
"""Where the bytes of a state have the number of their schema."""
COMPACT = 3
"""The first schema whose states are compact."""
PACKED_COUNTS = 4
"""The first schema beside whose states the counts of arms are packed."""
LOGGED_ARMS_3 = 2_000
"""Arms from which on a state of schema 3 may have its log beside it.

With fewer arms version 1.0 reads such a log, and then writes another distribution of the open slot.
"""


def needed_schema(ledger: Ledger, arms: Arms | None = None) -> int:
    """Return the oldest schema that holds all but means and times of a session.

    Parameters
    ----------
    ledger : of the session
    arms : None where arms never changed
    """
    return 2 if ledger.voided or (arms is not None and arms.paused) else 1


def least_logged_arms(schema: int) -> int:
    """Return from how many arms on a compact state may have its log beside it, where its learner wants one."""
    return LOGGED_ARMS_3 if schema < PACKED_COUNTS else 0
