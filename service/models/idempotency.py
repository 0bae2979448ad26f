"""Digests that stand for event ids and idempotency keys in the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from ..cooperative.fair_yield import FairYield
from ..store.base import DIGEST_BYTES


class Idempotency(NamedTuple):
    """An Idempotency-Key in its scope, and the body it came with, both as digests."""

    key: bytes
    body: bytes


def digest(text: str, *scope: str) -> bytes:
    """Return 16 bytes that stand for a text in a scope.

    Parameters
    ----------
    text : an event id, or a client's key
    scope : texts that set it apart: the same text in another scope has another digest
    """
    return blake2b("\n".join((*scope, text)).encode(), digest_size=DIGEST_BYTES).digest()


def digests(texts: Iterable[str]) -> Sequence[bytes]:
    """Return the digest of each text, in no scope."""
    return [blake2b(text.encode(), digest_size=DIGEST_BYTES).digest() for text in texts]


async def digest_of(parts: Iterable[str], fair_yield: FairYield) -> bytes:
    """Return 16 bytes that stand for a long text, in no scope.

    Parameters
    ----------
    parts : of the text, in order; where it is divided makes no difference
    fair_yield : is awaited after each part
    """
    found = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        found.update(part.encode())
        await fair_yield()
    return found.digest()
