"""What the store counts of the arms of a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...cooperative.fair_yield import FairYield
from ...engine.loss_range import LossRange
from ...errors import UnknownSessionError
from ...serialization.journal import ACTS, DEFAULTED, EXPIRED, FEEDBACKS, LOSSES
from ...serialization.summary import shown_mean
from ...store.base import Store

OF_MEAN = (FEEDBACKS, DEFAULTED, LOSSES)
"""What a mean loss is made of."""
SHOWN = (ACTS, EXPIRED, *OF_MEAN)
"""What a row of a list shows."""
ARMS_AT_ONCE = 250
"""Arms of which counts are read in one call to the store."""


class ArmCounts:
    """Counts of some arms, as far as they have been read.

    Parameters
    ----------
    uncommitted : what is to be added, by field
    """

    def __init__(
        self, store: Store, session_id: str, losses: LossRange, uncommitted: Mapping[bytes, float]
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._losses = losses
        self._uncommitted = uncommitted
        self._values: dict[bytes, float] = {}
        self.versions: set[str] = set()
        """The versions of the session at which counts were read."""

    async def read(self, arms: Sequence[int], kinds: Sequence[bytes]) -> None:
        """Read counts of these kinds of these arms, by index.

        Raises
        ------
        UnknownSessionError
            where the session has been deleted.
        """
        fair_yield = FairYield()
        for at in range(0, len(arms), ARMS_AT_ONCE):
            fields = [kind + b"%d" % arm for arm in arms[at : at + ARMS_AT_ONCE] for kind in kinds]
            if some := [field for field in fields if field not in self._values]:
                await self._read(some)
            await fair_yield()

    async def _read(self, fields: Sequence[bytes]) -> None:
        found = await self._store.read_counts(self._session_id, fields)
        if found is None:
            raise UnknownSessionError
        self.versions.add(found.version)
        self._values.update(zip(fields, found.values, strict=True))

    def whole(self, kind: bytes, arm: int) -> int:
        """A count that was read."""
        return int(self._value(kind, arm))

    def mean(self, arm: int) -> float | None:
        """The mean loss of an arm over applied events and decisions learned at the default; None without any."""
        count = self._value(FEEDBACKS, arm) + self._value(DEFAULTED, arm)
        return shown_mean(self._losses.at_share(self._value(LOSSES, arm) / count)) if count > 0 else None

    def _value(self, kind: bytes, arm: int) -> float:
        field = kind + b"%d" % arm
        return self._values[field] + self._uncommitted.get(field, 0)
