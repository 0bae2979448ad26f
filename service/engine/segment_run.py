"""A session whose acts and events name segments: what it keeps of each, which it drops, and its run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ..learners import segments as rule
from ..learners.base import FloatArray, IntArray, PooledLearner, Rows, draw
from ..learners.segments import EXPERTS, Moment, Segment, Segments, Shared
from .arm_run import ArmRun, Arms
from .ledger import PER_WINDOW, ArmAction, ArmFeedback, Expiry, Ledger

# -- One segment as a session keeps it: what was learned of it, its counts, and when its outstanding acts were.
#
# Changes of arms, and the ends of windows, reach a segment when it is next used: so neither touches all segments.

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
        return cls(rule.start_segment(len(live)), live, 0, 0.0, 0, 0, 0, 0.0, 0.0, ())

    def learned(self, loss: float, count: int = 1) -> KeptSegment:
        """Count losses that are all alike, on the learner's scale."""
        losses = self.losses + count
        return self._replace(losses=losses, mean_loss=self.mean_loss + (loss - self.mean_loss) * (count / losses))

    def settled(self, loss: float) -> KeptSegment:
        """Count the feedback of a decision, and its loss on the learner's scale."""
        kept = self.learned(loss)
        return kept._replace(feedbacks=self.feedbacks + 1, outstanding=max(self.outstanding - 1, 0))

    def corrected(self, loss: float, before: float) -> KeptSegment:
        """Move the mean by a loss in the place of one before, which may be of an earlier segment of this name."""
        mean = self.mean_loss + (loss - before) / self.losses if self.losses else 0.0
        return self._replace(mean_loss=max(mean, 0.0))

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
            even = np.full((EXPERTS, new), 1 / new)
            segment = segment._replace(sums=np.zeros(new), pool=even[0].copy(), drawn=even, full=even)
        else:
            segment = rule.with_fewer(segment, np.array(gone)) if gone else segment
            segment = rule.with_more(segment, new) if new else segment
        return self._replace(segment=segment, live=arms.live)

    def aged(self, expiry: Expiry | None, time: float) -> KeptSegment:
        """Return the segment after the windows that have ended by ``time``, in Unix seconds.

        Without expiry no decision expires, and times of acts are forgotten.
        """
        if expiry is None:
            return self._replace(width=0.0, acts=()) if self.width else self
        kept = self._with_width(expiry.after_seconds / PER_WINDOW, time)
        left = [(bucket, count) for bucket, count in kept.acts if (bucket + 1 + PER_WINDOW) * kept.width > time]
        expired = kept.outstanding - min(kept.outstanding, sum(count for _, count in left))
        if len(left) == len(kept.acts) and not expired:
            return kept
        segment = rule.given_up(kept.segment, expired, dropped=expiry.loss is None)
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
        """Count the act that opened a slot, at a time in Unix seconds."""
        acts = self.acts
        if self.width:
            bucket = int(time // self.width)
            before = acts[-1][1] if acts and acts[-1][0] == bucket else 0
            acts = (*(acts[:-1] if before else acts), (bucket, before + 1))
        return self._replace(last_slot=slot, last_act_at=time, outstanding=self.outstanding + 1, acts=acts)


# -- The segments of a session, as far as they are at hand, and which of them is dropped when there are too many.

MAX_BYTES = 32 * 2**20
"""Memory that the segments of one session may take, about, where a store has them too."""


@dataclass(slots=True)
class KeptSegments:
    """Segments by name: those read from the store, and the changes made since.

    Copies share what was read and have separate changes.
    """

    known: OrderedDict[str, KeptSegment | None] = field(default_factory=OrderedDict)
    """Segments as the store holds them; None for one that is not kept. The least recently changed comes first."""
    changes: dict[str, KeptSegment | None] = field(default_factory=dict)
    """Segments played or changed since, or dropped (None)."""
    oldest: tuple[tuple[int, str], ...] = ()
    """Last slots and names of the segments played least recently, ascending, as the store has them."""
    place: int = 0
    """How many of these have been found to be played or dropped since."""
    is_whole: bool = False
    """Whether there is no store, so that all segments are at hand."""
    nbytes: int = 0
    """Bytes of what is known, about."""

    def copy(self) -> KeptSegments:
        """Copy the segments, so that the copy may change alone."""
        return replace(self, changes=self.changes.copy())

    def is_known(self, name: str) -> bool:
        """Return whether it is known here if the session keeps a segment of this name."""
        return self.is_whole or name in self.changes or name in self.known

    def get(self, name: str) -> KeptSegment | None:
        """Return a segment; None where it is not kept.

        Raises
        ------
        LookupError
            where the store was not asked for it.
        """
        if name in self.changes:
            return self.changes[name]
        if not self.is_whole and name not in self.known:
            raise LookupError(f"segment {name!r} has not been read")
        return self.known.get(name)

    def put(self, name: str, kept: KeptSegment) -> None:
        """Keep a segment, by the name that acts and events give it, as it is now; the next commit writes it."""
        self.changes[name] = kept

    def drop_least_recent(self) -> None:
        """Drop the segment that was played least recently."""
        if self.is_whole and self.place >= len(self.oldest):
            kept = {**self.known, **self.changes}
            slots = ((each.last_slot, name) for name, each in kept.items() if each is not None)
            self.oldest, self.place = tuple(sorted(slots)), 0
        while self.place < len(self.oldest):
            slot, name = self.oldest[self.place]
            self.place += 1
            each = self.changes.get(name, self.known.get(name)) if self.is_known(name) else None
            if not self.is_known(name) or (each is not None and each.last_slot == slot):
                break
        else:
            name = min((each.last_slot, name) for name, each in self.changes.items() if each is not None)[1]
        self.changes[name] = None

    def read(self, found: Mapping[str, KeptSegment | None], oldest: Iterable[tuple[int, str]]) -> KeptSegments:
        """Return the same with what the store has just been found to hold, and without changes.

        Parameters
        ----------
        found : segments by name; None for one that is not kept
        oldest : last slots and names of the segments played least recently, ascending
        """
        for name, each in found.items():
            self._note(name, each)
        return replace(self, oldest=tuple(oldest), place=0, changes={})

    def written(self) -> KeptSegments:
        """Return the same segments as they are once the store holds the changes.

        Earlier copies share what is known and must not be used any more.
        """
        for name, each in self.changes.items():
            self._note(name, each)
        return replace(self, changes={}, oldest=self.oldest if self.is_whole else ())

    def trim(self) -> None:
        """Forget what was changed least recently, where it takes too much memory."""
        while self.nbytes > MAX_BYTES and not self.is_whole:
            _, dropped = self.known.popitem(last=False)
            self.nbytes -= _size(dropped)

    def _note(self, name: str, each: KeptSegment | None) -> None:
        if name in self.known:
            self.nbytes -= _size(self.known.pop(name))
        self.known[name] = each
        self.nbytes += _size(each)


def _size(kept: KeptSegment | None) -> int:
    return OBJECT_BYTES if kept is None else kept.nbytes


@dataclass(slots=True)
class SegmentRun(ArmRun):
    """A session over arms in which the learner is the global part of its segments.

    Surplus and outstanding decisions are judged by arm, over all segments. A provisional default is learned at the
    act and corrected when an event comes, as in a ``ProvisionalRun``.
    """

    learner: PooledLearner[Any]
    layer: Segments[Any]
    shared: Shared
    segments: KeptSegments

    def copy(self) -> Self:
        copied = ArmRun.copy(self)
        copied.segments = self.segments.copy()
        return copied

    def moved(self, ledger: Ledger, state: Any) -> Self:
        return replace(ArmRun.moved(self, ledger, state), segments=KeptSegments())

    def on_written(self, rows: Rows) -> None:
        ArmRun.on_written(self, rows)
        self.segments = self.segments.written()

    def current(self, name: str) -> KeptSegment | None:
        """Return a segment with the arms and at the time of this run; None where it is not kept."""
        kept = self.segments.get(name)
        return None if kept is None else self.fitted(kept)

    def fitted(self, kept: KeptSegment) -> KeptSegment:
        """Return a segment with the arms and at the time of this run."""
        return kept.fitted(self.arms).aged(self.params.expiry, self.ledger.time)

    def act(self, eligible: IntArray | None = None, segment: str = "") -> ArmAction:
        """Open the next slot, which is of a segment, by name, and draw its arm.

        A segment that is not kept is begun; where there are too many, the one played least recently is dropped.
        """
        eligible = self._eligible(eligible)
        if (kept := self.current(segment)) is None:
            if self.shared.kept >= self.params.max_segments:
                self.segments.drop_least_recent()
            else:
                self.shared = self.shared._replace(kept=self.shared.kept + 1)
            kept = self.fitted(KeptSegment.of(self.arms.live))
        slot = self._open_slot(self.draws, eligible)
        moment, p = self.layer.open(self.state, self.shared, kept.segment, slot)
        position = draw(p, slot.u)
        arm = self.arms.live[position]
        self._opened(self.slot, (position,))
        if (default := self.params.charged) is not None and not self.ledger.silent:
            moment = self.layer.settle(moment, position, default, ends=0)
        self._keep(segment, kept.acted(slot.t, self.ledger.time), moment)
        n_eligible = len(self.arms.live) if eligible is None else eligible.size
        return ArmAction(self.slot, arm, float(p[position]), n_eligible)

    def settle(self, event: ArmFeedback) -> None:
        kept, position, default = self.current(event.segment), self.arms.positions[event.arm], self.params.charged
        is_uncharged = self.take(position, slot=event.signed_slot)
        self.ledger.settle_all((position,), (event.loss,), self.params.expiry)
        if default is None or is_uncharged:
            moment = self.layer.settle(self._moment(kept), position, event.loss)
        else:
            moment = self.layer.correct(self._moment(kept), position, event.loss, default)
        self._keep(event.segment, kept if kept is None else kept.settled(event.loss), moment)

    def update(self, event: ArmFeedback, before: float) -> None:
        kept, position = self.current(event.segment), self.arms.positions[event.arm]
        self.ledger.correct(event.loss, before)
        moment = self.layer.correct(self._moment(kept), position, event.loss, before, ends=0)
        self._keep(event.segment, kept if kept is None else kept.corrected(event.loss, before), moment)

    def void(self, event: ArmFeedback) -> None:
        kept, position, default = self.current(event.segment), self.arms.positions[event.arm], self.params.charged
        is_uncharged = self.take(position, slot=event.signed_slot)
        self.ledger.void_of(position)
        layer, moment = self.layer, self._moment(kept)
        if default is None or is_uncharged:
            moment = layer.void(moment, position)
        else:
            moment = layer.uncharge(moment, position, default)
        if kept is not None:
            kept = kept._replace(outstanding=max(kept.outstanding - 1, 0))
        self._keep(event.segment, kept, moment)

    def _moment(self, kept: KeptSegment | None) -> Moment[Any]:
        return Moment(self.state, self.shared, None if kept is None else kept.segment)

    def _keep(self, name: str, kept: KeptSegment | None, moment: Moment[Any]) -> None:
        self.state, self.shared = moment.part, moment.shared
        if kept is not None and moment.segment is not None:
            self.segments.put(name, kept._replace(segment=moment.segment))

    def probabilities_of(self, kept: KeptSegment) -> FloatArray:
        """Return the distribution of a segment that readers see, shape (live arms,); it is 0 for paused arms.

        The segment is as ``current`` returns it.
        """
        moment = Moment(self.state, self.shared, kept.segment)
        return np.asarray(self.layer.probabilities(moment, kept.segment, self.arms.unpaused, self.params.floor))
