"""Answers that are made while they are sent, and how idempotency records keep them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import chain

from .fair_yield import FairYield
from .offload import run_in_thread_if_large

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


def is_stored_answer(kept: bytes) -> bool:
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
