"""A consumer of a queue of purchases: reads JSON lines from standard input and reports them in batches.

A line is ``{"item": "hat", "order": "o-17", "amount": 39.9}``. The order is the event's id, so a
batch that is read again after a crash counts once. Move the queue's offset where a batch is acknowledged.
Lines that are no purchase are skipped and counted: a queue brings them again after each restart.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator

from delayed_bandits import Bandits
from delayed_bandits.client import UnavailableError

BATCH = 500
HIGHEST_AMOUNT = 200.0


def event(line: str) -> dict[str, object] | None:
    """Make an event of a line, None of one that is no purchase; an amount above the highest counts as that."""
    try:
        found = json.loads(line)
        made: dict[str, object] = {
            "label": str(found["item"]),
            "reward": min(float(found["amount"]), HIGHEST_AMOUNT),
            "event_id": str(found["order"]),
        }
        json.dumps(made, ensure_ascii=False, allow_nan=False).encode()  # Else the whole batch could not be sent.
        return made
    except (ValueError, TypeError, LookupError, RecursionError):
        return None


def batches(lines: Iterable[str]) -> Iterator[list[dict[str, object] | None]]:
    """Make events of lines, so many at a time."""
    while some := list(map(event, itertools.islice(lines, BATCH))):
        yield some


def main() -> None:
    """Report all lines."""
    applied = duplicates = skipped = wrong = 0
    with Bandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"), timeout=30) as bandits:
        session = bandits.sessions.ensure(
            "purchases",
            learner={"kind": "multiscale_tsallis", "arms": ["hat", "scarf", "shoes"]},
            reward_range=[0, HIGHEST_AMOUNT],
            expiry={"after_seconds": 86_400, "default_reward": 0},
        )
        for some in batches(iter(sys.stdin)):
            events = [each for each in some if each is not None]
            wrong += len(some) - len(events)
            if not events:
                continue
            try:
                settled = session.feedbacks(events, on_surplus="skip", on_invalid="skip")
            except UnavailableError:
                sys.exit("the service is away: start again later, from the last offset")
            applied += settled.applied
            duplicates += settled.duplicates
            skipped += settled.surplus
            wrong += settled.invalid
    print(f"{applied} applied, {duplicates} duplicates, {skipped} skipped, {wrong} wrong")


if __name__ == "__main__":
    main()
