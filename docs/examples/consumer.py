"""A consumer of a queue of purchases: reads JSON lines from standard input and reports them in batches.

A line is ``{"item": "hat", "order": "o-17", "amount": 39.9}``. The order is the event's id, so a
batch that is read again after a crash counts once. Move the queue's offset where a batch is acknowledged.
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


def batches(lines: Iterable[str]) -> Iterator[list[dict[str, object]]]:
    """Make events of lines; an amount above the highest counts as the highest."""
    while some := [json.loads(line) for line in itertools.islice(lines, BATCH)]:
        yield [
            {"label": each["item"], "reward": min(each["amount"], HIGHEST_AMOUNT), "event_id": each["order"]}
            for each in some
        ]


def main() -> None:
    """Report all lines."""
    applied = duplicates = skipped = 0
    with Bandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"), timeout=30) as bandits:
        session = bandits.sessions.ensure(
            "purchases",
            learner={"kind": "multiscale_tsallis", "arms": ["hat", "scarf", "shoes"]},
            reward_range=[0, HIGHEST_AMOUNT],
            expiry={"after_seconds": 86_400, "default_reward": 0},
        )
        for events in batches(iter(sys.stdin)):
            try:
                settled = session.feedbacks(events, on_surplus="skip", on_invalid="skip")
            except UnavailableError:
                sys.exit("the service is away: start again later, from the last offset")
            applied += settled.applied
            duplicates += settled.duplicates
            skipped += settled.surplus + settled.invalid
    print(f"{applied} applied, {duplicates} duplicates, {skipped} skipped")


if __name__ == "__main__":
    main()
