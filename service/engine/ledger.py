"""What a run counts, keeps and hands on: decisions, loss ranges, times of acts, uniforms, actions and events."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from ..learners.base import FloatArray, InitialArm, IntArray, Spec, Visit
from ..learners.features import Encoder
from ..learners.maths import LARGEST_VALUE

MOST_TELLING, MOST_BESIDE = 2**32 - 1, 255
"""Up to which ``telling`` and ``missed``, and ``above`` and ``below``, are counted: few bytes are kept of them."""
JUDGED_TOGETHER, LATE_SHARE = 1000, 0.05
"""Events that are judged together, and the share of them above which they come too late."""
LATE_WINDOWS = 10
"""A surplus event is late if a decision of its arm expired within so many windows."""
LEAST_EVENTS, LEAST_MISSED = 100, 30
"""Events after which there may be silence, and how many are due by the rate so far when it begins."""


@dataclass(slots=True)
class Ledger:
    """Counts of one session.

    At every moment: acts = settled by feedback + expired + removed + voided + outstanding.
    """

    slot: int = 0
    """Acts so far; every act opens a slot."""
    feedbacks: int = 0
    """Events settled for clients."""
    expired: int = 0
    """Decisions given up: their time was over, or there were too many open slots."""
    removed: int = 0
    """Decisions that were outstanding when their arm was removed."""
    total_delay: int = 0
    """Sum over closed slots of the decisions outstanding at the slot's end: the sum of delays so far, in slots.

    It stays at ``LARGEST_DELAYS`` once it is there.
    """
    outstanding: int = 0
    """Decisions that wait for feedback."""
    time: float = 0.0
    """The latest time seen, in Unix seconds; it never goes back."""
    voided: int = 0
    """Decisions taken back: they were never shown, and nothing was learned."""
    losses: int = 0
    """Losses learned: of events, and of decisions that expired at a default loss."""
    mean_loss: float = 0.0
    """Mean of ``losses`` losses on the learner's scale; exactly the loss where all are alike."""
    last_act_at: float = 0.0
    """Unix seconds of the last act, 0 before the first."""
    last_event_at: float = 0.0
    """Unix seconds of the last event that settled a decision, 0 before the first."""
    telling: int = 0
    """Events with another loss than the default of the time, or without a default; and acts known at the start."""
    above: int = 0
    """Events with a loss above the default of the time. No hint asks for more of these than are counted."""
    below: int = 0
    """Events with a loss below it."""
    squares: float = 0.0
    """Sum of the squares of what the losses lie off their mean, on the learner's scale; 0 where all are alike."""
    equal_losses: bool = True
    """Whether all losses were alike."""
    goals: tuple[int, ...] = ()
    """Events that named each goal, applied ones and updates, in the order of ``Params.goals``."""
    logged: int = 0
    """Entries of the decision log so far, trimmed ones included: the position of the last."""
    untold: bool = False
    """Whether the next entry has to say how events are read, as those before an import stayed elsewhere."""
    judged: int = 0
    """In a session over arms with expiry, its latest events, fewer than ``JUDGED_TOGETHER``, but for duplicates."""
    late: int = 0
    """Those of them that were surplus though a decision of their arm had expired lately."""
    late_events: bool = False
    """Whether these were more than ``LATE_SHARE`` of the events that were judged together last."""
    halted_at: float = 0.0
    """Of a control group: Unix seconds since which all acts are its own; 0 unless so."""
    missed: int = 0
    """Decisions that have expired since the last event was applied, in a session that can fall silent."""
    silent: bool = False
    """Whether nothing is learned of missing events, as too many are missing."""
    said: Sequence[int] = ()
    """In a session with features, of its latest acts: how many, how many left any feature out, and by feature how
    many left it out, and then, had a value outside of its range."""

    def judge(self, events: int, late: int) -> None:
        """Count events, and how many of them came too late."""
        self.judged, self.late = self.judged + events, self.late + late
        if self.judged >= JUDGED_TOGETHER:
            self.late_events = self.late > LATE_SHARE * self.judged
            self.judged = self.late = 0

    def miss(self, count: int, groups: Sequence[Ledger]) -> None:
        """Count decisions of both groups that expire now, and begin a silence if events are due by their rate."""
        events, acts = sum(each.feedbacks for each in groups), sum(each.slot - each.voided for each in groups)
        self.missed = min(self.missed + count, MOST_TELLING)
        self.silent |= events >= LEAST_EVENTS and self.missed * events >= LEAST_MISSED * acts

    def settle(self) -> None:
        """Count the feedback of one outstanding decision."""
        self.outstanding -= 1
        self.feedbacks += 1
        self.last_event_at = self.time

    def void(self) -> None:
        """Count one outstanding decision as taken back."""
        self.outstanding -= 1
        self.voided += 1
        self.last_event_at = self.time

    def learn(self, loss: float, count: int = 1) -> None:
        """Count one or more losses that are all alike, on the learner's scale."""
        self.equal_losses = self.equal_losses and (not self.losses or loss == self.mean_loss)
        self.losses, off = self.losses + count, loss - self.mean_loss
        # A mean moved like this stays finite, and is exactly the loss while all are alike.
        self.mean_loss += off * (count / self.losses)
        self.squares += off * (loss - self.mean_loss) * count

    def correct(self, loss: float, before: float) -> None:
        """Put a loss in the place of one before that was learned; both are on the learner's scale."""
        alone, mean, step = self.losses == 1, self.mean_loss, loss - before
        self.equal_losses = self.equal_losses and self.losses <= 1
        # Rounding may leave less than the best loss, which is 0, and squares below 0.
        self.mean_loss = loss if alone else max(mean + step / max(self.losses, 1), 0.0)
        self.squares = 0.0 if alone else max(self.squares + step * (loss - self.mean_loss + before - mean), 0.0)

    def expire(self, count: int) -> None:
        """Count ``count`` outstanding decisions as expired."""
        self.outstanding -= count
        self.expired += count


@dataclass(slots=True)
class ArmLedger(Ledger):
    """Counts of a session over arms; the equation of ``Ledger`` holds for every arm, too.

    Arms are given by position among the live ones.
    """

    by_arm: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Outstanding decisions of each live arm, shape (arms,)."""

    @classmethod
    def of(cls, n_arms: int, known: int = 0) -> ArmLedger:
        """Start at 0, with ``n_arms`` arms, and ``known`` acts."""
        return cls(telling=min(known, MOST_TELLING), by_arm=np.zeros(n_arms, dtype=np.int64))

    def settle_all(self, arms: Sequence[int], losses: Sequence[float], expiry: Expiry | None) -> None:
        """Count events of outstanding decisions, in order: their arms, and losses on the learner's scale.

        That is ``settle`` and ``learn`` of one after the other, in half the time.
        """
        self.outstanding -= len(arms)
        self.feedbacks += len(arms)
        self.last_event_at, self.missed, self.silent = self.time, 0, False
        counts = self.by_arm.data
        for arm in arms:
            counts[arm] -= 1
        mean, squares, equal = self.mean_loss, self.squares, self.equal_losses
        default, above, below = None if expiry is None else expiry.loss, 0, 0
        for count, loss in enumerate(losses, self.losses + 1):
            equal = equal and (count == 1 or loss == mean)
            off = loss - mean
            mean += off * (1 / count)
            squares += off * (loss - mean)
            if default is not None and loss != default:
                above, below = above + (loss > default), below + (loss < default)
        self.telling = min(self.telling + (len(losses) if default is None else above + below), MOST_TELLING)
        self.above, self.below = min(self.above + above, MOST_BESIDE), min(self.below + below, MOST_BESIDE)
        self.losses, self.equal_losses = self.losses + len(losses), equal
        self.mean_loss, self.squares = mean, squares

    def void_of(self, arm: int) -> None:
        """Count one outstanding decision of an arm as taken back."""
        self.void()
        self.by_arm[arm] -= 1

    def expire_of(self, arm: int, count: int = 1) -> None:
        """Count ``count`` outstanding decisions of an arm as expired; there are as many."""
        self.expire(count)
        self.by_arm[arm] -= count

    def remove(self, arms: IntArray) -> int:
        """Count all outstanding decisions of these arms as removed, and count no more for them; return how many."""
        count = int(self.by_arm[arms].sum())
        self.by_arm = np.delete(self.by_arm, arms)
        self.outstanding -= count
        self.removed += count
        return count

    def add_arms(self, count: int) -> None:
        """Count for ``count`` more arms."""
        self.by_arm = np.concatenate([self.by_arm, np.zeros(count, dtype=np.int64)])


class LossRange(NamedTuple):
    """[best, worst], two different finite numbers in either order.

    With ``normalize`` the learner gets (loss - best)/(worst - best), in [0, 1]; without it the posted loss, which
    must then be >= 0, because Lemma 2 of the paper fails for negative losses.
    """

    best: float = 0.0
    worst: float = 1.0
    normalize: bool = True
    word: Literal["loss", "reward"] = "loss"
    """What clients post: rewards have their worst first in ``reward_range``, and are learned alike."""

    def share(self, loss: float) -> float:
        """Return where a loss of the range lies in it: 0 for the best, 1 for the worst."""
        return (loss - self.best) / (self.worst - self.best)

    def shares(self, losses: Sequence[float]) -> Sequence[float]:
        """Return ``share`` of each of these losses."""
        best, width = self.best, self.worst - self.best
        return [(loss - best) / width for loss in losses]

    def posted(self, learned: float) -> float:
        """Return what clients post for a loss on the learner's scale."""
        return self.best + learned * (self.worst - self.best) if self.normalize else learned

    def at_share(self, share: float) -> float:
        """Return the loss that lies at a share of the range: what ``share`` was given."""
        return self.best + share * (self.worst - self.best)

    def learned(self, loss: float) -> float:
        """Return the loss on the learner's scale, at most ``LARGEST_VALUE``.

        Raises
        ------
        ValueError
            outside the range, or negative where losses are taken raw.
        """
        low, high = min(self.best, self.worst), max(self.best, self.worst)
        if not low <= loss <= high:
            raise ValueError(f"{self.word} must lie in [{low!r}, {high!r}]")
        if not self.normalize:
            if loss < 0:
                raise ValueError("loss must be >= 0 where losses are not normalised")
            return min(loss, LARGEST_VALUE)
        return self.share(loss)

    def all_learned(self, losses: Sequence[float]) -> Sequence[float] | None:
        """Return ``learned`` of each of these losses, one or more; None where it refuses one."""
        low, high = min(losses), max(losses)
        if low < min(self.best, self.worst) or high > max(self.best, self.worst):
            return None
        if self.normalize:
            return self.shares(losses)
        return None if low < 0 else [min(loss, LARGEST_VALUE) for loss in losses]


class Expiry(NamedTuple):
    """When an outstanding decision expires, and the loss it is then learned with."""

    after_seconds: float
    loss: float | None
    """On the learner's scale; None: nothing is learned."""
    provisional: bool = False
    """Whether it is learned at the act already, and corrected by an event."""


class ControlParams(NamedTuple):
    """Which acts are of the control group, and what it draws from."""

    share: float
    probabilities: Sequence[float] | Mapping[str, float] | None = None
    """As they were posted: by label, or in the order of the arms; None: all alike."""


class Params(NamedTuple):
    """What a session is created with and never changes."""

    learner: Spec
    seed: int
    losses: LossRange = LossRange()
    expiry: Expiry | None = None
    floor: float = 0.0
    """Share of the draws that is uniform over the eligible arms."""
    initial: Sequence[InitialArm] = ()
    """What the learner begins with, on its scale of losses."""
    max_segments: int = 0
    """Segments that are kept at most; 0: acts and events name none."""
    remember_seconds: float = 0
    """For which ids of events are kept at least; 0: for the dedupe window of the service."""
    updates: int = 0
    """Seconds within which an applied event may come again with a better loss; 0: it counts as it was applied."""
    goals: Mapping[str, float] = {}
    """What events may name in place of a loss, and the loss or reward of each as it would be posted."""
    control: ControlParams | None = None
    """None unless some acts are of a control group."""
    may_fall_silent: bool = False
    """Whether nothing is learned of missing events while it seems that none can come."""
    encoder: Encoder | None = None
    """Makes columns of features; None in a session without."""

    @property
    def charged(self) -> float | None:
        """The loss that every act is charged with, on the learner's scale; None where none is."""
        return self.expiry.loss if self.expiry is not None and self.expiry.provisional else None


# -- When outstanding decisions were taken: counts per arm in buckets of time, not a record per act.
#
# Events and expiry both settle the oldest outstanding decision of an arm. So the counts of a bucket never change
# once its time has passed: the decisions of an arm that are still outstanding from up to a bucket are the arm's
# outstanding ones less its acts in all later buckets.

PER_WINDOW = 64
"""Buckets in the time a decision may stay outstanding, which expires at most 1/64 of that time too late."""
EXPIRED, UNCHARGED = -1, -2
"""In place of the number of a bucket: when decisions expired last; less the index of an arm, its uncharged ones."""


class Stretch(NamedTuple):
    """Outstanding decisions of an arm that follow each other, all of them made in silence, or none."""

    last: int
    """The slot up to which they were made, from that of the stretch before on."""
    size: int
    is_uncharged: int
    """Whether they were made in silence: 1 or 0."""


@dataclass(slots=True)
class ActTimes:
    """Acts of each live arm by bucket of time; a run over points counts all its acts as those of one arm."""

    width: float
    """Seconds of one bucket."""
    acts: dict[int, IntArray] = field(default_factory=dict)
    """Bucket number to acts, shape (1 + arms,), in ascending order; arrays are replaced, never changed.

    First come the acts of arms removed since, then those of live arms by position; arms added since have no place.
    """
    changed: set[int] = field(default_factory=set)
    """Numbers of the buckets that are to be written to the store, and of what else is."""
    expired: Mapping[int, int] = field(default_factory=dict)
    """Index of an arm to the window since 1970 in which a decision of it expired last, if it is one of the latest;
    it is replaced, never changed."""
    silent: dict[int, tuple[Stretch, ...]] = field(default_factory=dict)
    """Index of an arm that has uncharged decisions to its outstanding ones, the oldest first, up to the last that
    was made in silence."""

    @classmethod
    def of_session(cls, expiry: Expiry | None) -> ActTimes | None:
        """Start with no acts; return None for a session without expiry, which keeps no times."""
        return None if expiry is None else cls(expiry.after_seconds / PER_WINDOW)

    @property
    def numbers(self) -> set[int]:
        """Of the buckets, and of arms in ``silent``, that are kept."""
        return {*self.acts, *(UNCHARGED - arm for arm in self.silent)}

    def copy(self) -> ActTimes:
        """Copy the buckets, so that the copy may change alone."""
        return ActTimes(self.width, self.acts.copy(), self.changed.copy(), self.expired, self.silent.copy())

    def written(self) -> ActTimes:
        """Return the same buckets as they are once the store holds them."""
        return ActTimes(self.width, self.acts, expired=self.expired, silent=self.silent)

    def expire(self, time: float, arms: Iterable[int]) -> None:
        """Note that decisions of these arms, by index, expire at a time in Unix seconds."""
        window, noted = int(time // (self.width * PER_WINDOW)), self.expired
        if any(noted.get(arm) != window for arm in arms):
            kept = {arm: each for arm, each in noted.items() if window - each <= LATE_WINDOWS}
            self.expired = kept | dict.fromkeys(arms, window)
            self.changed.add(EXPIRED)

    def late(self, time: float, arms: Iterable[int]) -> int:
        """Return of how many of these arms, by index, a decision expired in ``LATE_WINDOWS`` before a time."""
        oldest = max(0, int(time // (self.width * PER_WINDOW)) - LATE_WINDOWS)
        return sum(self.expired.get(arm, -1) >= oldest for arm in arms)

    def act(self, time: float, arms: Sequence[int], n_arms: int) -> None:
        """Count acts of ``n_arms`` arms, by position (0 over points), at a time in Unix seconds."""
        bucket = int(time // self.width)
        acts = np.zeros(n_arms + 1, dtype=np.int64) if bucket not in self.acts else self.acts[bucket].copy()
        acts.resize(n_arms + 1, refcheck=False)
        for arm in arms:
            acts[arm + 1] += 1
        self.acts[bucket] = acts
        self.changed.add(bucket)

    def acted_at(self, arm: int | None, outstanding: int) -> float | None:
        """Return the Unix time, to half a bucket, of the act of an arm's oldest outstanding decision.

        None where it is older than all buckets.

        Parameters
        ----------
        arm : its position, 0 over points; None: all arms, of which each act is the oldest of it and of later ones
        outstanding : decisions without feedback, one or more
        """
        for bucket, acts in reversed(self.acts.items()):
            outstanding -= int(acts.sum() if arm is None else acts[arm + 1] if arm + 1 < acts.size else 0)
            if outstanding <= 0:
                return (bucket + 0.5) * self.width
        return None

    def newest(self) -> int | None:
        """Return the number of the latest bucket."""
        return next(reversed(self.acts), None)

    def due_at(self) -> float | None:
        """Return the Unix time at which all decisions of the oldest bucket are due; None without acts."""
        oldest = next(iter(self.acts), None)
        return None if oldest is None else (oldest + 1 + PER_WINDOW) * self.width

    def drop(self, bucket: int) -> None:
        """Forget a bucket, if it is there."""
        if self.acts.pop(bucket, None) is not None:
            self.changed.add(bucket)

    def remove(self, arms: IntArray, indexes: Sequence[int] = ()) -> None:
        """Forget which of the acts were of these arms, by position, which are no longer there; records stay.

        What is kept of them by index goes.
        """
        for arm in self.silent.keys() & indexes:
            self.keep(arm, ())
        for bucket, acts in self.acts.items():
            gone = arms[arms + 1 < acts.size] + 1
            self.acts[bucket] = left = np.delete(acts, gone)
            left[0] += acts[gone].sum()

    def total(self) -> int:
        """Return the number of acts in all buckets."""
        return sum(int(acts.sum()) for acts in self.acts.values())

    def before(self, outstanding: IntArray) -> IntArray:
        """Return how many of each arm's ``outstanding`` decisions, shape (arms,), are older than all buckets."""
        left = outstanding.copy()
        for acts in self.acts.values():
            left[: acts.size - 1] -= acts[1:]
        return np.maximum(left, 0)

    # Silence: no event comes where many are due, so that their source is broken and not the world. Until one comes
    # no decision is charged with the default, and what expires changes no learner. A decision made in silence stays
    # uncharged: only an event teaches something of it.

    def leave_uncharged(self, arm: int, slot: int, outstanding: int) -> None:
        """Note a decision of an arm, by index, made in silence when so many of the arm were outstanding."""
        of_arm, size = self.silent.get(arm, ()), 1
        if charged := outstanding - sum(each.size for each in of_arm):
            of_arm += (Stretch(slot - 1, charged, 0),)
        if of_arm and of_arm[-1].is_uncharged:
            of_arm, size = of_arm[:-1], of_arm[-1].size + 1
        self.keep(arm, (*of_arm, Stretch(slot, size, 1)))

    def take(self, arm: int, count: int, slot: int | None, outstanding: int) -> int:
        """Take the ``count`` oldest decisions of an arm, by index, or that of a slot.

        If an event that named no slot has settled that one, it is the next, or else the oldest.

        Returns
        -------
        how many of those taken from the ``outstanding`` ones were made in silence
        """
        if (of_arm := self.silent.get(arm)) is None:
            return 0
        if slot is not None and slot > of_arm[-1].last and sum(each.size for each in of_arm) == outstanding:
            slot = None
        left, taken = [], 0
        for each in of_arm:
            some = min(each.size, count) if slot is None or slot <= each.last else 0
            count, taken = count - some, taken + some * each.is_uncharged
            if some < each.size:
                left.append(each._replace(size=each.size - some))
        self.keep(arm, left)
        return taken

    def keep(self, arm: int, of_arm: Sequence[Stretch]) -> None:
        """Keep an arm's outstanding decisions as they are now; if all were charged, nothing is kept of them."""
        self.changed.add(UNCHARGED - arm)
        self.silent[arm] = tuple(of_arm)
        if not any(each.is_uncharged for each in of_arm):
            del self.silent[arm]

    def fits(self, arm: int, run: Any) -> bool:
        """Return whether what is kept of an arm in ``silent`` can be of a run, an ``ArmRun``."""
        (lasts, sizes, kinds), positions = zip(*self.silent[arm], strict=True), run.arms.positions
        are_ordered = [*lasts, run.slot] == sorted([*lasts, run.slot]) and min(sizes) > 0
        is_live = arm in positions and sum(sizes) <= run.ledger.by_arm[positions[arm]]
        return are_ordered and is_live and {1} <= set(kinds) <= {0, 1}


class ArmFeedback(NamedTuple):
    """One loss of an arm, by index, on the learner's scale (``LossRange.learned``); ``slot`` where it is named."""

    arm: int
    loss: float
    slot: int | None = None
    is_void: bool = False
    """Whether the decision was never shown: there is no loss, and ``loss`` means nothing."""
    segment: str = ""
    """Of the decision, in sessions with segments."""
    goal: int | None = None
    """Place of the goal that it names among ``Params.goals``."""
    is_late: bool = False
    """Whether the window of its decision, which is known, has ended."""
    is_control: bool = False
    """Whether its decision is one of the control group."""
    signed_slot: int | None = None
    """That of its decision, if a token says so."""
    visit: Visit | None = None
    """What it says of the visitor, in sessions with features."""


class PointFeedback(NamedTuple):
    """One bundle of losses, shape (dim+1,), or one gradient, shape (dim,)."""

    values: FloatArray
    is_void: bool = False
    """Whether the decision was never shown: there are no values."""


class ArmAction(NamedTuple):
    """A drawn arm, by index, and its probability in the distribution it was drawn from."""

    slot: int
    arm: int
    probability: float
    eligible: int = 0
    """Number of arms that could be drawn; 0 where that is not known."""
    visit: Visit | None = None
    """Of the visitor, in sessions with features."""
    dropped: int | None = None
    """Arm of the open slot that was dropped before; None if there was room."""


class ArmActions(NamedTuple):
    """Arms drawn in slots that follow each other: one entry for each."""

    slot: int
    """The first."""
    arms: Sequence[int]
    """By index."""
    probabilities: Sequence[float]
    eligible: int
    """Number of arms that could be drawn in each of the slots."""
    visit: Visit | None = None
    """Of the visitor of these slots, in sessions with features."""
    group: Literal["learner", "control"] = "learner"


class PointAction(NamedTuple):
    """A point, shape (dim,), and its query points, shape (dim, dim), or None where only x is played."""

    slot: int
    x: FloatArray
    query_points: FloatArray | None


Action = ArmAction | PointAction


# -- The uniforms of a session: u_t is a function of the seed and the slot alone.
#
# A worker keeps the draws of all sessions in its cache, most of them idle: a block is an array of a quarter of a
# kB, where a list of 256 floats took 8 kB.

BLOCK = 32
"""Doubles drawn at a time: drawing one takes nearly as long."""
_PER_COUNTER = 4
"""Philox gives four 64-bit words, hence four doubles, for each value of its counter."""
_WORD = 2**64
_NONE = np.empty(0)
_NO_WORDS = np.zeros(_PER_COUNTER, dtype=np.uint64)
_UNUSED: Any = {"bit_generator": "Philox", "buffer": _NO_WORDS, "buffer_pos": _PER_COUNTER}
_UNUSED |= {"has_uint32": 0, "uinteger": 0}
"""What the state of a generator says besides, before anything is drawn."""
_PHILOX = np.random.Philox(0)
_GENERATOR = np.random.Generator(_PHILOX)
_LOCK = threading.Lock()
"""Held while the generator is set and drawn from: to make one takes seven times as long as to set its state."""


class Draws:
    """The t-th double of ``Generator(Philox(key=seed))``, t from 1, by jumping to its block.

    Parameters
    ----------
    seed : key of the stream, in [0, 2**128)
    stream : 0 for u_t, 1 for v_t; the highest word of the counter
    """

    __slots__ = ("_block", "_doubles", "_seed", "_stream")

    def __init__(self, seed: int, stream: int = 0) -> None:
        self._seed = seed
        self._stream = stream
        self._block = -1
        self._doubles = _NONE

    def uniform(self, t: int) -> float:
        """Return u_t (or v_t) in [0, 1) of slot ``t``, from 1."""
        if (block := (t - 1) // BLOCK) != self._block:
            self._doubles, self._block = self._drawn(block), block
        return self._doubles.item((t - 1) % BLOCK)

    def uniforms(self, t: int, count: int) -> FloatArray:
        """Return u_t (or v_t) of ``count`` slots from ``t`` on, shape (count,).

        It may be a view of the block that is kept, so it must not be changed.
        """
        block, place = divmod(t - 1, BLOCK)
        last = (t + count - 2) // BLOCK
        if block == last == self._block:
            return self._doubles[place : place + count]
        doubles = self._drawn(block, last - block + 1)
        self._doubles, self._block = doubles[-BLOCK:].copy(), last
        return doubles[place : place + count]

    def _drawn(self, block: int, blocks: int = 1) -> FloatArray:
        # The state of ``Philox(key=seed, counter=[0, 0, 0, stream])`` after ``advance``.
        high, low = divmod(self._seed, _WORD)
        words = {"counter": (block * (BLOCK // _PER_COUNTER), 0, 0, self._stream), "key": (low, high)}
        state: Any = {**_UNUSED, "state": {name: np.array(each, dtype=np.uint64) for name, each in words.items()}}
        with _LOCK:
            _PHILOX.state = state
            return _GENERATOR.random(blocks * BLOCK)
