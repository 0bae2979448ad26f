"""Steady load on sessions, from clients that send everything again with the same ids until it is acknowledged."""

from __future__ import annotations

import itertools
import random
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from loadtest.chaos.audit import Ledger
from loadtest.client import Client
from loadtest.errors import LoadTestError, ServiceError

CLIENTS = 6
"""Client k calls session k modulo their number."""
ANSWER_SECONDS = 3.0
"""A client that waited so long for an answer sends the request again beside the first."""
LONGEST_PAUSE = 0.1
"""Clients are less patient than ``Retry-After`` asks, to do more harm."""
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Spares each client 20 ms of reading certificates, in which the calls that are timed stand still."""
LEARNERS: dict[str, dict[str, Any]] = {
    "centred_tsallis": {"n_arms": 10},
    "exp3": {"n_arms": 10, "learning_rate": 0.01},
}
"""A learner with its whole state in each commit, and one with records of slots beside it."""


@contextmanager
def connection(url: str, retry_seconds: float = 60.0, timeout: float = ANSWER_SECONDS) -> Iterator[Client]:
    """Open a connection that is used by one client alone.

    Parameters
    ----------
    url : address of the service, over plain HTTP
    retry_seconds : how long one call may be tried
    timeout : seconds until an attempt that is not answered is given up
    """
    with httpx.Client(base_url=url, timeout=timeout, verify=NO_AUTHORITIES) as http:
        yield Client(http, retry_seconds, lambda wait: time.sleep(min(wait, LONGEST_PAUSE)))


def open_sessions(client: Client, name: str) -> Sequence[Ledger]:
    """Create a session for each kind of learner."""
    for kind, fields in LEARNERS.items():
        body = {"session_id": f"{name}-{kind}", "learner": {"kind": kind} | fields, "seed": 1}
        client.call("create", "POST", "/v1/sessions", body)
    return [Ledger(f"{name}-{kind}") for kind in LEARNERS]


class Load:
    """Clients in threads; each acts and reports until the block ends, and waits for all its answers."""

    def __init__(self, clients: Sequence[Client], ledgers: Sequence[Ledger]) -> None:
        self._stopping = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(client, number, ledgers[number % len(ledgers)]), daemon=True)
            for number, client in enumerate(clients)
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Load within the block; at its end every call sent is acknowledged or has failed."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join()
        if self._errors:
            raise LoadTestError(f"a client of the load test failed: {self._errors[0]!r}")

    def _run(self, client: Client, number: int, ledger: Ledger) -> None:
        try:
            _play(client, number, ledger, self._stopping)
        except ServiceError as error:
            ledger.failed(error)
        except (LoadTestError, LookupError, TypeError) as error:
            self._errors.append(error)


def _play(client: Client, number: int, ledger: Ledger, stopping: threading.Event) -> None:
    """Of three decisions two are reported, late and out of order; some events stand twice in their call."""
    chance = random.Random(number)  # noqa: S311 - repeatable load
    outstanding: deque[dict[str, Any]] = deque()
    for turn in itertools.count():
        if stopping.is_set():
            return
        key = f"client-{number}-act-{turn}"
        answer = client.call("acts", "POST", f"{ledger.path}/acts", {"count": chance.randint(1, 3)}, key)
        ledger.acted(key, answer)
        outstanding += (_event(number, action, chance) for action in answer["actions"] if chance.random() < 2 / 3)
        if len(outstanding) > chance.randint(0, 6):
            chance.shuffle(outstanding)
            events = [outstanding.popleft() for _ in range(chance.randint(1, len(outstanding)))]
            events += events[: chance.randint(0, 1)]
            settled = client.call("feedbacks", "POST", f"{ledger.path}/feedbacks", {"events": events})
            ledger.settled(events, settled)


def _event(number: int, action: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    slot, arm = action["slot"], action["arm"]
    return {"event_id": f"client-{number}-{slot}", "arm": arm, "slot": slot, "loss": round(chance.random(), 3)}
