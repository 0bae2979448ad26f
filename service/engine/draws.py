"""The uniforms of a session: u_t is a function of the seed and the slot alone.

A worker keeps the draws of all sessions in its cache, most of them idle: a block is an array of a quarter of a kB,
where a list of 256 floats took 8 kB.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..learners.base import FloatArray

BLOCK = 32
"""Doubles drawn at a time: drawing one takes nearly as long."""
_PER_COUNTER = 4
"""Philox gives four 64-bit words, hence four doubles, for each value of its counter."""
_WORD = 2**64
_NONE = np.empty(0)
_NO_WORDS = np.zeros(_PER_COUNTER, dtype=np.uint64)
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

    @property
    def nbytes(self) -> int:
        """Bytes of the block that is kept."""
        return self._doubles.nbytes

    def uniform(self, t: int) -> float:
        """Return u_t (or v_t) in [0, 1) of slot ``t``, from 1."""
        block, place = divmod(t - 1, BLOCK)
        if block != self._block:
            self._doubles, self._block = self._drawn(block, 1), block
        return float(self._doubles[place])

    def uniforms(self, t: int, count: int) -> FloatArray:
        """Return u_t (or v_t) of slots in a row, shape (count,).

        It may be a view of the block that is kept, so it must not be changed.

        Parameters
        ----------
        t : the first slot, from 1
        count : slots, one or more
        """
        block, place = divmod(t - 1, BLOCK)
        last = (t + count - 2) // BLOCK
        if block == last == self._block:
            return self._doubles[place : place + count]
        doubles = self._drawn(block, last - block + 1)
        self._doubles, self._block = doubles[-BLOCK:].copy(), last
        return doubles[place : place + count]

    def _drawn(self, block: int, blocks: int) -> FloatArray:
        with _LOCK:
            _PHILOX.state = self._state_at(block * (BLOCK // _PER_COUNTER))
            return _GENERATOR.random(blocks * BLOCK)

    def _state_at(self, counter: int) -> Any:
        """Return the state of ``Philox(key=seed, counter=[0, 0, 0, stream])`` after ``advance(counter)``."""
        high, low = divmod(self._seed, _WORD)
        words = {"counter": (counter, 0, 0, self._stream), "key": (low, high)}
        return {
            "bit_generator": "Philox",
            "state": {name: np.array(values, dtype=np.uint64) for name, values in words.items()},
            "buffer": _NO_WORDS,
            "buffer_pos": _PER_COUNTER,
            "has_uint32": 0,
            "uinteger": 0,
        }
