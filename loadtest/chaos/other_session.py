"""Steady calls to another session, timed: how others fare while one session is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loadtest.chaos.load import connection

CLIENTS = 2
ANSWER_SECONDS = 30.0
"""Longer than a burst may take: a call that waits is timed, not sent again."""


class OtherSession:
    """Clients of a session, one call after the other; every call is kept as its start and its end."""

    def __init__(self, url: str, path: str) -> None:
        self._url, self._path = url, path
        self._stopping = threading.Event()
        self.calls: list[tuple[float, float]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Call the session within the block."""
        threads = [threading.Thread(target=self._run, daemon=True) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            # A connection each time, so that both workers get calls.
            with connection(self._url, timeout=ANSWER_SECONDS) as client:
                for _ in range(20):
                    started = time.perf_counter()
                    action = client.call("act", "POST", f"{self._path}/act")
                    self.calls.append((started, time.perf_counter()))
                    event = {"arm": action["arm"], "loss": 0.5}
                    started = time.perf_counter()
                    client.call("feedback", "POST", f"{self._path}/feedback", event)
                    self.calls.append((started, time.perf_counter()))

    def milliseconds(self, since: float, until: float) -> Sequence[float]:
        """Return the durations of the calls that were under way between these times, in milliseconds."""
        return [1000 * (end - start) for start, end in list(self.calls) if end >= since and start <= until]
