"""Long work in pieces, so that other requests have their turn in between.

Arithmetic on the event loop pauses after every piece; texts of answers are made piece by piece, while they are
sent; work on large inputs that knows no pauses goes to a thread, where no single call takes long.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, groupby
from typing import Any, ClassVar, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

PIECE = 1000
"""Numbers or texts written at a time."""
FEW, SMALL = 50, 20
"""Objects or lists written at a time, and the parts that each may have."""
LARGE = 16_384
"""Bytes from which on reading them at once would keep other requests waiting."""
LABEL = 16
"""Bytes that a label counts for where there are no bytes to count."""
KEPT = 2_048
"""Bytes of an answer from which on it is kept compressed."""
CHUNK = 65_536
"""Bytes of an answer from which on it is sent in pieces."""

Body = bytes | Iterator[str]
"""An answer: the whole where it is small, else texts that are made while it is sent."""

_DEFLATED = b"x"
"""First byte of compressed answers."""
_SCALARS = {str, int, float, bool, type(None)}

COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

_ASIDE = ThreadPoolExecutor(1, "aside")
"""One thread: more would take the event loop's turns, and none would be done sooner."""

_Line = deque[asyncio.Future[None]]
_LINES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()
"""Long works that wait for their turn, by their event loop."""

P = ParamSpec("P")
T = TypeVar("T")


class Pause:
    """Lets other requests have their turn within long work; long works have theirs one after another."""

    turn_seconds: ClassVar[float] = 0.003
    """Arithmetic done before others get their turn; the first turn is shorter where long works are waiting."""
    rest_seconds: ClassVar[float] = 0.0
    """Time left to others after each turn."""
    _paused: ClassVar[int] = 0

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._turn = self.turn_seconds / (1 + Pause._paused)

    async def __call__(self) -> None:
        """Yield the event loop if it was held long enough."""
        if time.perf_counter() - self._since > self._turn:
            Pause._paused += 1
            try:
                await (asyncio.sleep(self.rest_seconds) if self.rest_seconds else _next_turn())
            finally:
                Pause._paused -= 1
            self._since, self._turn = time.perf_counter(), self.turn_seconds


def _next_turn() -> asyncio.Future[None]:
    """Comes after those of all who wait already; between two turns the event loop does everything else once."""
    loop = asyncio.get_running_loop()
    line, turn = _LINES.setdefault(loop, deque()), loop.create_future()
    if not line:
        loop.call_soon(_give_turn, line)
    line.append(turn)
    return turn


def _give_turn(line: _Line) -> None:
    while line and line[0].cancelled():
        line.popleft()
    if line:
        turn = line.popleft()
        turn.set_result(None)
        if line:
            turn.get_loop().call_soon(_give_turn, line)


class Rest(Pause):
    """A pause of work in the background: a third of the time is its own, so that others are hardly slower."""

    turn_seconds = 0.001
    rest_seconds = 0.002


async def aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work on an input of so many bytes: in a thread where it is large."""
    if size < LARGE:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_ASIDE, partial(work, *args, **kwargs))


def texts(value: Any, encoder: json.JSONEncoder = COMPACT) -> Iterator[str]:
    """The JSON of a value, in texts that none takes long to make."""
    if isinstance(value, Mapping):
        yield from _of_mapping(value, encoder)
    elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        yield from _of_sequence(value, encoder)
    else:
        yield encoder.encode(value)


def _of_mapping(value: Mapping[str, Any], encoder: json.JSONEncoder) -> Iterator[str]:
    start = "{"
    for name in sorted(value) if encoder.sort_keys else value:
        yield f"{start}{encoder.encode(name)}{encoder.key_separator}"
        yield from texts(value[name], encoder)
        start = encoder.item_separator
    yield "{}" if start == "{" else "}"


def _of_sequence(value: Sequence[Any] | np.ndarray, encoder: json.JSONEncoder) -> Iterator[str]:
    start = "["
    step = PIECE if isinstance(value, np.ndarray) or _SCALARS.issuperset(map(type, value[:1])) else FEW
    for place in range(0, len(value), step):
        piece = value[place : place + step]
        yield start
        yield from _of_piece(piece.tolist() if isinstance(piece, np.ndarray) else piece, encoder)
        start = encoder.item_separator
    yield "[]" if start == "[" else "]"


def _of_piece(piece: Sequence[Any], encoder: json.JSONEncoder) -> Iterator[str]:
    """Its elements, those that are small together."""
    if _SCALARS.issuperset(map(type, piece)):
        yield encoder.encode(piece)[1:-1]
        return
    separator = ""
    for small, elements in groupby(piece, _is_small):
        for group in [list(elements)] if small else elements:
            yield separator
            yield from [encoder.encode(group)[1:-1]] if small else texts(group, encoder)
            separator = encoder.item_separator


def _is_small(value: Any) -> bool:
    if type(value) in _SCALARS:
        return True
    parts = value.values() if isinstance(value, dict) else value
    return len(parts) <= SMALL and (_SCALARS.issuperset(map(type, parts)) or all(map(_is_small, parts)))


def body(parts: Iterator[str]) -> Body:
    """An answer of these texts."""
    first, size = [], 0
    for text in parts:
        first.append(text)
        size += len(text)
        if size > CHUNK:
            return chain(first, parts)
    return "".join(first).encode()


async def packed(parts: Body, pause: Pause) -> bytes:
    """An answer as it is kept: compressed where it is made in pieces, which are much alike."""
    if isinstance(parts, bytes):
        return parts
    deflate, made = zlib.compressobj(), []
    for text in parts:
        made.append(deflate.compress(text.encode()))
        await pause()
    return b"".join([*made, deflate.flush()])


async def shrunk(kept: bytes) -> bytes:
    """A kept answer, compressed unless it is small."""
    if len(kept) < KEPT or kept.startswith(_DEFLATED):
        return kept
    return await aside(len(kept), zlib.compress, kept)


def is_packed(kept: bytes) -> bool:
    """Whether it is an answer with a JSON object, and not some other note."""
    return kept.startswith((b"{", _DEFLATED))


def unpacked(kept: bytes) -> Body:
    """What ``packed`` was given; no JSON begins like compressed bytes."""
    return _inflated(kept) if kept.startswith(_DEFLATED) else kept


def _inflated(kept: bytes) -> Iterator[str]:
    inflate = zlib.decompressobj()
    while not inflate.eof:
        yield inflate.decompress(kept, CHUNK).decode("ascii")
        kept = inflate.unconsumed_tail


async def whole(parts: Body, pause: Pause) -> bytes:
    """An answer at once."""
    if isinstance(parts, bytes):
        return parts
    made = []
    for text in parts:
        made.append(text)
        await pause()
    return "".join(made).encode()
