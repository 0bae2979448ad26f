"""What the store counts of the arms of a session."""

from __future__ import annotations

from collections.abc import Sequence

from ...cooperative import FairYield
from ...engine.ledger import LossRange
from ...errors import UnknownSessionError
from ...learners.base import IntArray
from ...serialization.summary import shown_mean
from ...store.base import ArmCounts, Rows, Store

ARMS_AT_ONCE = 250
"""Arms of which counts are read in one call to the store."""


class ReadCounts:
    """Counts of some arms, as far as they have been read.

    Parameters
    ----------
    store : has the counts
    session_id : of the session
    losses : how the session's losses are posted, in which means are shown
    uncommitted : what is to be added
    outstanding : decisions of each arm, of sessions with packed counts: their acts follow from it; else None
    """

    def __init__(
        self, store: Store, session_id: str, losses: LossRange, uncommitted: Rows, outstanding: IntArray | None
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._losses = losses
        self._uncommitted = uncommitted
        self._outstanding = outstanding
        self._rows: dict[int, ArmCounts] = {}
        self.versions: set[str] = set()
        """The versions of the session at which counts were read."""

    async def read(self, arms: Sequence[int]) -> None:
        """Read the counts of arms, by index, that were not read yet.

        Raises
        ------
        UnknownSessionError
            where the session has been deleted.
        """
        fair_yield = FairYield()
        for at in range(0, len(arms), ARMS_AT_ONCE):
            if some := [arm for arm in arms[at : at + ARMS_AT_ONCE] if arm not in self._rows]:
                await self._read(some)
            await fair_yield()

    async def _read(self, arms: Sequence[int]) -> None:
        found = await self._store.read_counts(self._session_id, arms, as_texts=self._outstanding is None)
        if found is None:
            raise UnknownSessionError
        self.versions.add(found.version)
        for arm, row in zip(arms, found.rows, strict=True):
            if (added := self._uncommitted.get(arm)) is not None:
                row = ArmCounts(*map(sum, zip(row, added, strict=True)))
            self._rows[arm] = row if self._outstanding is None else _with_acts(row, int(self._outstanding[arm]))

    def of(self, arm: int) -> ArmCounts:
        """Return the counts of an arm that was read."""
        return self._rows[arm]

    def acts(self, arm: int) -> float:
        """Return the acts of an arm that was read."""
        return self._rows[arm].acts

    def mean(self, arm: int) -> float | None:
        """Return the mean loss of an arm over applied events and decisions learned at the default.

        It is on the scale of what clients post, and None without any such event or decision.
        """
        counts = self._rows[arm]
        count = counts.feedbacks + counts.defaulted
        return shown_mean(self._losses.at_share(counts.losses / count)) if count > 0 else None


def _with_acts(row: ArmCounts, outstanding: int) -> ArmCounts:
    acts = outstanding + row.feedbacks + row.expired + row.voided + row.removed
    return ArmCounts(acts, *row[1:])
