"""Work that never yields, on inputs that may be large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

LARGE_INPUT_BYTES = 16_384
"""Bytes from which on reading them on the event loop would keep other requests waiting."""
LABEL_BYTES = 16
"""Bytes that a label counts for where there are no bytes to count."""

_THREAD = ThreadPoolExecutor(1, "offload")
"""One thread: two would compete with the event loop for the interpreter, and neither would be done sooner."""

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread_if_large(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Work on an input of so many bytes: in a thread where it is large."""
    if size < LARGE_INPUT_BYTES:
        return work(*args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(work, *args, **kwargs))
