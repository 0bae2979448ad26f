"""Rounds of one fault each under load, every round ending in an audit; and the same load while a command runs."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.chaos import faults, replicas
from loadtest.chaos.audit import LISTED, Ledger, audit
from loadtest.chaos.load import ANSWER_SECONDS, CLIENTS, Load, connection, open_sessions
from loadtest.client import Client
from loadtest.processes import running_redis, running_service, wait_until

ROUND_SECONDS = 1.0
RETRY_SECONDS = 120.0
"""A call that is not acknowledged so long after the faults are over is lost."""
LONG_FREEZE = "store frozen for long"
AROUND_SECONDS = 3.0
"""Of load before and after a command."""
PATIENT_SECONDS = 20.0
"""For which a client waits for an answer while a command runs: longer than any proxy in front."""
HEAD = ("fault", "rounds", "calls", "sent again", "slots", "events", "audit")


Timed = faults.Freeze | replicas.LetGo
"""Seconds that a fault took, and their limits."""


@dataclass
class Tally:
    """What happened in all rounds of one kind of fault."""

    rounds: int = 0
    acts: int = 0
    events: int = 0
    calls: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)

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
        if self.timed:
            worst = (max(column) for column in zip(*self.timed, strict=True))
            facts["worst_seconds"] = dict(zip(self.timed[0]._fields, worst, strict=True))
        return facts

    def row(self, kind: str) -> Sequence[str]:
        """Return the cells of ``HEAD``."""
        counts = (self.rounds, self.calls, self.retries.total(), self.acts, self.events)
        return kind, *map(str, counts), f"{len(self.problems)} wrong" if self.problems else "exact"


class Kind(NamedTuple):
    """Kinds of faults that happen to the same stage."""

    faults: Mapping[str, Callable[[Any], Timed | None]]
    stage_of: Callable[..., AbstractContextManager[Any]]
    """Starts it, given a folder for data, one for logs, a seed, and flags of the service."""
    flags: Sequence[str] = ()
    lacks: Callable[[], str | None] = lambda: None
    """Why it can't be played on this machine, None where it can."""


@contextmanager
def staged(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[faults.Stage]:
    """Start Redis, proxy and service; end them in any case."""
    with running_redis(data, logs) as redis, faults.CuttingProxy(redis.port) as proxy:
        store = f"redis://127.0.0.1:{proxy.port}/0"
        with running_service(logs, "--workers", "2", "--store-url", store, *flags) as service:
            yield faults.Stage(redis, proxy, service, random.Random(seed))  # noqa: S311 - a repeatable plan


ONE_STORE = (
    # In short rounds commits time out, and their clients' next attempts overtake them.
    Kind(faults.FAULTS, staged, ("--store-timeout-seconds", "0.5", "--store-budget-seconds", "0.5")),
    Kind(faults.WORKERS, staged, ("--workers", "4")),
    # Some calls wait for longer than they may, and are not done.
    Kind(faults.SLOWNESS, staged, ("--max-wait-seconds", "1")),
    Kind(faults.CLOCKS, faults.staged_clock, lacks=faults.lacks_faketime),
    Kind(faults.DISKS, faults.staged_disk, lacks=faults.lacks_mount),
)
REPLICAS = (
    Kind(replicas.FAILOVERS, replicas.staged_group),
    Kind(replicas.LOSSES, replicas.staged_group),
    Kind(replicas.PARTITIONS, replicas.staged_network, lacks=replicas.lacks_namespaces),
)
NAMES = [name for kind in (*ONE_STORE, *REPLICAS) for name in kind.faults]


def plan(kinds: Sequence[Kind], names: Sequence[str] | None, rounds: int) -> list[tuple[Kind, int]]:
    """Return how many of the rounds each stage plays; all faults of all stages, or those named, take turns."""
    picked = [
        kind._replace(faults={name: fault for name, fault in kind.faults.items() if not names or name in names})
        for kind in kinds
    ]
    all_names = [name for kind in picked for name in kind.faults]
    turns = Counter(islice(cycle(all_names), rounds))
    counts = [(kind, sum(turns[name] for name in kind.faults)) for kind in picked]
    return [(kind, count) for kind, count in counts if count]


def clients_of(
    stack: ExitStack, url: str, patience: float, timeout: float = ANSWER_SECONDS, api_key: str = ""
) -> Sequence[Client]:
    """Open connections for all clients; the last one never sends a call again."""
    patiences = [patience] * (CLIENTS - 1) + [0]
    return [stack.enter_context(connection(url, each, timeout, api_key)) for each in patiences]


class Asked(NamedTuple):
    """What is played, and how."""

    rounds: int
    failovers: int
    """Rounds on a master with replicas."""
    long_freezes: int
    freeze_seconds: float
    names: Sequence[str] | None
    """Faults; all if not given."""
    time_factor: float
    seed: int
    updates: bool = False
    """Whether events name goals, and come again with other outcomes."""
    features: bool = False
    """Whether acts say what is known of their visitor."""


class Chaos:
    """Faults to a stage (servers and the service), and what came of them.

    Parameters
    ----------
    stage : what the faults happen to, with a ``service`` and a ``chance``
    asked : what sessions have, and a factor on all time limits
    """

    def __init__(self, stage: Any, asked: Asked, advance: Callable[[], object]) -> None:
        self._stage, self._time_factor, self._advance = stage, asked.time_factor, advance
        self._options = {"updates": asked.updates, "features": asked.features}
        self._ledgers: list[tuple[str, Ledger]] = []
        self.tallies: dict[str, Tally] = {}

    def short_rounds(self, rounds: int, kinds: Mapping[str, Callable[[Any], Timed | None]]) -> None:
        """Play so many rounds, the kinds of fault in turn."""
        for kind, fault in islice(cycle(kinds.items()), rounds):
            self._round(kind, partial(fault, self._stage))

    def long_freezes(self, rounds: int, seconds: float) -> None:
        """Freeze the store for so long, so often."""
        for _ in range(rounds):
            self._round(LONG_FREEZE, partial(faults.freeze_long, self._stage, seconds), seconds)

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

    def _round(self, kind: str, happen: Callable[[], Timed | None], longest: float = 0.0) -> None:
        """Let it happen at some moment of a second of load, or longer until it is made good, and audit."""
        service = self._stage.service
        wait_until(service.ready, "the service is ready for a round")
        tally = self.tallies.setdefault(kind, Tally())
        with ExitStack() as stack:
            patience = RETRY_SECONDS + longest
            clients = clients_of(stack, service.url, patience)
            ledgers = open_sessions(clients[0], f"round-{len(self._ledgers)}", **self._options)
            with Load(clients, ledgers).running():
                ends = time.monotonic() + ROUND_SECONDS
                time.sleep(self._stage.chance.uniform(0.1, 0.4) * ROUND_SECONDS)
                if (seen := happen()) is not None:
                    tally.timed.append(seen)
                    tally.problems += seen.problems(self._time_factor)
                wait_until(service.ready, "the service is ready after the fault")
                time.sleep(max(0.0, ends - time.monotonic()))
            problems = [problem for found in self._audit(ledgers) for problem in found]
        tally.add(ledgers, clients, problems)
        self._ledgers += [(kind, ledger) for ledger in ledgers]
        self._advance()


def play_all(
    asked: Asked, out: Path, advance: Callable[[], object]
) -> tuple[Mapping[str, Tally], Mapping[str, str]]:
    """Play on fresh servers and a fresh service for each stage; their logs stay in ``out``.

    Returns
    -------
    What happened by kind of fault, and why others were skipped.
    """
    planned = plan(ONE_STORE, asked.names, asked.rounds) + plan(REPLICAS, asked.names, asked.failovers)
    skipped = {name: reason for kind, _ in planned if (reason := kind.lacks()) for name in kind.faults}
    phases = [
        (kind, partial(Chaos.short_rounds, rounds=count, kinds=kind.faults))
        for kind, count in planned
        if not kind.faults.keys() & skipped.keys()
    ]
    if asked.long_freezes:
        freeze = partial(Chaos.long_freezes, rounds=asked.long_freezes, seconds=asked.freeze_seconds)
        phases.append((Kind({}, staged), freeze))
    tallies: dict[str, Tally] = {}
    for kind, play in phases:
        with (
            tempfile.TemporaryDirectory(prefix="chaos-") as data,
            kind.stage_of(Path(data), out, asked.seed, "--clicks-per-second", "0", *kind.flags) as stage,
        ):
            chaos = Chaos(stage, asked, advance)
            play(chaos)
            chaos.audit_again()
            tallies |= chaos.tallies
    return tallies, skipped


def problems_of(tallies: Mapping[str, Tally]) -> list[str]:
    """Return the first problems of each kind of fault."""
    return [problem for tally in tallies.values() for problem in tally.problems[:LISTED]]


def load_during(
    happen: Callable[[], object], url: str, *, outage: bool, api_key: str = "", pause: float = 0.0
) -> dict[str, Any]:
    """Load a running service while something happens, and audit it: the summary, with its ``problems``.

    Parameters
    ----------
    happen : returns something true if it has failed, such as the exit code of a command
    outage : whether the service may be away meanwhile; else a retried 503 is the worst
    pause : seconds between the turns of a client
    """
    with ExitStack() as stack:
        clients = clients_of(stack, url, RETRY_SECONDS, PATIENT_SECONDS, api_key)
        ledgers = open_sessions(clients[0], f"during-{time.time_ns()}")
        with Load(clients, ledgers, pause).running():
            time.sleep(AROUND_SECONDS)
            failed = happen()
            time.sleep(AROUND_SECONDS)
        tally = Tally()
        tally.add(ledgers, clients, [problem for ledger in ledgers for problem in audit(clients[0], ledger)])
    if failed:
        tally.problems.append(f"the command ended with {failed}")
    if not outage:
        worse = (reason for reason in tally.retries if not reason.startswith("status 503"))
        tally.problems += [f"{reason}: {tally.retries[reason]} times" for reason in worse]
    slowest = max(max(each) for client in clients for each in client.log.seconds.values())
    return tally.summary() | {"slowest_ms": round(1000 * slowest)}
