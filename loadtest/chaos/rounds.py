"""Rounds of one fault each under load, every round ending in an audit."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from loadtest.chaos.audit import audit
from loadtest.chaos.faults import FAULTS, Freeze, Stage, freeze_long
from loadtest.chaos.ledger import Ledger
from loadtest.chaos.load import CLIENTS, Load, connection, open_sessions
from loadtest.chaos.proxy import CuttingProxy
from loadtest.client import Client
from loadtest.processes import running_redis, running_service, wait_until

ROUND_SECONDS = 1.0
RETRY_SECONDS = 120.0
"""A call that is not acknowledged so long after the faults are over is lost."""
LONG_FREEZE = "store frozen for long"
IMPATIENT = ("--store-timeout-seconds", "0.5", "--store-budget-seconds", "0.5")
"""In short rounds commits time out, and their clients' next attempts overtake them."""


@dataclass
class Tally:
    """What happened in all rounds of one kind of fault."""

    rounds: int = 0
    acts: int = 0
    events: int = 0
    calls: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    freezes: list[Freeze] = field(default_factory=list)

    def add(self, ledgers: Sequence[Ledger], clients: Sequence[Client], problems: Sequence[str]) -> None:
        """Count one round."""
        self.rounds += 1
        self.acts += sum(ledger.slots for ledger in ledgers)
        self.events += sum(len(ledger.events) for ledger in ledgers)
        self.problems += problems
        for client in clients:
            self.calls += client.log.calls
            self.retries += client.log.retries

    def summary(self) -> dict[str, Any]:
        """As ``summary.json`` has it."""
        facts = {name: getattr(self, name) for name in ("rounds", "acts", "events", "calls", "problems")}
        facts |= {"retries": dict(self.retries), "ok": not self.problems}
        if self.freezes:
            worst = (max(column) for column in zip(*self.freezes, strict=True))
            facts["worst_seconds"] = dict(zip(Freeze._fields, worst, strict=True))
        return facts


class Chaos:
    """A service on a Redis behind a proxy, all in one folder, and faults to them.

    Parameters
    ----------
    stage : what the faults happen to, a ``Stage`` or ``GroupStage``
    time_factor : multiplies all time limits
    """

    def __init__(self, stage: Any, time_factor: float) -> None:
        self._stage = stage
        self._time_factor = time_factor
        self._ledgers: list[tuple[str, Ledger]] = []
        self.tallies: dict[str, Tally] = {}

    def short_rounds(
        self, rounds: int, advance: Callable[[], object], faults: Mapping[str, Callable[[Any], None]] = FAULTS
    ) -> None:
        """Play so many rounds, the kinds of fault in turn."""
        for kind, fault in islice(cycle(faults.items()), rounds):
            self._round(kind, partial(self._strike, fault))
            advance()

    def long_freezes(self, rounds: int, seconds: float, advance: Callable[[], object]) -> None:
        """Freeze the store for so long, so often."""
        for _ in range(rounds):
            self._round(LONG_FREEZE, partial(self._freeze, seconds), seconds)
            advance()

    def audit_again(self) -> None:
        """Look at all sessions once more, after everything that happened to the store since."""
        for _, ledger in self._ledgers:
            ledger.failures.clear()
        found = self._audit([ledger for _, ledger in self._ledgers])
        for (kind, _), problems in zip(self._ledgers, found, strict=True):
            self.tallies[kind].problems += [f"{problem}, at the end" for problem in problems]

    def _audit(self, ledgers: Sequence[Ledger]) -> list[list[str]]:
        """Return the problems of each session; several are audited at the same time."""

        def problems(ledger: Ledger) -> list[str]:
            with connection(self._stage.service.url, RETRY_SECONDS) as auditor:
                return audit(auditor, ledger)

        with ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(problems, ledgers))

    def _round(self, kind: str, happen: Callable[[Tally], None], longest: float = 0.0) -> None:
        wait_until(self._stage.service.ready, "the service is ready for a round")
        tally = self.tallies.setdefault(kind, Tally())
        url = self._stage.service.url
        with ExitStack() as stack:
            clients = [stack.enter_context(connection(url, RETRY_SECONDS + longest)) for _ in range(CLIENTS)]
            ledgers = open_sessions(clients[0], f"round-{len(self._ledgers)}")
            with Load(clients, ledgers).running():
                self._meanwhile(partial(happen, tally))
            problems = [problem for found in self._audit(ledgers) for problem in found]
        tally.add(ledgers, clients, problems)
        self._ledgers += [(kind, ledger) for ledger in ledgers]

    def _meanwhile(self, happen: Callable[[], None]) -> None:
        """Let it happen at some moment of a second, or longer until it is made good."""
        ends = time.monotonic() + ROUND_SECONDS
        time.sleep(self._stage.chance.uniform(0.1, 0.4) * ROUND_SECONDS)
        happen()
        wait_until(self._stage.service.ready, "the service is ready after the fault")
        time.sleep(max(0.0, ends - time.monotonic()))

    def _strike(self, fault: Callable[[Any], None], _: Tally) -> None:
        fault(self._stage)

    def _freeze(self, seconds: float, tally: Tally) -> None:
        seen = freeze_long(self._stage, seconds)
        tally.freezes.append(seen)
        tally.problems += seen.problems(self._time_factor)


@contextmanager
def staged(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[Stage]:
    """Start Redis, proxy and service; end them in any case."""
    with running_redis(data, logs) as redis, CuttingProxy(redis.port) as proxy:
        store = f"redis://127.0.0.1:{proxy.port}/0"
        with running_service(logs, "--workers", "2", "--store-url", store, *flags) as service:
            yield Stage(redis, proxy, service, random.Random(seed))  # noqa: S311 - a repeatable plan
