"""``stored``: bytes of log for each request, and memory of idle sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from loadtest.bench.stored_bytes import IDLE_ARMS, IDLE_SESSIONS, LOGGED_ARMS, stored_bytes
from loadtest.commands.output import console, errors_reported, print_written, write_summary


def stored(
    n_arms: Annotated[list[int] | None, typer.Option(help="Number of arms; repeat it for several.")] = None,
    kind: Annotated[str, typer.Option(help="Learner over arms.")] = "dexp3",
    clients: Annotated[int, typer.Option(min=1, help="Clients that share a session.")] = 32,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds for each number of arms.")] = 3,
    sessions: Annotated[int, typer.Option(min=1, help="Idle sessions in a worker.")] = IDLE_SESSIONS,
    out: Annotated[Path, typer.Option(help="Folder for summary.json.")] = Path("runs/stored"),
) -> None:
    """Measure what Redis logs for each request, and what an idle session takes in memory."""
    with errors_reported():
        out.mkdir(parents=True, exist_ok=True)
        found = stored_bytes(clients, seconds, sessions, kind, n_arms or LOGGED_ARMS)
    write_summary(out, found)
    table = Table("what", "bytes", title=f"{kind}, {clients} clients", title_justify="left")
    for arms, each in found["log_bytes"].items():
        batch = found["requests_per_commit"][arms]
        table.add_row(f"log of a request, {int(arms):,} arms, {batch:.0f} a commit", f"{each:,.0f}")
    memory = found["idle_memory"]
    table.add_row(f"idle session of {IDLE_ARMS} arms in Redis", f"{memory['redis']:,}")
    table.add_row(f"idle session of {IDLE_ARMS} arms in a worker", f"{memory['worker']:,.0f}")
    console.print(table)
    print_written(out)
