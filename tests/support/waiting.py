"""Waiting for conditions, which tests do in place of sleeping."""

import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

T = TypeVar("T")
SECONDS = 30.0


def wait_until(found: Callable[[], T | Literal[False]], seconds: float = SECONDS) -> T:
    """The first true answer of ``found``; an assertion error when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
        time.sleep(0.005)
    return answer


async def until(condition: Callable[[], Awaitable[object]], seconds: float = SECONDS) -> None:
    """Return once the condition, which itself waits for something, holds; fail where it does not in time."""
    deadline = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
