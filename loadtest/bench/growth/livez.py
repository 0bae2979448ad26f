"""How long a worker keeps others waiting: a process that asks ``GET /livez`` all the time.

Run as ``python -m loadtest.bench.growth.livez PORT CONNECTIONS``; for each line that it reads it prints the longest
wait since the line before. It ends with its input, so also with the process that started it.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import IO

from loadtest.bench.closed_loop import request
from loadtest.errors import LoadTestError

PAUSE_SECONDS = 0.005
ASKED = request("GET", "/livez")
SECONDS_TO_ANSWER = 120.0


class Probe:
    """The other process, as its parent sees it."""

    def __init__(self, orders: IO[bytes], answers: IO[bytes]) -> None:
        self._orders, self._answers = orders, answers

    def longest(self) -> float:
        """Return the longest wait since the last call, in milliseconds; one that is under way is waited for.

        Raises
        ------
        LoadTestError
            where the probe has ended: a request of it failed.
        """
        try:
            self._orders.write(b"\n")
        except BrokenPipeError as error:
            raise LoadTestError("GET /livez failed") from error
        if not (line := self._answers.readline()):
            raise LoadTestError("GET /livez failed")
        return float(line)


@contextmanager
def running_probe(port: int, connections: int) -> Iterator[Probe]:
    """Start a probe with so many connections, which it uses in turn, and end it in any case."""
    command = [sys.executable, "-m", "loadtest.bench.growth.livez", str(port), str(connections)]
    with subprocess.Popen(  # noqa: S603 - this file
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        try:
            probe = Probe(process.stdin, process.stdout)
            probe.longest()
            yield probe
        finally:
            process.kill()


def ask_all_along(port: int, connections: int) -> None:
    """Ask until the input ends."""
    at = ("127.0.0.1", port)
    opened: Sequence[socket.socket] = [
        socket.create_connection(at, timeout=SECONDS_TO_ANSWER) for _ in range(connections)
    ]
    longest = 0.0
    for connection in cycle(opened):
        if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            print(longest, flush=True)
            longest = 0.0
        longest = max(longest, _wait(connection))


def _wait(connection: socket.socket) -> float:
    """Milliseconds until the answer."""
    asked = time.perf_counter()
    connection.sendall(ASKED)
    answer = b""
    while not answer.endswith(b"}"):
        answer += (part := connection.recv(65_536))
        if not part:
            raise LoadTestError(f"the connection ended after {answer!r}")
    return 1000 * (time.perf_counter() - asked)


if __name__ == "__main__":
    try:
        ask_all_along(*map(int, sys.argv[1:]))
    except (OSError, LoadTestError) as error:
        sys.exit(f"GET /livez: {error}")
