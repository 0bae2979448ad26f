"""The control group of a session: acts that the learner knows nothing of, to compare it with, and the verdict.

An act is of this group with the chance of its share, which a hash of the seed and of its slot, or visitor, decides.
Its arm is drawn from probabilities that stay as they are. The learner's group is all the rest of the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import numpy as np

from ..learners.base import FloatArray, IntArray, SlotLearner, draw_all
from ..learners.maths import LARGEST_DELAYS, add_arms, over, remove_arms
from .ledger import ActTimes, ArmActions, ArmFeedback, ArmLedger, ControlParams, Expiry, Ledger, LossRange

ArmRun = Any
"""The session's run, whose control group this is: its file imports this one."""
Group = Literal["learner", "control"]
GROUPS: Sequence[Group] = ("learner", "control")
HASHES = 2**64
STRETCH = 1000
"""Slots looked at together for those of one group that follow each other."""
_SUMMED = ("slot", "feedbacks", "expired", "removed", "outstanding", "voided", "losses")


def is_in_control(params: ControlParams, seed: int, name: bytes) -> bool:
    """Return whether a slot, or a visitor, is in the control group: the higher the share, the more are.

    Parameters
    ----------
    params : of the control group
    seed : of the session, the key of the hash as 16 bytes, the highest first
    name : ``s`` and the slot in decimal, or ``v`` and the visitor's name
    """
    digest = blake2b(name, digest_size=8, key=seed.to_bytes(16)).digest()
    return int.from_bytes(digest) < params.share * HASHES


def together(learner: Ledger, control: Ledger) -> Ledger:
    """Return the counts of both groups; of what is no count, the learner's."""
    losses, off = learner.losses + control.losses, control.mean_loss - learner.mean_loss
    share = control.losses / losses if losses else 0.0
    are_alike = not control.squares and (not off or share in (0, 1))
    return replace(
        learner,
        **{name: getattr(learner, name) + getattr(control, name) for name in _SUMMED},
        total_delay=min(learner.total_delay + control.total_delay, LARGEST_DELAYS),
        mean_loss=control.mean_loss if share == 1 else learner.mean_loss + off * share,
        squares=learner.squares + control.squares + off * off * share * learner.losses,
        equal_losses=learner.equal_losses and are_alike,
        halted_at=control.halted_at,
    )


# -- How sure a mean is, and a difference of two, however often one looks.
#
# The intervals are asymptotic confidence sequences (Waudby-Smith et al. 2024, Annals of Statistics 52(6)). Rewards
# are normalised here: 0 for the worst, 1 for the best of the range.

ALPHA = 0.05
"""Share of sessions whose value is ever outside, about, as the number of acts grows."""
GROUP_ACTS, ARM_ACTS = 5000, 1000
"""Acts after which the interval of a difference, and of an arm, is narrowest, against that of a single look."""
FIRST_ACTS = 200
"""Acts of both groups from which on there is a verdict."""
_DOUBT = -2 * math.log(ALPHA) + math.log(1 - 2 * math.log(ALPHA))
"""r times the acts after which the interval is narrowest."""
_LARGEST = 1.797e308
"""What is not clipped otherwise stays finite."""
_NO_SIZE = 1e-12
"""Share of the range's ends below which a mean is 0 but for rounding."""


class Sums(NamedTuple):
    """Acts of a group, and sums of their normalised rewards and of the squares of these."""

    acts: int
    total: float
    squares: float

    @property
    def cautious(self) -> tuple[float, float]:
        """Mean and variance with four acts more, two of them worth 1."""
        mean = (self.total + 2) / (self.acts + 4)
        return mean, (self.squares + 2) / (self.acts + 4) - mean * mean


def group_sums(ledger: Ledger, losses: LossRange, expiry: Expiry | None, past: Ledger | None = None) -> Sums:
    """Return the sums of a group: an act that is not void counts as the default until an event replaces it.

    Without a default only settled decisions count.

    Parameters
    ----------
    ledger : counts of the group
    losses, expiry : of its session
    past : counts of those of its decisions that are left out
    """
    if past is not None:
        pairs = zip(group_sums(ledger, losses, expiry), group_sums(past, losses, expiry), strict=True)
        acts, total, squares = (max(now - before, 0) for now, before in pairs)
        return Sums(int(acts), total, squares)
    count, raw = ledger.losses, not losses.normalize
    loss = losses.share(ledger.mean_loss) if raw else ledger.mean_loss
    width = abs(losses.worst - losses.best) if raw else 1.0
    reward = 1 - min(max(loss, 0.0), 1.0)
    # No numbers of [0, 1] lie further off their mean.
    off = min(ledger.squares / width / width, count * reward * (1 - reward))
    total, squares = count * reward, off + count * reward * reward
    if expiry is None or expiry.loss is None:
        return Sums(count, total, squares)
    acts, default = ledger.slot - ledger.voided, 1 - (losses.share(expiry.loss) if raw else expiry.loss)
    return Sums(acts, total + (acts - count) * default, squares + (acts - count) * default * default)


def radius(variance: float, acts: float, tuned_to: float) -> float:
    """Return half the width of the interval of a mean, or of a difference of means.

    Parameters
    ----------
    variance : of one act; of a difference sum_g v_g n/n_g
    acts : n, those of all groups, at least 1
    tuned_to : acts at which the interval is to be narrow
    """
    r = _DOUBT / tuned_to
    grown = acts * r + 1
    return math.sqrt(variance * 2 * grown / (acts * acts * r) * math.log(math.sqrt(grown) / ALPHA))


def mean_interval(total: float, acts: float) -> tuple[float, float]:
    """Return the ends of the interval of an arm's mean, cut to [0, 1]; (0, 1) without acts.

    Parameters
    ----------
    total : sum of normalised rewards
    acts : how many there are
    """
    if acts <= 0:
        return 0.0, 1.0
    mean, cautious = total / acts, (total + 2) / (acts + 4)
    half = radius(cautious * (1 - cautious), acts, ARM_ACTS)
    return max(mean - half, 0.0), min(mean + half, 1.0)


def verdict(learner: Sums, control: Sums, losses: LossRange) -> dict[str, Any] | None:
    """Return the difference of two groups in the unit that is posted, positive if the learner's is better.

    It is None before ``FIRST_ACTS`` acts of both, or if one group has none.

    Parameters
    ----------
    learner, control : sums of the groups
    losses : the range of both, and what is posted
    """
    acts = learner.acts + control.acts
    if acts < FIRST_ACTS or not learner.acts or not control.acts:
        return None
    width, ends = abs(losses.worst - losses.best), max(abs(losses.worst), abs(losses.best))
    base = losses.at_share(1 - control.total / control.acts)
    variance = sum(max(group.cautious[1], 0.0) * acts / group.acts for group in (learner, control))
    difference = (learner.total / learner.acts - control.total / control.acts) * width
    half = radius(variance, acts, GROUP_ACTS) * width
    low, high = max(difference - half, -_LARGEST), min(difference + half, _LARGEST)
    return {
        "difference": difference,
        "low": low,
        "high": high,
        "lift": difference / abs(base) if abs(base) > _NO_SIZE * ends else None,
        "confidence": 1 - ALPHA,
        "is": "better" if low > 0 else "worse" if high < 0 else "unclear",
    }


# -- What a verdict leaves alone that has begun anew: decisions from before, of which some may still be open.


class Restart(NamedTuple):
    """The moment when a halted session went on, and what became since of the decisions from before."""

    slot: int
    """The session's latest then."""
    open: IntArray
    """How many of the outstanding decisions are from before, shape (2, live arms): the learner's, the control's."""
    past: tuple[Ledger, Ledger]
    """Of each group the counts of its decisions from before."""

    def copy(self) -> Restart:
        """Copy it, so that the copy may change alone."""
        return Restart(self.slot, self.open.copy(), (replace(self.past[0]), replace(self.past[1])))

    def judge(self, run: ArmRun) -> Callable[[ArmFeedback], bool]:
        """Return a function that tells of one event after another if it settles a decision from before."""
        left = self.open.copy()

        def is_from_before(event: ArmFeedback) -> bool:
            if (slot := _slot_of(run, event)) is not None and slot > self.slot:
                return False
            place = int(event.is_control), run.arms.positions[event.arm]
            left[place] -= 1
            return slot is not None or left.item(place) >= 0

        return is_from_before

    def apply(self, run: ArmRun, event: ArmFeedback, before: float | None, since: int) -> None:
        """Note an event that is applied: see ``ArmRun.apply``."""
        group, loss = int(event.is_control), None if event.is_void else event.loss
        if before is not None:
            if since != self.slot:
                self.past[group].correct(event.loss, before)
        elif (slot := _slot_of(run, event)) is None or slot <= self.slot:
            self.end(group, run.arms.positions[event.arm], 1, loss, is_void=event.is_void)

    def end(self, group: int, position: int, count: int, loss: float | None, *, is_void: bool = False) -> None:
        """Count decisions of an arm that end, the oldest ones, as far as they are from before; None: no loss."""
        if count := min(count, self.open.item(group, position)):
            self.open[group, position] -= count
            self.past[group].voided += is_void * count
            if loss is not None:
                self.past[group].learn(loss, count)


def _slot_of(run: ArmRun, event: ArmFeedback) -> int | None:
    """Return the slot whose decision an event settles, if it says so; None: the oldest of its arm."""
    by_slot = isinstance(run.learner, SlotLearner) and not event.is_control
    return event.slot if by_slot and event.signed_slot is None else event.signed_slot


# -- The group.


@dataclass(slots=True, eq=False)
class Control:
    """The control group at one moment. Arms are given by position among the live ones."""

    ledger: ArmLedger
    """Counts of the group."""
    act_times: ActTimes | None
    """When its outstanding decisions were taken, in buckets as wide as the learner's."""
    p: FloatArray | None = None
    """Its probabilities, shape (live arms,); None: all alike."""
    restart: Restart | None = None
    """None if the verdict has never begun anew."""
    is_written: bool = True
    """Whether the store holds probabilities and restart."""

    def copy(self) -> Control:
        """Copy the group, so that the copy may be stepped alone."""
        ledger = ArmLedger(*_values(self.ledger))
        ledger.by_arm = ledger.by_arm.copy()
        times, restart = self.act_times, self.restart
        times, restart = None if times is None else times.copy(), None if restart is None else restart.copy()
        return Control(ledger, times, self.p, restart, self.is_written)

    def on_written(self) -> None:
        """Note that the store holds all changes."""
        self.is_written = True
        if self.act_times is not None:
            self.act_times = self.act_times.written()

    def act(self, run: ArmRun, eligible: IntArray | None, count: int) -> ArmActions:
        """Open the next slots of a session, one or more, and draw their arms.

        Parameters
        ----------
        run : the session's, of which this is the control group
        eligible : positions of the arms that may be drawn, ascending, one or more; None: all but the paused ones
        count : slots
        """
        ledger, n_arms, first = self.ledger, self.ledger.by_arm.size, run.slot + 1
        eligible = run.arms.unpaused if eligible is None else eligible
        p = over(np.full(n_arms, 1 / n_arms) if self.p is None else self.p, eligible, uniform=True)
        delays = count * ledger.outstanding + count * (count - 1) // 2
        ledger.total_delay = min(ledger.total_delay + delays, LARGEST_DELAYS)
        ledger.slot += count
        ledger.outstanding += count
        run.ledger.last_act_at = run.ledger.time
        positions = draw_all(p, run.draws.uniforms(first, count)).tolist()
        np.add.at(ledger.by_arm, positions, 1)
        if self.act_times is not None:
            self.act_times.act(run.ledger.time, positions, n_arms)
            run.act_times.act(run.ledger.time, (), n_arms)  # By whose buckets decisions of both fall due.
        live, size = run.arms.live, n_arms if eligible is None else eligible.size
        arms = [live[position] for position in positions]
        return ArmActions(first, arms, p[positions].tolist(), size, group="control")

    def apply(self, run: ArmRun, event: ArmFeedback, before: float | None) -> None:
        """Settle or void the oldest decision of an event's arm, or update what was learned ``before``."""
        position = run.arms.positions[event.arm]
        if before is not None:
            self.ledger.correct(event.loss, before)
        elif event.is_void:
            self.ledger.void_of(position)
        else:
            self.ledger.settle_all((position,), (event.loss,), run.params.expiry)
            run.ledger.missed, run.ledger.silent = 0, False
        if before is None:
            run.ledger.last_event_at = run.ledger.time

    def expire(self, position: int, count: int, loss: float | None) -> None:
        """Give up outstanding decisions of an arm, at a loss or without one."""
        self.ledger.expire_of(position, count)
        if loss is not None:
            self.ledger.learn(loss, count)

    def remove(self, positions: IntArray, default: float | None) -> None:
        """Remove arms, and what is outstanding of them."""
        if (restart := self.restart) is not None:
            for group, position in np.ndindex(2, len(positions)):
                at = int(positions[position])
                restart.end(group, at, restart.open.item(group, at), default)
            self.restart = restart._replace(open=np.delete(restart.open, positions, axis=1))
        if (count := self.ledger.remove(positions)) and default is not None:
            self.ledger.learn(default, count)
        if self.act_times is not None:
            self.act_times.remove(positions)
        self.p = None if self.p is None else remove_arms(self.p, positions)
        self.is_written = False

    def add(self, count: int) -> None:
        """Add arms, which get 1/n each of n in all."""
        if (restart := self.restart) is not None:
            self.restart = restart._replace(open=np.pad(restart.open, ((0, 0), (0, count))))
        self.ledger.add_arms(count)
        self.p = None if self.p is None else add_arms(self.p, count)
        self.is_written = False

    def is_worth_halting(self, run: ArmRun, tolerance: float) -> bool:
        """Return whether the learner is worse by more than a tolerance, in the unit that is posted, for sure."""
        params, past = run.params, (None, None) if self.restart is None else self.restart.past
        sums = [
            group_sums(ledger, params.losses, params.expiry, before)
            for ledger, before in zip((run.ledger, self.ledger), past, strict=True)
        ]
        found = verdict(sums[0], sums[1], params.losses)
        return found is not None and found["high"] < -tolerance

    def go_on(self, run: ArmRun) -> None:
        """Let the learner act again; the verdict begins anew, and decisions from before are left out of it."""
        sides, names = (run.ledger, self.ledger), [field.name for field in fields(Ledger)]
        past = [Ledger(**{name: getattr(each, name) for name in names}) for each in sides]
        self.restart = Restart(run.slot, np.stack([each.by_arm for each in sides]), (past[0], past[1]))
        self.ledger.halted_at, self.is_written = 0.0, False


_values: Callable[[Any], tuple[Any, ...]] = attrgetter(*(field.name for field in fields(ArmLedger)))


def probabilities_of(params: ControlParams, n_arms: int, names: Sequence[str] | None) -> FloatArray | None:
    """Return probabilities as they were posted, by position; None if all arms are alike, or if they are of others.

    Parameters
    ----------
    params : of the control group
    n_arms, names : how many live arms there are, and their labels by position, if they have any
    """
    given = params.probabilities
    if isinstance(given, Mapping):
        given = [given[name] for name in names or ()] if given.keys() == set(names or ()) else None
    return None if given is None or len(given) != n_arms else np.array(given, dtype=np.float64)
