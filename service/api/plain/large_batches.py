"""Large batches of events, read as several small ones, with pauses.

They are read on the event loop and not in a thread: whenever the event loop wakes up, and it wakes up several times
for each request, it would have to wait until the thread hands over the interpreter, and on a busy machine until the
thread is run at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...cooperative import FairYield
from ...models.events import Event, PlainEvents

PIECE_BYTES = 4_096
"""Bytes of events read between two pauses: some 100 events, which take 2 ms where each is validated."""
MAX_EVENT_BYTES = 4_096
"""Bytes of an event; a batch with a longer one is left to the route."""
MAX_ENDS_BYTES = 100
"""Bytes before the first event, and behind the last."""

_HEAD = re.compile(rb'[ \t\n\r]*\{[ \t\n\r]*"events"[ \t\n\r]*:[ \t\n\r]*\[')
_TAIL = re.compile(rb"\][ \t\n\r]*\}[ \t\n\r]*\Z")


async def read_in_pieces(
    read: Callable[[bytes], Sequence[Event] | None], most: int, body: bytes
) -> Sequence[Event] | None:
    """Read a large batch of events; None where it is too long or can't be divided, or where a piece can't be read.

    Parameters
    ----------
    read : reads a small batch
    most : events that the batch may have
    body : as it was received
    """
    fair_yield, parts, count = FairYield(), list[Sequence[Event]](), 0
    for piece in _pieces(body):
        part = read(b'{"events":[%b]}' % body[piece])
        if part is None:
            return None
        parts.append(part)
        count += len(part)
        if count > most:
            return None
        await fair_yield()
    return await _joined(parts, fair_yield)


def _pieces(body: bytes) -> Sequence[slice]:
    """Divide the events of a batch; no pieces where they can't be divided.

    What looks like the end of an event may be part of a text, but a list that ends within a text is no JSON. So if
    each piece can be read as a list, all of them together are the list of the body.
    """
    head, tail = _HEAD.match(body[:MAX_ENDS_BYTES]), _TAIL.search(body[-MAX_ENDS_BYTES:])
    if head is None or tail is None:
        return ()
    found, at, end = [], head.end(), max(len(body) - MAX_ENDS_BYTES, 0) + tail.start()
    while end - at > PIECE_BYTES + MAX_EVENT_BYTES:
        cut = body.find(b"},", at + PIECE_BYTES, at + PIECE_BYTES + MAX_EVENT_BYTES) + 1
        if not cut:
            return ()
        found.append(slice(at, cut))
        at = cut + 1
    return [*found, slice(at, end)]


async def _joined(parts: Sequence[Sequence[Event]], fair_yield: FairYield) -> Sequence[Event] | None:
    """Make one batch of several; None where there are none."""
    plain = [part for part in parts if isinstance(part, PlainEvents)]
    if len(plain) == len(parts) and len({part.word for part in plain}) == 1:
        return PlainEvents.joined(plain)
    events = list[Event]()
    for part in parts:
        events += part
        await fair_yield()
    return events or None
