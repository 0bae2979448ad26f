"""Two ridge regressions of losses on features for each arm: one that remembers everything, and one that forgets.

A regression knows its past as two sums of plays of its arm: of x x', and of x times the loss. What comes while a
slot is open waits, and is merged when the next one opens. Only then are the arms that have something new solved
for, afresh from the sums: no inverse is updated, so nothing drifts.

What changed since a snapshot is kept as operations, which replay it to the bit. They are bytes, one after another:
what it is, then by its kind the arm's index, a number, and columns as int16 but for the first, which is 1.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from .base import FloatArray, IntArray, Rows

RIDGE = 10.0
MEMORY = 400.0
"""Plays of an arm after which what the second regression knows of a play counts for about a third."""
KEEP = np.array([1.0, 1 - 1 / MEMORY])
MOST_COLUMNS = 64
UNIT = 2**14
"""Columns are multiples of its inverse, in [-1, 1]."""
MOST_LEVERAGE = 0.9

# -- Operations, and rows of them beside a session's state.

END, OPEN, PLAY, MOVE, VOID, WARM, UNKNOWN = 0, 1, 2, 3, 4, 5, 8
"""What an operation is. ``UNKNOWN`` is added where no columns follow, as they are the arm's mean columns. ``END``
fills a row up."""
MOST_OPERATIONS = 4_096
"""In a log, after which it begins anew with a snapshot; and if it is as long as that."""
ROW_BYTES = 2_048
"""Bytes of operations from which on they are a row of their own. Those behind the last row stand in the state."""
_HEAD, _ARM, _WARM, _ONE = struct.Struct("<BId"), struct.Struct("<BI"), struct.Struct("<BIdd"), np.dtype("<i2")
LARGEST, LARGEST_COUNT = 1e12, 2.0**53
"""No loss or sum of losses of an arm is so far from 0, and no arm has so many plays."""


def int16_of(x: FloatArray) -> Any:
    """Return columns, shape (d,), but for the first in units of 2^-14, int16, shape (d - 1,)."""
    return (x[1:] * UNIT).astype(_ONE)


def of_int16(columns: Any) -> FloatArray:
    """Return columns that are given in units of 2^-14, the first one included."""
    x: FloatArray = np.array(columns, dtype=np.float64)
    x /= UNIT
    return x


class Fresh(NamedTuple):
    """What is new of an arm since the last open."""

    plays: int
    products: FloatArray
    """Sum of x x', shape (d, d)."""
    losses: FloatArray
    """Sum of x times the loss, shape (d,)."""


class Log(NamedTuple):
    """Operations since a snapshot."""

    rows: Rows = ()
    """The snapshot, and rows of operations; none as long as nothing but ``tail`` is known."""
    tail: bytes = b""
    """The operations behind them."""
    size: int = 0
    """All operations."""
    mark: bytes = bytes(8)
    """A digest of the rows, one after another: those of another state, or session, have another one."""

    def with_row(self, row: FloatArray) -> Log:
        """Return the log with one row more, and the operations in ``tail`` in none."""
        mark = blake2b(self.mark + row.tobytes(), digest_size=len(self.mark)).digest()
        return Log((*self.rows, row), b"", self.size, mark)


@lru_cache(maxsize=64)
def triangle(d: int) -> Any:
    """Return the places of the lower triangle of an array of shape (d, d), by rows and columns."""
    return np.tril_indices(d)


class Regressions(NamedTuple):
    """The regressions of one session's arms; replaced and never mutated."""

    d: int
    ids: Sequence[int]
    """Index of each arm by position: an index is given once."""
    ever: int
    """Arms there ever were."""
    arms: tuple[FloatArray, ...] = ()
    """G and c of both regressions side by side of each arm, each of shape (2, d, d + 1); none: still to be read."""
    solved: FloatArray = np.zeros(0)
    """g and e of each regression, as of the last merge of the arm, shape (arms, 4, d): g1, e1, g2, e2."""
    fresh: Mapping[int, Fresh] = {}
    """By position, of arms with something new."""
    log: Log = Log()
    slots: int = 0
    """s of the last open."""
    spread: float = 0.0
    """v of the last open."""
    floor: float = 0.0
    """The floor of the last open."""
    advice: FloatArray | None = None
    """What each expert advised in the open slot, shape (11, arms)."""

    @classmethod
    def start(cls, n_arms: int, d: int) -> Regressions:
        nothing = np.zeros((2, d, d + 1))
        return cls(d, range(n_arms), n_arms, (nothing,) * n_arms, np.zeros((n_arms, 4, d)))

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about, but for rows."""
        return self.solved.nbytes + len(self.arms) * 16 * self.d * (self.d + 1)

    # What is read of the regressions.

    def predictions(self, x: FloatArray, mean: float) -> FloatArray:
        """Return the loss that each regression expects of each arm, shape (2, arms), around the mean loss."""
        of_x = (self.solved.reshape(-1, self.d) @ x).reshape(-1, 4).T
        found: FloatArray = of_x[0::2] - mean * of_x[1::2]
        found += mean
        return found

    def mean_columns(self, position: int) -> FloatArray:
        """Return the mean of the columns with which an arm was played, shape (d,), as of its last merge."""
        return mean_columns(self.arms[position])

    def leverages(self, position: int, x: FloatArray) -> FloatArray:
        """Return x'(G + RIDGE I)^-1 x of an arm's regressions, .9 at most: the weight of one play, shape (2,)."""
        ridged = _ridged(self.arms[position][:, :, : self.d])
        found = np.linalg.solve(ridged, np.broadcast_to(x[:, None], (2, self.d, 1)))[..., 0] @ x
        return np.minimum(found, MOST_LEVERAGE)

    # What changes them.

    def merged(self, positions: Sequence[int]) -> Regressions:
        """Return them with what is new of some fresh arms in their sums, and those solved for."""
        arms, fresh, solved = list(self.arms), dict(self.fresh), self.solved.copy()
        for position in positions:
            arms[position] = _merged(arms[position], fresh.pop(position))
        solved[list(positions)] = solutions([arms[position] for position in positions])
        return self._replace(arms=tuple(arms), fresh=fresh, solved=solved)

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
        head = _HEAD.pack((PLAY if plays else MOVE) | (UNKNOWN if x is None else 0), self.ids[position], loss)
        columns = b"" if x is None else int16_of(x).tobytes()
        x = self.mean_columns(position) if x is None else x
        fresh = {**self.fresh, position: _told(self.fresh.get(position), x, loss, plays)}
        return Regressions(*self[:5], fresh, *self[6:]).noted(head + columns)

    def taken_back(self, position: int, x: FloatArray | None, default: float, mean: float) -> Regressions:
        """Return them after a play charged with the default loss, as if it had had the loss that they expect.

        That is without this play. G keeps the play: taking x x' out could break G for an x that never was.
        """
        state = self.merged([position]) if position in self.fresh else self
        x = self.mean_columns(position) if x is None else x
        h, y = state.leverages(position, x), state.predictions(x, mean)[:, position]
        gone = np.multiply.outer((y - h * default) / (1 - h) - default, x)
        data = _ARM.pack(VOID, self.ids[position]) + gone.astype("<f8").tobytes()
        return state.set_to(position, _with_losses(state.arms[position], gone)).noted(data)

    def warmed(self, position: int, acts: float, mean: float) -> Regressions:
        """Return them with an arm's mean loss before the first slot.

        A session is created with its state alone, so all of that stays in the log's tail.
        """
        log = self.log
        log = log._replace(tail=log.tail + _WARM.pack(WARM, self.ids[position], acts, mean), size=log.size + 1)
        return self.set_to(position, _warm(self.d, acts, mean))._replace(log=log)

    def set_to(self, position: int, sums: FloatArray) -> Regressions:
        """Set sums of an arm, which counts as fresh with nothing new."""
        arms = (*self.arms[:position], sums, *self.arms[position + 1 :])
        return self._replace(arms=arms, fresh={**self.fresh, position: _nothing_new(self.d)})

    def without(self, positions: IntArray) -> Regressions:
        """Return them without some arms, by ascending positions."""
        gone = set(positions.tolist())
        kept = [position for position in range(len(self.arms)) if position not in gone]
        fresh = {place: self.fresh[position] for place, position in enumerate(kept) if position in self.fresh}
        arms, ids = tuple(self.arms[position] for position in kept), [self.ids[position] for position in kept]
        return self._replace(ids=ids, arms=arms, solved=self.solved[kept], fresh=fresh, advice=None)

    def with_more(self, count: int) -> Regressions:
        """Return them with new arms behind the others."""
        ids, arms = [*self.ids, *range(self.ever, self.ever + count)], (np.zeros((2, self.d, self.d + 1)),) * count
        solved = np.concatenate((self.solved, np.zeros((count, 4, self.d))))
        return self._replace(ids=ids, ever=self.ever + count, arms=self.arms + arms, solved=solved, advice=None)

    # The log of what changed them.

    def noted(self, operation: bytes) -> Regressions:
        """Return them with an operation, whose effect they have already, in their log."""
        rows, tail, size, mark = self.log
        log = Log(rows, tail + operation, size + 1, mark)
        if len(log.tail) >= ROW_BYTES:  # `_replace` would take twice the time.
            log = log if rows else Log((), log.tail, log.size).with_row(_NO_ARMS)._replace(tail=log.tail)
            log = log.with_row(np.frombuffer(log.tail + bytes(-len(log.tail) % 8), "<f8"))
            longest = 8 * (len(self.arms) * (2 * len(triangle(self.d)[0]) + 2 * self.d + 1))
            if log.size >= MOST_OPERATIONS or ROW_BYTES * (len(log.rows) - 1) >= longest:
                log = Log().with_row(self.snapshot())
        return Regressions(*self[:6], log, *self[7:])

    def snapshot(self) -> FloatArray:
        """Return all of them as one array: counts of arms and fresh ones, indexes, G and c, and what is fresh."""
        d, low, fresh = self.d, triangle(self.d), self.fresh
        arms, places = np.array(self.arms), list(fresh)
        sums = np.concatenate((arms[:, :, low[0], low[1]], arms[:, :, :, d]), axis=-1)
        parts = [np.array([len(arms), len(places), *self.ids], dtype=np.float64), sums.ravel()]
        if fresh:
            plays, products, losses = (np.array(each) for each in zip(*fresh.values(), strict=True))
            solved = self.solved[places].reshape(len(places), -1)
            parts.append(np.column_stack((places, plays, products[:, low[0], low[1]], losses, solved)).ravel())
        return np.concatenate(parts)

    def replayed(self, rows: Rows) -> Regressions:
        """Return the regressions that rows, and the operations behind them, lead to.

        Parameters
        ----------
        rows : a snapshot and operations, as ``log.rows``; none: they begin at 0

        Raises
        ------
        ValueError, IndexError, KeyError, struct.error
            for what ``noted`` did not make.
        """
        log = Log()
        for row in rows:
            log = log.with_row(row)
        if log.mark != self.log.mark:
            raise ValueError("not the rows of this session")
        played = _Replay(self.d, rows[0] if rows else _NO_ARMS)
        for data in (*(row.tobytes() for row in rows[1:]), self.log.tail):
            played.play(data)
        if played.count != self.log.size:
            raise ValueError("not the operations of this session")
        arms, places = [played.nothing] * len(self.ids), [n for n, i in enumerate(self.ids) if i in played.sums]
        solved = np.zeros((len(arms), 4, self.d))
        for place in places:
            arms[place] = played.sums[self.ids[place]]
        if places:
            solved[places] = solutions([played.merged_as.get(self.ids[place], arms[place]) for place in places])
            if not np.isfinite([arms[place] for place in places]).all():
                raise ValueError("sums that are infinite or NaN")
        fresh = {place: played.fresh[index] for place, index in enumerate(self.ids) if index in played.fresh}
        for place in fresh:
            solved[place] = played.solved.get(self.ids[place], solved[place])
        if not np.isfinite(solved).all():
            raise ValueError("solutions that are infinite or NaN")
        return self._replace(arms=tuple(arms), solved=solved, fresh=fresh, log=self.log._replace(rows=rows))

    def is_sound(self) -> bool:
        """Return whether the sums can be of plays and their losses, and can be solved."""
        sums = np.array(self.opened().arms)
        products, plays = sums[..., : self.d], sums[..., :1, :1]
        if not (plays.min() >= 0 and plays.max() <= LARGEST_COUNT and abs(sums[..., self.d]).max() <= LARGEST):
            return False
        if not (abs(products) <= plays * (1 + 1e-9)).all() or not np.array_equal(products, products.mT):
            return False
        try:
            np.linalg.cholesky(_ridged(products))
        except np.linalg.LinAlgError:
            return False
        return True


class _Replay:
    """Plays operations on a snapshot, by indexes of arms: the same additions in the order in which they came."""

    def __init__(self, d: int, snapshot: FloatArray) -> None:
        self.d, self.nothing, self.count = d, np.zeros((2, d, d + 1)), 0
        self.sums, self.fresh = dict[int, FloatArray](), dict[int, Fresh]()
        self.merged_as = dict[int, FloatArray]()
        """Sums as of the last merge, by which an arm is solved for, where they have changed since."""
        self.solved = dict[int, FloatArray]()
        """What the snapshot has of arms that were fresh then, and were not merged since."""
        low = triangle(d)
        size, of_fresh = len(low[0]) + d, 2 + len(low[0]) + d + 4 * d
        n_arms, n_fresh = map(int, snapshot[:2])
        ids = snapshot[2 : 2 + n_arms].astype(int).tolist()
        end = 2 + n_arms + 2 * n_arms * size
        if snapshot.size != end + n_fresh * of_fresh or len(ids) != n_arms:
            raise ValueError("not a snapshot of this session")
        for index, each in zip(ids, snapshot[2 + n_arms : end].reshape(n_arms, 2, size), strict=True):
            self.sums[index] = sums = np.zeros((2, d, d + 1))
            sums[:, low[0], low[1]] = sums[:, low[1], low[0]] = each[:, :-d]
            sums[:, :, d] = each[:, -d:]
        for each in snapshot[end:].reshape(n_fresh, of_fresh):
            index, plays = ids[int(each[0])], int(each[1])
            if plays < 0:
                raise ValueError("not a number of plays")
            products = np.zeros((d, d))
            products[low] = products[low[::-1]] = each[2 : 2 + len(low[0])]
            self.fresh[index] = Fresh(plays, products, each[2 + len(low[0]) : -4 * d].copy())
            self.solved[index] = each[-4 * d :].reshape(4, d)

    def play(self, data: bytes) -> None:
        """Play operations, one after another."""
        at, d = 0, self.d
        while at < len(data) and (kind := data[at]) != END:
            self.count += 1
            if kind == OPEN:
                at += 1
                for index in list(self.fresh):
                    self._merge(index)
                continue
            _, index = _ARM.unpack_from(data, at)
            sums = self.sums.get(index, self.nothing)
            if kind == VOID:
                losses, at = np.frombuffer(data, "<f8", 2 * d, at + _ARM.size), at + _ARM.size + 16 * d
                if index in self.fresh:
                    self._merge(index)
                self._set(index, _with_losses(self.sums.get(index, sums), losses.reshape(2, d)))
            elif kind == WARM:
                _, _, acts, mean = _WARM.unpack_from(data, at)
                at += _WARM.size
                self._set(index, _warm(d, acts, mean))
            elif kind & ~UNKNOWN in (PLAY, MOVE):
                _, _, loss = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                if kind & UNKNOWN:
                    x = mean_columns(sums)
                else:
                    columns = np.frombuffer(data, _ONE, d - 1, at)
                    at += columns.nbytes
                    x = np.concatenate(([1.0], columns / UNIT))
                if not (abs(loss) <= LARGEST and abs(x).max() <= 1):
                    raise ValueError("a number out of range")
                plays = int(kind & ~UNKNOWN == PLAY)
                self.fresh[index] = _told(self.fresh.get(index), x, loss, plays)
            else:
                raise ValueError("not an operation")

    def _merge(self, index: int) -> None:
        self.sums[index] = _merged(self.sums.get(index, self.nothing), self.fresh.pop(index))
        self.merged_as.pop(index, None)
        self.solved.pop(index, None)

    def _set(self, index: int, sums: FloatArray) -> None:
        """Set sums of an arm that is solved for by those that it has."""
        self.merged_as.setdefault(index, self.sums.get(index, self.nothing))
        self.sums[index], self.fresh[index] = sums, _nothing_new(self.d)


# -- Steps of one arm.

_NO_ARMS = np.zeros(2)
"""The snapshot of regressions that are 0."""


def mean_columns(sums: FloatArray) -> FloatArray:
    """Return the mean of the columns with which an arm was played, as of its last merge."""
    x: FloatArray = sums[0, :, 0]
    if (plays := x.item(0)) > 0:
        return x / plays
    x = np.zeros(len(x))
    x[0] = 1.0
    return x


def _nothing_new(d: int) -> Fresh:
    """Return an arm that is solved for at the next open, though nothing came of it since the last."""
    return Fresh(0, np.zeros((d, d)), np.zeros(d))


def _told(fresh: Fresh | None, x: FloatArray, loss: float, plays: int) -> Fresh:
    if fresh is None:
        return Fresh(plays, np.multiply.outer(x, x) if plays else np.zeros((len(x), len(x))), x * loss)
    products = fresh.products + np.multiply.outer(x, x) if plays else fresh.products
    return Fresh(fresh.plays + plays, products, fresh.losses + x * loss)


@lru_cache(maxsize=64)
def _kept(plays: int) -> FloatArray:
    """Return the share of its sums that each regression keeps when so many plays are new, shape (2, 1, 1)."""
    kept: FloatArray = (KEEP**plays).reshape(2, 1, 1)
    return kept


def _merged(sums: FloatArray, fresh: Fresh) -> FloatArray:
    merged: FloatArray = sums * _kept(fresh.plays)
    merged[:, :, :-1] += fresh.products
    merged[:, :, -1] += fresh.losses
    return merged


def _with_losses(sums: FloatArray, losses: FloatArray) -> FloatArray:
    """Return sums with c of both regressions, shape (2, d), moved."""
    moved: FloatArray = sums.copy()
    moved[:, :, -1] += losses
    return moved


def _warm(d: int, acts: float, mean: float) -> FloatArray:
    sums: FloatArray = np.zeros((2, d, d + 1))
    sums[:, 0, 0] = acts, min(acts, MEMORY)
    sums[:, 0, d] = sums[:, 0, 0] * mean
    return sums


def _ridged(products: FloatArray) -> FloatArray:
    ridged: FloatArray = products + _ridge(products.shape[-1])
    return ridged


@lru_cache(maxsize=64)
def _ridge(d: int) -> FloatArray:
    return RIDGE * np.eye(d)


def solutions(sums: Sequence[FloatArray]) -> FloatArray:
    """Return g and e of both regressions of each arm, shape (arms, 4, d): g1, e1, g2, e2."""
    stacked = np.array(sums) if len(sums) > 1 else sums[0][None]
    d = stacked.shape[-2]
    solved: Any = np.linalg.solve(_ridged(stacked[..., :d]), stacked[..., ::-d])
    found: FloatArray = solved.swapaxes(-1, -2).reshape(len(stacked), 4, d)
    return found
