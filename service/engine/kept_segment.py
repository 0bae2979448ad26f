"""One segment as a session keeps it: what was learned of it, its counts, and when its outstanding acts were.

Changes of arms, and the ends of windows, reach a segment when it is next used: so neither touches all segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..learners.segments import EXPERTS, Segment, given_up, start_segment, with_fewer, with_more
from .act_times import PER_WINDOW
from .arms import Arms
from .params import Expiry

OBJECT_BYTES = 1000
"""Memory that a segment takes beside its arrays, about."""


class KeptSegment(NamedTuple):
    """A segment, as of its last act or event."""

    segment: Segment
    live: Sequence[int]
    """Indexes of the arms that its arrays are of."""
    last_slot: int
    last_act_at: float
    """Unix seconds."""
    outstanding: int
    """Decisions that wait for feedback; events are matched by arm, so events of a wrong segment make it wrong."""
    feedbacks: int
    losses: int
    """Losses of its events, and of decisions that expired at a default."""
    mean_loss: float
    """Mean of these, on the learner's scale."""
    width: float
    """Seconds of a bucket of ``acts``; 0 without expiry."""
    acts: tuple[tuple[int, int], ...]
    """Numbers of buckets of time, ascending, and the acts in them."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        segment = self.segment
        full = 0 if segment.full is segment.drawn else segment.full.nbytes
        return segment.sums.nbytes + segment.pool.nbytes + segment.drawn.nbytes + full + OBJECT_BYTES

    @classmethod
    def of(cls, live: Sequence[int]) -> KeptSegment:
        """Begin a segment with the arms at these indexes, ascending."""
        return cls(start_segment(len(live)), live, 0, 0.0, 0, 0, 0, 0.0, 0.0, ())

    def learned(self, loss: float, count: int) -> KeptSegment:
        """Count losses alike.

        Parameters
        ----------
        loss : on the learner's scale
        count : how many, one or more
        """
        losses = self.losses + count
        return self._replace(losses=losses, mean_loss=self.mean_loss + (loss - self.mean_loss) * (count / losses))

    def settled(self, loss: float) -> KeptSegment:
        """Count the feedback of a decision, and its loss on the learner's scale."""
        losses, outstanding = self.losses + 1, max(self.outstanding - 1, 0)
        mean = self.mean_loss + (loss - self.mean_loss) * (1 / losses)
        return self._replace(feedbacks=self.feedbacks + 1, outstanding=outstanding, losses=losses, mean_loss=mean)

    def fitted(self, arms: Arms) -> KeptSegment:
        """Return the segment with the arms there are: those gone are dropped, then new ones added."""
        if self.live is arms.live:
            return self
        if self.live == arms.live:
            return self._replace(live=arms.live)
        gone = [place for place, arm in enumerate(self.live) if not arms.is_live(arm)]
        new = len(arms.live) - (len(self.live) - len(gone))
        segment = self.segment
        if len(gone) == len(self.live):
            segment = _emptied(segment, new)
        else:
            segment = with_fewer(segment, np.array(gone)) if gone else segment
            segment = with_more(segment, new) if new else segment
        return self._replace(segment=segment, live=arms.live)

    def aged(self, expiry: Expiry | None, time: float) -> KeptSegment:
        """Return the segment after the windows that have ended by ``time``.

        Parameters
        ----------
        expiry : the session's; None: no decision expires, and times of acts are forgotten
        time : in Unix seconds
        """
        if expiry is None:
            return self._replace(width=0.0, acts=()) if self.width else self
        kept = self._with_width(expiry.after_seconds / PER_WINDOW, time)
        left = [(bucket, count) for bucket, count in kept.acts if (bucket + 1 + PER_WINDOW) * kept.width > time]
        expired = kept.outstanding - min(kept.outstanding, sum(count for _, count in left))
        if len(left) == len(kept.acts) and not expired:
            return kept
        segment = given_up(kept.segment, expired)
        kept = kept._replace(segment=segment, outstanding=kept.outstanding - expired, acts=tuple(left))
        return kept if expiry.loss is None or not expired else kept.learned(expiry.loss, expired)

    def _with_width(self, width: float, time: float) -> KeptSegment:
        """Return the segment with buckets of another width; acts that are in none count from ``time`` on."""
        if self.width == width:
            return self
        present, acts = int(time // width), dict[int, int]()
        for bucket, count in self.acts or (((0, self.outstanding),) if self.outstanding else ()):
            number = min(int((bucket + 1) * self.width // width), present) if self.width else present
            acts[number] = acts.get(number, 0) + count
        return self._replace(width=width, acts=tuple(acts.items()))

    def acted(self, slot: int, time: float) -> KeptSegment:
        """Count an act.

        Parameters
        ----------
        slot : the slot that it opened, from 1
        time : of the act, in Unix seconds
        """
        acts = self.acts
        if self.width:
            bucket = int(time // self.width)
            before = acts[-1][1] if acts and acts[-1][0] == bucket else 0
            acts = (*(acts[:-1] if before else acts), (bucket, before + 1))
        return self._replace(last_slot=slot, last_act_at=time, outstanding=self.outstanding + 1, acts=acts)


def _emptied(segment: Segment, n_arms: int) -> Segment:
    """Return a segment after all of its arms were exchanged for others."""
    even = np.full((EXPERTS, n_arms), 1 / n_arms)
    return segment._replace(sums=np.zeros(n_arms), pool=even[0].copy(), drawn=even, full=even)
