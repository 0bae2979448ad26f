"""The multiscale Tsallis learner with features: beside its seven experts, which see none, four that do.

These four weigh arms by the gaps between the losses that two ridge regressions expect for the visitor
(inverse-gap weighting: Foster and Rakhlin 2020), each with two rates. Regressions know their past as sums alone, so
a provisional default that is corrected by unlabelled, late events teaches them what labelled ones would, if events
bring the columns of their act. One mixture chooses among all eleven, so that useless features cost little. No bound
is proved.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from . import multiscale_state as rule
from .base import FloatArray, InitialArm, IntArray, Rows, Slot, Visit
from .features import UNIT, int16_of
from .maths import over, spread, with_floor
from .multiscale_state import EXPERTS, MEANS, State
from .multiscale_tsallis import COSTS, POOL_CAP, PROVISIONAL_POOL_CAP, MultiscaleTsallis, over_arms
from .tsallis import mixture

# -- Two ridge regressions of losses on features for each arm: one that remembers everything, and one that forgets.
#
# A regression knows its past as two sums of plays of its arm: G of x x', and c of x times the loss. What comes
# while a slot is open is fresh: it is merged when the next one opens, or when a decision of the arm is taken back.
# Then the arm is solved for, afresh from its sums: no inverse is updated, so nothing drifts. An arm's sums are one
# row for each regression: the lower triangle of G, then c. What is fresh of it is one array: plays, what they and
# other losses add to both rows, and what is added to c of each regression before that.

RIDGE, MEMORY = 10.0, 400.0
"""``MEMORY`` is in plays of an arm: after so many, the second regression keeps about a third of what it knew."""
KEEP = np.array([[1.0], [1 - 1 / MEMORY]])
MOST_LEVERAGE = 0.9


class Layout(NamedTuple):
    """Places of numbers in an arm's row, for some number of columns d."""

    size: int
    """d (d + 3)/2."""
    factors: tuple[IntArray, IntArray]
    """Of which two of x and, last, the loss each number is the product."""
    square: IntArray
    """Of G and, as the last column, c: shape (d, d + 1)."""
    ridge: FloatArray


@lru_cache(maxsize=64)
def layout(d: int) -> Layout:
    """Return the places of numbers for ``d`` columns."""
    low, size = np.tril_indices(d), d * (d + 1) // 2
    square = np.empty((d, d + 1), dtype=np.int64)
    square[low] = square[low[::-1]] = np.arange(size)
    square[:, d] = np.arange(size, size + d)
    factors = np.append(low[0], np.arange(d)), np.append(low[1], np.full(d, d))
    return Layout(size + d, factors, square, RIDGE * np.eye(d))


# What an operation is: END fills a row up; UNKNOWN is added where no columns follow, which are the arm's mean then.
END, OPEN, PLAY, MOVE, VOID, UNKNOWN = 0, 1, 2, 3, 4, 8
MOST_OPERATIONS = 4_096
"""In a log, after which it begins anew with a snapshot; and if it is as long as that."""
ROW_BYTES = 2_048
"""Bytes of operations from which on they are a row of their own. Those behind the last row stand in the state."""
_HEAD, _STATE = struct.Struct("<BId"), struct.Struct("<qddIII8s")
"""Of an operation: what it is, the arm's position, a loss. A state: s, v, floor; rows, operations, bytes, mark."""
MOST_ROWS, LARGEST, LARGEST_COUNT, LAST_SLOT = 2**20, 1e12, 2.0**53, 2**62
"""No loss or sum of losses of an arm is so far from 0, and no arm has so many plays."""


class Log(NamedTuple):
    """Operations since a snapshot, which replay them to the bit.

    They are bytes, one after another: ``_HEAD``, and columns as int16 but for the first, which is 1.
    """

    rows: Rows = ()
    """The snapshot, one number if that is of no plays, and rows of operations; none if ``tail`` is all."""
    tail: bytes = b""
    """The operations behind them."""
    size: int = 0
    """All operations."""
    mark: bytes = bytes(8)
    """A digest of the rows, one after another: those of another state, or session, have another one."""

    def with_row(self, row: FloatArray) -> Log:
        """Return the log with one row more, and nothing behind it."""
        digest = blake2b(self.mark + row.tobytes(), digest_size=len(self.mark)).digest()
        return Log((*self.rows, row), b"", self.size, digest if row.size > 1 else self.mark)


_NOTHING = np.zeros(0)


class Regressions(NamedTuple):
    """The regressions of one session's arms, by position; replaced and never mutated."""

    d: int
    arms: Sequence[FloatArray]
    """Of each the rows of both regressions, shape (2, d (d + 3)/2); none of a state that is still to be read."""
    solved: FloatArray
    """What solves them, shape (arms, 4, d): g and e of the first regression, then of the second."""
    fresh: Mapping[int, FloatArray] = {}
    log: Log = Log()
    slots: int = 0
    """s of the last open."""
    spread: float = 0.0
    """v of the last open."""
    floor: float = 0.0
    """The floor of the last open."""
    advice: FloatArray | None = None
    """What each expert advised in the open slot, shape (11, arms)."""
    before: Regressions | None = None
    """Of a state that is still to be read: those at hand, from which it may be possible to go on."""

    @classmethod
    def start(cls, n_arms: int, d: int, initial: Sequence[InitialArm] = ()) -> Regressions:
        """Return those of a session before its first slot."""
        arms, place = [np.zeros((2, layout(d).size))] * n_arms, layout(d).size - d
        for arm in initial:
            arms[arm.position] = row = np.zeros((2, layout(d).size))
            row[:, 0] = arm.acts, min(arm.acts, MEMORY)
            row[:, place] = row[:, 0] * arm.mean
        return cls(d, arms, np.zeros((n_arms, 4, d))).solved_again([arm.position for arm in initial])

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about, but for rows."""
        return self.solved.nbytes + len(self.arms) * 16 * layout(self.d).size

    def predictions(self, x: FloatArray, mean: float) -> FloatArray:
        """Return the loss that each regression expects of each arm, shape (visits, 2, arms), around the mean loss.

        ``x`` are columns, shape (visits, d).
        """
        of_x = np.dot(x, self.solved.reshape(-1, self.d).T).reshape(len(x), -1, 4).swapaxes(1, 2)
        found: FloatArray = of_x[:, 0::2] - mean * of_x[:, 1::2]
        found += mean
        return found

    def known_columns(self, position: int, x: FloatArray | None) -> FloatArray:
        """Return columns, or if they are unknown the mean of those with which the arm was played, shape (d,)."""
        if x is not None:
            return x
        first: FloatArray = self.arms[position][0, layout(self.d).square[:, 0]]
        return cast("FloatArray", first / first[0]) if first[0] > 0 else np.eye(self.d)[0]

    def leverages(self, positions: Sequence[int], x: FloatArray) -> FloatArray:
        """Return x'(G + RIDGE I)^-1 x of both regressions, .9 at most: the weight of one play, (visits, 2)."""
        ridged = self.squares(positions)[..., : self.d] + layout(self.d).ridge
        found = np.linalg.solve(ridged, np.broadcast_to(x[:, None, :, None], (*ridged.shape[:3], 1)))[..., 0]
        return cast("FloatArray", np.minimum((found * x[:, None]).sum(axis=-1), MOST_LEVERAGE))

    def squares(self, positions: Sequence[int]) -> FloatArray:
        """Return G and c of both regressions of some arms, shape (positions, 2, d, d + 1)."""
        rows: FloatArray = np.array([self.arms[position] for position in positions])
        return rows.take(layout(self.d).square, axis=-1)

    def merged(self, positions: Sequence[int]) -> Regressions:
        """Return them with what is new of some fresh arms in their sums, and those solved for."""
        arms, fresh = list(self.arms), dict(self.fresh)
        for position in positions:
            arms[position] = _merged(arms[position], fresh.pop(position))
        return Regressions(self.d, arms, self.solved, fresh, *self[4:]).solved_again(positions)

    def solved_again(self, positions: Sequence[int]) -> Regressions:
        """Return them with some arms solved for by their sums."""
        if not positions:
            return self
        solved, squares = self.solved.copy(), self.squares(positions)
        found = np.linalg.solve(squares[..., : self.d] + layout(self.d).ridge, squares[..., :: -self.d])
        for position, each in zip(positions, found.swapaxes(-1, -2), strict=True):
            solved[position].reshape(2, 2, -1)[...] = each
        return Regressions(self.d, self.arms, solved, *self[3:])

    def opened(self, most: int | None = None) -> Regressions:
        """Merge all fresh arms, as a slot opens; or right before that, ``most`` of them."""
        return self.merged(list(self.fresh)[:most]).noted(bytes([OPEN])) if self.fresh else self

    def told(self, position: int, x: FloatArray | None, loss: float, plays: int) -> Regressions:
        """Return them after a play of an arm with its loss, or after its loss changed.

        Parameters
        ----------
        position : of the arm
        x : columns of the decision; None: unknown
        loss : on the learner's scale; with ``plays`` 0 what it is more than the one learned before
        plays : 1, or 0
        """
        head = _HEAD.pack((PLAY if plays else MOVE) | (UNKNOWN if x is None else 0), position, loss)
        data = head if x is None else head + int16_of(x).tobytes()
        new = _told(self.fresh.get(position), self.known_columns(position, x), loss, plays)
        return self.noted(data, {**self.fresh, position: new})

    def taken_back(self, position: int, x: FloatArray | None, default: float, mean: float) -> Regressions:
        """Return them after a play charged with the default loss, as if it had had the loss that they expect.

        That is without this play. G keeps the play: taking x x' out could break G for an x that never was.
        """
        known = self.known_columns(position, x)[None]
        kept = self.merged([position]) if position in self.fresh else self
        h, y = kept.leverages([position], known)[0], kept.predictions(known, mean)[0, :, position]
        gone = np.multiply.outer((y - h * default) / (1 - h) - default, known[0]).ravel()
        fresh = {**kept.fresh, position: _taken_back(gone)}
        return kept._replace(fresh=fresh).noted(_HEAD.pack(VOID, position, default) + gone.tobytes())

    def with_arms(self, kept: Sequence[int], count: int) -> Regressions:
        """Return them with the arms at some positions, which ascend, and new ones behind; their log begins anew."""
        arms = [*(self.arms[place] for place in kept), *[np.zeros((2, layout(self.d).size))] * count]
        fresh = {place: self.fresh[before] for place, before in enumerate(kept) if before in self.fresh}
        solved = np.concatenate((self.solved[list(kept)], np.zeros((count, 4, self.d))))
        changed = Regressions(self.d, arms, solved, fresh, Log(), *self[5:8])
        return changed._replace(log=Log().with_row(changed.snapshot()))

    # The log of what changed them.

    def noted(self, operation: bytes, fresh: Mapping[int, FloatArray] | None = None) -> Regressions:
        """Return them with an operation in their log, whose effect they have already, or have with ``fresh``."""
        rows, tail, size, mark = self.log
        log, fresh = Log(rows, tail + operation, size + 1, mark), self.fresh if fresh is None else fresh
        # `_replace` would take twice the time.
        changed = Regressions(self.d, self.arms, self.solved, fresh, log, *self[5:])
        if len(log.tail) < ROW_BYTES:
            return changed
        row = np.frombuffer(log.tail + bytes(-len(log.tail) % 8), "<f8")
        log = Log(rows or (np.zeros(1),), b"", size + 1, mark).with_row(row)
        longest = 16 * len(self.arms) * layout(self.d).size
        if log.size >= MOST_OPERATIONS or ROW_BYTES * (len(log.rows) - 1) >= longest:
            log = Log().with_row(changed.snapshot())
        return changed._replace(log=log)

    def snapshot(self) -> FloatArray:
        """Return one array: how many arms are fresh, all sums, and positions of fresh arms and what is fresh."""
        n, size = len(self.fresh), layout(self.d).size
        end, of_fresh = 1 + 2 * len(self.arms) * size, 2 + size + 2 * self.d
        row = np.empty(end + n * of_fresh)
        row[0], fresh = n, row[end:].reshape(n, of_fresh)
        np.concatenate(self.arms, out=row[1:end].reshape(-1, size))
        fresh[:, 0] = list(self.fresh)
        fresh[:, 1:] = np.concatenate([_NOTHING, *self.fresh.values()]).reshape(n, of_fresh - 1)
        return row

    def encoded(self) -> bytes:
        """Return what a state has of them: what is not in rows, or follows from these."""
        log = self.log
        return _STATE.pack(*self[5:8], len(log.rows), log.size, len(log.tail), log.mark) + log.tail

    def read(self, data: bytes, n_arms: int) -> Regressions:
        """Read what ``encoded`` returned, to be ``replayed``; ValueError, struct.error for what is none."""
        slots, v, floor, n_rows, size, n_bytes, mark = _STATE.unpack_from(data)
        is_whole = len(data) == _STATE.size + n_bytes and n_rows <= MOST_ROWS
        if not (is_whole and 0 <= slots <= LAST_SLOT and 0 <= v < math.inf and 0 <= floor < 1):
            raise ValueError("not the regressions of a session")
        log = Log((_NOTHING,) * n_rows, data[_STATE.size :], size, mark)
        before = self if self.arms else self.before
        return Regressions(self.d, (), np.zeros((n_arms, 4, self.d)), {}, log, slots, v, floor, None, before)

    def replayed(self, rows: Rows, start: Regressions) -> Regressions:
        """Return the regressions that rows, and the operations behind them, lead to.

        Parameters
        ----------
        rows : a snapshot and operations, as ``log.rows``
        start : those of the session before its first slot

        Raises
        ------
        ValueError, IndexError, OverflowError, struct.error
            for what ``noted`` did not make.
        """
        d, logs = self.d, [Log()]
        for row in rows:
            logs.append(logs[-1].with_row(row))
        if logs[-1].mark != self.log.mark:
            raise ValueError("not the rows of this session")
        for known in (self.before or start, start):
            n_known, tail = len(known.log.rows), known.log.tail
            data = b"".join([*(row.tobytes() for row in rows[max(n_known, 1) :]), self.log.tail])
            is_of_start = n_known or not rows or rows[0].size == 1
            is_before = n_known <= len(rows) and known.log.mark == logs[n_known].mark and data.startswith(tail)
            if is_of_start and is_before:
                break
        else:
            known = _of_snapshot(rows[0], len(self.solved), d)
            data = b"".join([*(row.tobytes() for row in rows[1:]), self.log.tail])
        arms, fresh, count, at = list(known.arms), dict(known.fresh), known.log.size, len(known.log.tail)
        changed = set[int]()
        while at < len(data):
            kind = data[at]
            count += kind != END
            if kind in (END, OPEN):
                merged, at = [*fresh] if kind == OPEN else [], at + 1
            else:
                _, position, loss = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                merged = [position] if kind == VOID and position in fresh else []
            for place in merged:
                arms[place] = _merged(arms[place], fresh.pop(place))
            changed.update(merged)
            if kind == VOID:
                gone = np.frombuffer(data, "<f8", 2 * d, at)
                fresh[position], at = _taken_back(gone), at + gone.nbytes
            elif kind not in (END, OPEN):
                x = None
                if not kind & UNKNOWN:
                    x, at = np.append(1.0, np.frombuffer(data, "<i2", d - 1, at) / UNIT), at + 2 * (d - 1)
                x = Regressions(d, arms, self.solved).known_columns(position, x)
                if kind & ~UNKNOWN not in (PLAY, MOVE) or not (abs(loss) <= LARGEST and abs(x).max() <= 1):
                    raise ValueError("not an operation")
                fresh[position] = _told(fresh.get(position), x, loss, int(kind & ~UNKNOWN == PLAY))
        if count != self.log.size or len(arms) != len(self.solved) or max(fresh, default=0) >= len(arms):
            raise ValueError("not the operations of this session")
        log = self.log._replace(rows=rows)
        found = Regressions(d, arms, known.solved, fresh, log, *self[5:8]).solved_again(sorted(changed))
        numbers = (found.solved, *(arms[place] for place in changed), *fresh.values())
        if not all(np.isfinite(each).all() for each in numbers):
            raise ValueError("numbers that are infinite or NaN")
        return found

    def is_sound(self) -> bool:
        """Return whether the sums can be of plays and their losses, and can be solved."""
        squares = self.opened().squares(range(len(self.arms)))
        products, plays = squares[..., : self.d], squares[..., :1, :1]
        are_plays = 0 <= plays.min() <= plays.max() <= LARGEST_COUNT and abs(squares[..., self.d]).max() <= LARGEST
        are_plays = are_plays and (abs(products) <= plays * (1 + 1e-9)).all()
        return bool(are_plays and np.linalg.eigvalsh(products + layout(self.d).ridge).min() > 0)


def _of_snapshot(row: FloatArray, n_arms: int, d: int) -> Regressions:
    """Return what ``snapshot`` was made of."""
    size = layout(d).size
    end, of_fresh = 1 + 2 * n_arms * size, 2 + size + 2 * d
    arms, fresh = list(row[1:end].reshape(n_arms, 2, size)), row[end:].reshape(int(row[0]), of_fresh)
    is_whole = np.isfinite(row).all() and set(fresh[:, 0].tolist()) <= set(range(n_arms))
    if not is_whole or not (fresh[:, 1] >= 0).all():
        raise ValueError("not a snapshot of this session")
    new = {int(each[0]): each[1:] for each in fresh}
    return Regressions(d, arms, np.zeros((n_arms, 4, d)), new).solved_again(range(n_arms))


# -- Steps of one arm.


def _told(fresh: FloatArray | None, x: FloatArray, loss: float, plays: int) -> FloatArray:
    (size, (one, other), *_), d = layout(len(x)), len(x)
    new = np.zeros(1 + size + 2 * d) if fresh is None else fresh.copy()
    if plays:
        both = np.empty(d + 1)
        both[:d], both[d] = x, loss
        new[0] += 1
        part, more = new[1 : 1 + size], both[one] * both[other]
    else:
        part, more = new[1 + size - d : 1 + size], x * loss
    part += more
    return new


def _taken_back(gone: FloatArray) -> FloatArray:
    """Return an arm with nothing new but what is added to c of both regressions, shape (2 d,)."""
    return np.concatenate((np.zeros(1 + layout(gone.size // 2).size), gone))


def _merged(sums: FloatArray, fresh: FloatArray) -> FloatArray:
    size, merged = sums.shape[1], sums.copy()
    gone = fresh[1 + size :].reshape(2, -1)
    np.add(of_losses := merged[:, -gone.shape[1] :], gone, out=of_losses)
    merged *= KEEP ** fresh[0]
    merged += fresh[1 : 1 + size]
    return merged


# -- The learner.

RATES = np.array([[1.0], [8.0]])
"""By how much each of a regression's two experts trusts gaps between the losses that it expects."""
GAPS = 2 * RATES.size
"""Experts of regressions."""
TIED = 1e-9
"""Gap up to which arms are equally good, in standard deviations of losses: rounding must not choose."""
LARGEST_RATIO = 60_000.0
"""Nearly the largest float16."""
Told = tuple[int, FloatArray | None, float | None]
"""Of an event its arm, its columns if it brings these, and the loss that regressions hold of it, if any."""


class FeatureTsallis(MultiscaleTsallis):
    """A learner of one run, whose slots have columns of a visitor, and whose events may have them.

    Parameters
    ----------
    n_arms : of the session before its first slot
    n_columns : d
    initial : means of arms that are known before it, as for ``warmed``
    """

    mixture_share: ClassVar = 0.25
    costs: ClassVar = (*COSTS, *(3.0,) * GAPS)

    def __init__(self, n_arms: int, n_columns: int, initial: Sequence[InitialArm] = ()) -> None:
        super().__init__(n_arms)
        self.begun = Regressions.start(n_arms, n_columns, initial)

    def start(self) -> State:
        state = super().start()
        return state._replace(pools=state.pools[:MEANS].copy(), regressions=self.begun)

    def open(self, state: State, slot: Slot) -> State:
        kept, eligible, n_arms = known(state).opened(), slot.eligible, state.p.shape[-1]
        advice = np.empty((EXPERTS + GAPS, n_arms))  # What is over all arms is made in its place.
        state = self._solved_for(state, slot, (np.empty_like(state.sums), advice[MEANS:EXPERTS], *state[2:4]))
        slots, v = max(state.t - state.dropped, state.events), rule.variance(state)
        every = over_arms(state, None, advice[:EXPERTS])
        (expected,) = kept.predictions(kept.known_columns(0, slot.x)[None], state.shift)
        if eligible is not None and eligible.size < n_arms:
            gaps = spread(gap_weighted(expected[:, eligible], slots, v), eligible, n_arms)
            advice = np.concatenate((over_arms(state, eligible), gaps))
        elif v > 0:
            gap_weighted(expected, slots, v, advice[EXPERTS:])
        else:
            advice = np.full(advice.shape, 1 / n_arms)
        drawn = with_floor(mixture(state.weights, advice), slot.floor, eligible)
        weight = min(slot.outstanding, PROVISIONAL_POOL_CAP if slot.provisional else POOL_CAP)
        pool = state.shown * weight
        pool += drawn
        pool *= 1 / (weight + 1)
        kept = Regressions(*kept[:5], slots, v, slot.floor, advice)
        return State(state.sums, state.p, every[:MEANS], pool, *state[4:19], drawn, kept)

    def ratios(self, state: State, arm: int) -> tuple[float, ...]:
        """Return how likely each expert made the arm that was just drawn, relative to all, as float16 has it."""
        advice, drawn = known(state).advice, state.drawn
        if advice is None or drawn is None:
            raise ValueError("no arm was just drawn")
        found: FloatArray = np.minimum(advice[:, arm] / drawn.item(arm), LARGEST_RATIO)
        return tuple(found.astype(np.float16).tolist())

    def likely_ratios(self, state: State, told: Sequence[Told]) -> FloatArray:
        """Return about the ratios that acts had whose events bring none, shape (events, 11).

        If the regressions hold a decision already, the arm's predicted loss is without it.
        """
        if not state.mixture_units.any():
            return np.zeros((len(told), len(self.costs)))
        kept, arms, at = known(state), [arm for arm, *_ in told], np.arange(len(told))
        x = np.array([kept.known_columns(arm, columns) for arm, columns, _ in told])
        expected, held = kept.predictions(x, state.shift), np.array([loss for *_, loss in told], dtype=np.float64)
        if not np.isnan(held).all():
            weight, own = kept.leverages(arms, x), expected[at, :, arms]
            more = np.where(np.isnan(held)[:, None], 0.0, weight / (1 - weight) * (own - held[:, None]))
            expected[at, :, arms] += more
        gaps = gap_weighted(expected, kept.slots, kept.spread)[at, :, arms]
        advice = np.concatenate((state.pools[:, arms].T, state.p[:, arms].T, gaps), axis=1)
        likely = (1 - kept.floor) * (advice @ state.weights) + kept.floor / len(kept.arms)
        return advice / likely[:, None]

    def for_visitor(self, state: State, x: FloatArray) -> FloatArray:
        """Return the distribution over all arms for a visitor's columns, shape (arms,), without opening a slot."""
        kept = known(state)
        gaps = gap_weighted(kept.predictions(x[None], state.shift)[0], kept.slots, kept.spread)
        return with_floor(mixture(state.weights, np.concatenate((state.pools, state.p, gaps))), kept.floor)

    def heard(self, state: State, arm: int, visit: Visit, loss: float | None, before: float | None = None) -> State:
        """Learn what became of a decision, and from what is known of its visitor.

        Parameters
        ----------
        state : of the open slot
        arm : its position
        visit : what the event says
        loss : None if the decision was never shown
        before : the loss that was learned for it; None: none was
        """
        kept = known(state)
        ratios = visit.ratios or self.likely_ratios(state, [(arm, visit.x, before)])[0].tolist()
        divisor = state.shown.item(arm), ratios
        if loss is not None and before is not None:
            state = _with(state, kept.told(arm, visit.x, loss - before, 0))
            return self.correct(state, arm, loss, before, divisor)
        if loss is not None:
            return self.settle(_with(state, kept.told(arm, visit.x, loss, 1)), arm, loss, 1, divisor)
        if before is not None:
            state = _with(state, kept.taken_back(arm, visit.x, before, state.shift))
            return self.uncharge(state, arm, before, divisor)
        return self.void(state, arm)

    def remove_arms(self, state: State, positions: IntArray) -> State:
        kept = np.delete(np.arange(state.p.shape[-1]), positions).tolist()
        return _with(super().remove_arms(state, positions), known(state).with_arms(kept, 0))

    def add_arms(self, state: State, count: int) -> State:
        return _with(super().add_arms(state, count), known(state).with_arms(range(state.p.shape[-1]), count))

    def probabilities(self, state: State, eligible: IntArray | None = None, floor: float = 0.0) -> FloatArray:  # noqa: ARG002
        """Return the pool: the mean, over outstanding decisions, of the distributions that they were drawn from."""
        return over(state.shown, eligible, uniform=True)

    def rates(self, state: State) -> dict[str, Any]:
        return super().rates(state) | {"feature_weight": float(state.weights[EXPERTS:].sum())}


def known(state: State) -> Regressions:
    """Return the regressions of a state with features."""
    if state.regressions is None:
        raise ValueError("a state without features")
    return cast("Regressions", state.regressions)


def _with(state: State, kept: Regressions) -> State:
    return State._make((*state[:20], kept, None))


def gap_weighted(expected: FloatArray, slots: int, v: float, room: FloatArray | None = None) -> FloatArray:
    """Return distributions by the gaps between expected losses: uniform if v is 0.

    Parameters
    ----------
    expected : loss of each arm by both regressions, shape (..., 2, arms)
    slots : s
    v : variance of losses
    room : where they are written, if v is not 0; None: into a new array

    Returns
    -------
    shape (..., 4, arms): of the first regression with both rates, then of the second
    """
    *lead, _, size = expected.shape
    if not v > 0:
        return np.full((*lead, GAPS, size), 1 / size)
    gaps, unit = expected - np.minimum.reduce(expected, axis=-1, keepdims=True), math.sqrt(v)
    wide = gaps[..., None, :] * (math.sqrt(slots * size) / unit * RATES)
    wide += size
    p: FloatArray = np.divide(1.0, wide.reshape(*lead, GAPS, size), out=room)
    # The first of the best arms, at 1/size so far, gets what is left.
    flat, best = p.reshape(-1, size), (gaps <= TIED * unit).argmax(axis=-1).ravel().tolist()
    for row, total in enumerate(np.add.reduce(flat, axis=-1).tolist()):
        flat[row, best[row // RATES.size]] += 1 - total
    return p
