"""The largest requests of every kind that a service with the default limits takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from loadtest.bench.in_process_app import InProcessApp

Call = tuple[Any, ...]
"""Method and path; body and headers where there are any."""

LABELS = [f"label number {number}" for number in range(80_000)]
SIMPLEX = {"kind": "dbgd", "feasible_set": {"kind": "simplex", "total": 1}}
KEYED = [(b"idempotency-key", b"once")]


class Large(NamedTuple):
    """A large request."""

    title: str
    prepare: Callable[[InProcessApp], Awaitable[Call]]
    """Does what comes before it."""
    status: int = 200
    """Of its answer."""


def _batch(count: int = 10_000) -> dict[str, Any]:
    """Events with ids."""
    return {"events": [{"arm": 0, "loss": 0.5, "event_id": f"event-{number:060}"} for number in range(count)]}


async def _batch_of_ids(service: InProcessApp) -> Call:
    return "POST", f"{await service.acted(10_000)}/feedbacks", _batch()


async def _batch_with_a_key(service: InProcessApp) -> Call:
    return "POST", f"{await service.acted(10_000)}/feedbacks", _batch(), KEYED


async def _refused_batch(service: InProcessApp) -> Call:
    return "POST", f"{await service.acted(9_000)}/feedbacks", _batch()


async def _refused_bundles(service: InProcessApp) -> Call:
    path = await service.create({"kind": "dexp3", "n_arms": 1})
    return "POST", f"{path}/feedbacks", {"events": [{"losses": [1] * 60}] * 9_900}, KEYED


async def _batch_sent_again(service: InProcessApp) -> Call:
    path = f"{await service.acted(10_000)}/feedbacks"
    await service.call("POST", path, _batch())
    return "POST", path, _batch()


async def _one_large_point(service: InProcessApp) -> Call:
    return "POST", f"{await service.create(SIMPLEX | {'dim': 1000})}/act"


async def _one_large_point_with_a_key(service: InProcessApp) -> Call:
    return "POST", f"{await service.create(SIMPLEX | {'dim': 1000})}/act", None, KEYED


async def _many_points(service: InProcessApp) -> Call:
    return "POST", f"{await service.create(SIMPLEX | {'dim': 31})}/acts", {"count": 1000}


async def _many_acts(service: InProcessApp) -> Call:
    return "POST", f"{await service.create({'kind': 'dexp3', 'n_arms': 1000})}/acts", {"count": 1000}


async def _view_of_many_arms(service: InProcessApp) -> Call:
    path = await service.create({"kind": "dexp3", "n_arms": 100_000})
    await service.call("POST", f"{path}/act")
    return "GET", path


async def _view_of_many_labels(service: InProcessApp) -> Call:
    return "GET", await service.create({"kind": "dexp3", "arms": LABELS})


async def _session_of_many_labels(_: InProcessApp) -> Call:
    return "POST", "/v1/sessions", {"learner": {"kind": "dexp3", "arms": LABELS}}


async def _many_labels_added(service: InProcessApp) -> Call:
    return "PATCH", f"{await service.create({'kind': 'dexp3', 'arms': ['a']})}/arms", {"add": LABELS}


async def _many_labels_removed(service: InProcessApp) -> Call:
    return "PATCH", f"{await service.create({'kind': 'dexp3', 'arms': LABELS})}/arms", {"remove": LABELS[1:]}


async def _many_labels_replaced(service: InProcessApp) -> Call:
    path = await service.create({"kind": "fixed", "arms": LABELS})
    return "PUT", f"{path}/arms", {"arms": LABELS[10_000:] + [f"new {number}" for number in range(10_000)]}


async def _many_labels_paused(service: InProcessApp) -> Call:
    return "PATCH", f"{await service.create({'kind': 'fixed', 'arms': LABELS})}/arms", {"pause": LABELS[1:]}


async def _floor_at_many_labels(service: InProcessApp) -> Call:
    return "PATCH", await service.create({"kind": "fixed", "arms": LABELS}), {"floor": 0.1}


async def _many_probabilities(_: InProcessApp) -> Call:
    labels = [f"label {number}" for number in range(50_000)]
    learner = {"kind": "fixed", "arms": labels, "probabilities": dict.fromkeys(labels, 1 / 50_000)}
    return "POST", "/v1/sessions", {"learner": learner}


async def _arms_by_mean(service: InProcessApp) -> Call:
    path = await service.create({"kind": "dexp3", "n_arms": 100_000})
    await service.call("POST", f"{path}/act")
    return "GET", f"{path}/arms?limit=1000&sort=-mean"


async def _page_of_sessions(service: InProcessApp) -> Call:
    for _ in range(1000):
        await service.create({"kind": "dexp3", "n_arms": 3})
    return "GET", "/v1/sessions?limit=1000"


LARGE_REQUESTS = {
    "batch_of_ids": Large("10,000 events with ids", _batch_of_ids),
    "batch_with_a_key": Large("the same with an idempotency key", _batch_with_a_key),
    "refused_batch": Large("the same, refused", _refused_batch, 409),
    "refused_bundles": Large("9,900 events of 60 losses, refused", _refused_bundles, 422),
    "batch_sent_again": Large("10,000 events, all sent before", _batch_sent_again),
    "one_large_point": Large("act in 1,000 dimensions", _one_large_point),
    "one_large_point_with_a_key": Large("the same with an idempotency key", _one_large_point_with_a_key),
    "many_points": Large("1,000 acts in 31 dimensions", _many_points),
    "many_acts": Large("1,000 acts at 1,000 arms", _many_acts),
    "view_of_many_arms": Large("view at 100,000 arms", _view_of_many_arms),
    "view_of_many_labels": Large("view at 80,000 labels", _view_of_many_labels),
    "session_of_many_labels": Large("session with 80,000 labels", _session_of_many_labels, 201),
    "many_labels_added": Large("80,000 labels added", _many_labels_added),
    "many_labels_removed": Large("80,000 labels removed", _many_labels_removed),
    "many_labels_replaced": Large("a catalogue of 80,000 labels, an eighth of them new", _many_labels_replaced),
    "many_labels_paused": Large("80,000 labels paused", _many_labels_paused),
    "floor_at_many_labels": Large("a floor at 80,000 labels", _floor_at_many_labels),
    "many_probabilities": Large("a session with 50,000 probabilities", _many_probabilities, 201),
    "arms_by_mean": Large("page of 100,000 arms by their means", _arms_by_mean),
    "page_of_sessions": Large("page of 1,000 sessions", _page_of_sessions),
}
