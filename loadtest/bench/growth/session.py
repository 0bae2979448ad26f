"""One session, on which one client acts and reports."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from statistics import median
from typing import Any

from loadtest.bench.growth.scene import SESSIONS, Scene

CALL = 1000
"""Acts of one call while decisions gather."""
REMEMBERED = 10_000
"""Actions that the client keeps for its events: as many as one call may report."""


class Session:
    """A session of a scene's service.

    Parameters
    ----------
    name : its id
    fields : of its specification
    """

    def __init__(self, scene: Scene, name: str, fields: Mapping[str, Any]) -> None:
        self._scene = scene
        self.path = f"{SESSIONS}/{name}"
        """Of its routes."""
        self._open: deque[Mapping[str, Any]] = deque(maxlen=REMEMBERED)
        self._names_slots = fields["learner"]["kind"] == "exp3"
        scene.service.call("POST", SESSIONS, {"session_id": name, "seed": 1} | dict(fields))

    def act(self) -> float:
        """Act some times, and return the median in milliseconds."""
        return median(self._act() for _ in range(self._scene.options.calls))

    def _act(self) -> float:
        started = time.perf_counter()
        action = self._scene.service.call("POST", f"{self.path}/act")
        taken = 1000 * (time.perf_counter() - started)
        self._open.append(action)
        return taken

    def settle(self) -> float:
        """Report losses of some decisions, one in a call, and return the median in milliseconds."""
        post = f"{self.path}/feedback"
        events = [json.dumps(self._event()).encode() for _ in range(self._scene.options.calls)]
        return median(self._scene.service.milliseconds("POST", post, event) for event in events)

    def settle_all(self, bodies: list[bytes]) -> float:
        """Post bodies of ``events``, and return the median in milliseconds."""
        post = f"{self.path}/feedbacks"
        return median(self._scene.service.milliseconds("POST", post, body) for body in bodies)

    def events(self, count: int) -> bytes:
        """Act so many times, and return the body that reports all of these decisions."""
        self.gather(count)
        return json.dumps({"events": [self._event() for _ in range(count)]}).encode()

    def _event(self) -> Mapping[str, Any]:
        action = self._open.pop()
        return {"arm": action["arm"], "loss": 0.5} | ({"slot": action["slot"]} if self._names_slots else {})

    def gather(self, acts: int) -> float:
        """Act without feedback, and return how many acts a second that were."""
        started = time.perf_counter()
        for done in range(0, acts, CALL):
            body = {"count": min(CALL, acts - done)}
            self._open.extend(self._scene.service.call("POST", f"{self.path}/acts", body)["actions"])
        return acts / (time.perf_counter() - started)
