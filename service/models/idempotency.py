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
    """16 bytes that stand for a text in a scope."""
    return blake2b("\n".join((*scope, text)).encode(), digest_size=DIGEST_BYTES).digest()


def digests(texts: Iterable[str]) -> Sequence[bytes]:
    """Return the digest of each text, in no scope."""
    return [blake2b(text.encode(), digest_size=DIGEST_BYTES).digest() for text in texts]


async def digest_of(parts: Iterable[str], fair_yield: FairYield) -> bytes:
    """The digest of a long text."""
    found = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        found.update(part.encode())
        await fair_yield()
    return found.digest()
