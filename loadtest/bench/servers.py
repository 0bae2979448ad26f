"""Applications beside the service, served by the same uvicorn."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx

from loadtest.errors import LoadTestError
from loadtest.processes import RunningProcess, free_port, wait_until

QUIET = ("--no-access-log", "--log-level", "warning", "--no-server-header")


class Server(NamedTuple):
    """A server that answers."""

    port: int
    pids: Sequence[int]


@contextmanager
def running_uvicorn(
    module: str, environment: Mapping[str, str], logs: Path, workers: int, probe: str
) -> Iterator[Server]:
    """Serve ``make_app`` of a module of this folder, and end the server and its workers in any case.

    Parameters
    ----------
    module : its name
    environment : variables beside those of this process
    logs : folder of its log
    workers : number of its processes
    probe : path to which it can post an event once it has started
    """
    port = free_port()
    command = _command(module, port, workers)
    log, variables = logs / f"{module}.log", os.environ | environment
    server = RunningProcess(command, log, variables, with_children=True)
    try:
        server.start()
        wait_until(partial(_answers, server, f"http://127.0.0.1:{port}{probe}"), f"{module} start")
        yield Server(port, [server.pid, *children(server.pid)])
    finally:
        server.end()


def _command(module: str, port: int, workers: int) -> Sequence[str]:
    served = ("--port", str(port), "--workers", str(workers), "--loop", "uvloop", "--http", "httptools")
    return (sys.executable, "-m", "uvicorn", f"loadtest.bench.{module}:make_app", "--factory", *served, *QUIET)


def _answers(server: RunningProcess, url: str) -> bool:
    if not server.running:
        raise LoadTestError(f"a server ended: {server.last_words()}")
    try:
        answer = httpx.post(url, json={"arm": 0, "loss": 0.5})
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK


def children(pid: int) -> Sequence[int]:
    """Process ids of the children of a process (Linux)."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
