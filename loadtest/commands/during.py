"""``during``: load on a running service while another command runs, ending in an audit."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from loadtest.chaos.audit import audit
from loadtest.chaos.ledger import Ledger
from loadtest.chaos.load import CLIENTS, Load, connection, open_sessions
from loadtest.client import Client
from loadtest.commands.output import console, errors_reported, print_error, print_written, write_summary

PATIENT_SECONDS = 20.0
"""Seconds that a client waits for an answer: longer than any proxy in front."""
REFUSAL = "status 503"


def during(
    command: Annotated[list[str], typer.Argument(help="What runs meanwhile, behind `--`.")],
    url: Annotated[str, typer.Option(help="Address of the service, or of the proxy in front of it.")],
    clients: Annotated[int, typer.Option(min=1, help="Clients that call one after the other.")] = CLIENTS,
    around: Annotated[float, typer.Option(min=0, help="Seconds of load before and after the command.")] = 3,
    outage: Annotated[
        bool, typer.Option("--outage", help="The service may be away meanwhile; else a retried 503 is the worst.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for summary.json.")] = Path("runs/during"),
) -> None:
    """Load a running service while a command runs; exit 1 unless all that was acknowledged counts exactly once."""
    out.mkdir(parents=True, exist_ok=True)
    with errors_reported(), clients_of(url, clients) as opened:
        ledgers = open_sessions(opened[0], f"during-{time.time_ns()}")
        with Load(opened, ledgers).running():
            time.sleep(around)
            code = subprocess.run(command, check=False).returncode  # noqa: S603 - the user's own
            time.sleep(around)
        problems = [problem for ledger in ledgers for problem in audit(opened[0], ledger)]
        retries = sum((client.log.retries for client in opened), Counter[str]())
    if code:
        problems.append(f"the command ended with {code}")
    if not outage:
        problems += [f"{reason}: {times} times" for reason, times in retries.items() if reason != REFUSAL]
    _report(ledgers, opened, retries, problems, out)
    if problems:
        raise typer.Exit(1)


@contextmanager
def clients_of(url: str, count: int) -> Iterator[Sequence[Client]]:
    """Open a connection for each client."""
    with ExitStack() as stack:
        yield [stack.enter_context(connection(url, timeout=PATIENT_SECONDS)) for _ in range(count)]


def _report(
    ledgers: Sequence[Ledger],
    clients: Sequence[Client],
    retries: Counter[str],
    problems: Sequence[str],
    out: Path,
) -> None:
    summary = {
        "ok": not problems,
        "calls": sum(client.log.calls for client in clients),
        "sent_again": dict(retries),
        "slowest_ms": round(1000 * max(max(each) for client in clients for each in client.log.seconds.values())),
        "slots": sum(ledger.slots for ledger in ledgers),
        "events": sum(len(ledger.events) for ledger in ledgers),
        "problems": list(problems),
    }
    write_summary(out, summary)
    for name, value in summary.items():
        console.print(f"{name}: {value}", markup=False, highlight=False, soft_wrap=True)
    for problem in problems:
        print_error(problem)
    print_written(out)
