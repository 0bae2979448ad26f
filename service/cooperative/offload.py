"""A thread for work that can't yield the event loop: if its input is large, or whenever it takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

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
    if size < LARGE_INPUT_BYTES:
        return work(*args, **kwargs)
    return await run_in_thread(work, *args, **kwargs)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what ``work`` returns, called in the one thread: what was handed to it before is done first.

    Parameters
    ----------
    work : shares what it is given with the event loop, which runs on meanwhile
    *args, **kwargs : what ``work`` is called with
    """
    return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(work, *args, **kwargs))
