"""Long work that lets other requests run in between.

Imports nothing else of the project.
"""

import asyncio
import json
import time
import zlib
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, groupby
from typing import Any, ClassVar, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

# -- Long computations yield the event loop, so that other requests run in between.

_Queue = deque[asyncio.Future[None]]
_QUEUES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()
"""For each event loop, the long computations that wait to continue, first come, first served."""


class FairYield:
    """Await it often within a long computation: it yields the event loop when a time slice is used up.

    Between two slices, of whichever computations, the event loop does everything else that is ready.
    """

    slice_seconds: ClassVar[float] = 0.003
    """Length of a time slice; the first slice is shorter if other long computations wait."""
    pause_seconds: ClassVar[float] = 0.0
    """Time to sleep after each slice; if 0, the computation waits in the queue instead."""
    _waiting: ClassVar[int] = 0
    """Number of long computations that wait to continue."""

    def __init__(self, since: float | None = None) -> None:
        self._since = time.perf_counter() if since is None else since
        self._slice = self.slice_seconds / (1 + FairYield._waiting)

    async def __call__(self) -> None:
        """Yield the event loop if the time slice is used up."""
        if time.perf_counter() - self._since > self._slice:
            FairYield._waiting += 1
            try:
                await (asyncio.sleep(self.pause_seconds) if self.pause_seconds else wait_in_queue())
            finally:
                FairYield._waiting -= 1
            self._since, self._slice = time.perf_counter(), self.slice_seconds


def wait_in_queue() -> asyncio.Future[None]:
    """Return a future that is done after those of all computations in the queue.

    One is resumed in each pass of the event loop.
    """
    loop = asyncio.get_running_loop()
    queue, resumed = _QUEUES.setdefault(loop, deque()), loop.create_future()
    if not queue:
        loop.call_soon(_resume_next, queue)
    queue.append(resumed)
    return resumed


def _resume_next(queue: _Queue) -> None:
    while queue and queue[0].cancelled():
        queue.popleft()
    if queue:
        resumed = queue.popleft()
        resumed.set_result(None)
        if queue:
            resumed.get_loop().call_soon(_resume_next, queue)


class Turns:
    """Lets few reads of one path be under way at a time, so that those of other paths run in between.

    Clients that are answered together ask again together, and the store answers many reads in one message: without
    turns their burst would last, and others wait.
    """

    at_once: ClassVar[int] = 4
    counts_seconds: ClassVar[float] = 0.005
    """A read that is under way for longer waits for the store, or for its next entry: it has had its turn."""

    def __init__(self) -> None:
        self._under_way = defaultdict[str, set[asyncio.Future[None]]](set)
        self._late = defaultdict[str, _Queue](deque)

    @asynccontextmanager
    async def of(self, path: str) -> AsyncIterator[None]:
        """Wait until a read of the path may begin, mostly not at all; it ends with the context."""
        loop = asyncio.get_running_loop()
        self._late[path].append(read := loop.create_future())
        try:
            self._let_begin(path)
            await read
            yield
        finally:  # In the next pass of the loop: what is done at once would let all others begin in this one.
            loop.call_soon(self._end, path, read)

    def _let_begin(self, path: str) -> None:
        late, under_way = self._late[path], self._under_way[path]
        while late and len(under_way) < self.at_once:
            if not (read := late.popleft()).done():
                read.set_result(None)
                under_way.add(read)
                read.get_loop().call_later(self.counts_seconds, self._end, path, read)
        if not under_way:
            del self._late[path], self._under_way[path]

    def _end(self, path: str, read: asyncio.Future[None]) -> None:
        if path in self._under_way:
            self._under_way[path].discard(read)
            self._let_begin(path)


class BackgroundYield(FairYield):
    """For work in the background: it runs for a third of the time, so that requests are hardly slower."""

    slice_seconds = 0.001
    pause_seconds = 0.002


# -- A thread for work that can't yield the event loop: if its input is large, or whenever it takes long.

LARGE_INPUT_BYTES = 16_384
"""Size of an input from which work on it would block the event loop for too long."""
LABEL_BYTES = 16
"""Size that a label counts for, if only the number of labels is known."""

_THREAD = ThreadPoolExecutor(1, "offload")
"""One thread: two would compete with the event loop for the interpreter, and neither would be done sooner."""

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread_if_large(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what ``work`` returns, called in a thread if its input is large.

    Parameters
    ----------
    size : bytes of the input; ``LARGE_INPUT_BYTES`` or more are large
    work : in a thread it shares what it is given with the event loop, which runs on meanwhile
    *args, **kwargs : what ``work`` is called with
    """
    return work(*args, **kwargs) if size < LARGE_INPUT_BYTES else await run_in_thread(work, *args, **kwargs)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what ``work`` returns, called in the one thread: what was handed to it before is done first.

    Parameters
    ----------
    work : shares what it is given with the event loop, which runs on meanwhile
    *args, **kwargs : what ``work`` is called with
    """
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(work, *args, **kwargs))


# -- Many floats as JSON: digit for digit what the standard library writes, in a tenth of the time.

LEAST, MOST = 1e-4, 1e16
"""Floats from the first up to below the second are written without an exponent, by everybody alike."""


def floats_text(values: npt.NDArray[np.float64], encoder: json.JSONEncoder) -> str:
    """Return the JSON of some floats without its brackets.

    The shortest digits that mean a float are the same whoever finds them; how an exponent is written is not.

    Parameters
    ----------
    values : shape (n,), n at least 1
    encoder : separates the floats, and says what is done about NaN and infinities
    """
    listed, least, most = values.tolist(), values.min(), values.max()
    if encoder.item_separator == "," and least > -MOST and most < MOST:
        if least >= LEAST:
            return to_json(listed).decode()[1:-1]
        tiny = ((np.abs(values) < LEAST) & (values != 0)).nonzero()[0].tolist()
        if 2 * len(tiny) < len(listed):
            texts = to_json(listed).decode()[1:-1].split(",")
            for place in tiny:
                texts[place] = repr(listed[place])
            return ",".join(texts)
    return encoder.encode(listed)[1:-1]


# -- JSON in chunks, so that a caller can yield the event loop between them.

CHUNK_SCALARS = 1000
"""Numbers or strings in a chunk."""
CHUNK_OBJECTS, SMALL_OBJECT = 50, 40
"""Most small objects or lists in a chunk, and most elements of a small one: more than a session has in a list."""

COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

_SCALARS = {str, int, float, bool, type(None)}


def json_chunks(value: Any, encoder: json.JSONEncoder = COMPACT) -> Iterator[str]:
    """Yield the JSON of a value in chunks, each of which is made in a short time.

    Parameters
    ----------
    value : anything that JSON can represent; numpy arrays are lists
    encoder : its separators and the order of keys apply
    """
    if isinstance(value, Mapping):
        yield from _of_mapping(value, encoder)
    elif isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        yield from _of_sequence(value, encoder)
    else:
        yield encoder.encode(value)


def _of_mapping(value: Mapping[str, Any], encoder: json.JSONEncoder) -> Iterator[str]:
    start, small = "{", dict[str, Any]()
    for name in sorted(value) if encoder.sort_keys else value:
        part = value[name]
        if is_small := type(part) in _SCALARS or _is_small(part):
            small[name] = part
        if small and (not is_small or len(small) >= CHUNK_OBJECTS):
            yield f"{start}{encoder.encode(small)[1:-1]}"
            start, small = encoder.item_separator, {}
        if not is_small:
            yield f"{start}{encoder.encode(name)}{encoder.key_separator}"
            yield from json_chunks(part, encoder)
            start = encoder.item_separator
    if small:
        yield f"{start}{encoder.encode(small)[1:-1]}}}"
    else:
        yield "{}" if start == "{" else "}"


def _of_sequence(value: Sequence[Any] | np.ndarray, encoder: json.JSONEncoder) -> Iterator[str]:
    start = "["
    of_scalars = isinstance(value, np.ndarray) or _SCALARS.issuperset(map(type, value[:1]))
    step = CHUNK_SCALARS if of_scalars else CHUNK_OBJECTS
    for place in range(0, len(value), step):
        part = value[place : place + step]
        yield start
        if isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype == np.float64:
            yield floats_text(part, encoder)
        else:
            yield from _of_slice(part.tolist() if isinstance(part, np.ndarray) else part, encoder)
        start = encoder.item_separator
    yield "[]" if start == "[" else "]"


def _of_slice(part: Sequence[Any], encoder: json.JSONEncoder) -> Iterator[str]:
    """Yield the elements of a slice without brackets; small ones share a chunk."""
    if _SCALARS.issuperset(map(type, part)):
        yield encoder.encode(part)[1:-1]
        return
    separator = ""
    for small, elements in groupby(part, _is_small):
        for group in [list(elements)] if small else elements:
            yield separator
            yield from [encoder.encode(group)[1:-1]] if small else json_chunks(group, encoder)
            separator = encoder.item_separator


def _is_small(value: Any) -> bool:
    if type(value) in _SCALARS:
        return True
    if type(value) not in {dict, list, tuple}:
        return False
    parts = value.values() if isinstance(value, dict) else value
    return len(parts) <= SMALL_OBJECT and (_SCALARS.issuperset(map(type, parts)) or all(map(_is_small, parts)))


# -- Answers that are made while they are sent, and how idempotency records keep them.

COMPRESSED_FROM_BYTES = 2_048
"""Bytes of an answer from which on it is kept compressed."""
STREAMED_FROM_BYTES = 65_536
"""Bytes of an answer from which on it is sent in chunks."""

Body = bytes | Iterator[str]
"""An answer: all its bytes if it is small, else an iterator of texts that are made while it is sent."""

_DEFLATED = b"x"
"""First byte of compressed answers."""


def answer_body(parts: Iterator[str]) -> Body:
    """Return an answer of these texts: bytes up to ``STREAMED_FROM_BYTES``, else an iterator of all texts.

    Parameters
    ----------
    parts : JSON in ASCII
    """
    first, size = [], 0
    for text in parts:
        first.append(text)
        size += len(text)
        if size > STREAMED_FROM_BYTES:
            return chain(first, parts)
    return "".join(first).encode()


async def pack(parts: Body, fair_yield: FairYield) -> bytes:
    """Return an answer as idempotency records keep it: compressed if it is made in chunks.

    Parameters
    ----------
    parts : is used up if it is an iterator
    fair_yield : awaited after each text
    """
    if isinstance(parts, bytes):
        return parts
    deflate, made = zlib.compressobj(), []
    for text in parts:
        made.append(deflate.compress(text.encode()))
        await fair_yield()
    return b"".join([*made, deflate.flush()])


async def compress_if_large(kept: bytes) -> bytes:
    """Return a kept answer, compressed unless it is small or compressed already."""
    if len(kept) < COMPRESSED_FROM_BYTES or kept.startswith(_DEFLATED):
        return kept
    return await run_in_thread_if_large(len(kept), zlib.compress, kept)


def is_answer(kept: bytes) -> bool:
    """Return whether kept bytes are an answer with a JSON object, and not some other note."""
    return kept.startswith((b"{", _DEFLATED))


def unpack(kept: bytes) -> Body:
    """Return the answer that ``pack`` was given; no JSON begins like compressed bytes."""
    return _inflated(kept) if kept.startswith(_DEFLATED) else kept


def _inflated(kept: bytes) -> Iterator[str]:
    inflate = zlib.decompressobj()
    while not inflate.eof:
        yield inflate.decompress(kept, STREAMED_FROM_BYTES).decode("ascii")
        kept = inflate.unconsumed_tail


async def joined(parts: Body, fair_yield: FairYield) -> bytes:
    """Return all bytes of an answer.

    Parameters
    ----------
    parts : is used up if it is an iterator
    fair_yield : awaited after each text
    """
    if isinstance(parts, bytes):
        return parts
    made = []
    for text in parts:
        made.append(text)
        await fair_yield()
    return "".join(made).encode()
