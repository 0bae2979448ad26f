"""The functions of the service that one request passes, in the order of their first calls.

``python -m tests.support.request_trace STORE_URL`` serves in this process, as a worker does, and writes for one
``act`` and one ``feedback`` a line for each call: the request, file and function, with tabs between them.

What runs now and then beside requests (the sweeper, say) may fall into a request's time: each request is traced
several times, and the shortest way counts.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from types import FrameType
from typing import Any

import service
from service.cooperative import FairYield
from service.server.pool import Board
from service.server.worker import serve
from service.sessions.expiry_sweeper import Sweeper
from service.settings import Settings
from service.telemetry import metrics as process_watch
from tests.support.house import figures

FOLDER = Path(service.__file__).parent
TRIES = 15
Passed = list[tuple[str, str]]


class Tracer:
    """Notes every call of a function of the service in this thread while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self._calls: Passed = []
        self._frames: list[FrameType] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self.on:
            return
        code = frame.f_code
        if code.co_filename.startswith(str(FOLDER)) and not code.co_name.startswith("<"):
            with suppress(RuntimeError):  # Before the server runs there is none.
                self.loop = asyncio.get_running_loop()
            if not any(frame is known for known in self._frames):  # A coroutine that goes on is no new call.
                self._frames.append(frame)
                self._calls.append((str(Path(code.co_filename).relative_to(FOLDER)), code.co_qualname))

    def take(self) -> Passed:
        """The calls since the last time."""
        calls, self._calls, self._frames = self._calls, [], []
        return calls


class WholeRequests(HTTPConnection):
    """Sends head and body together: otherwise the service may begin while the body is still on its way."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port, timeout=60)
        self._unsent: list[bytes] = []

    def send(self, data: Any) -> None:
        self._unsent.append(data)

    def getresponse(self) -> HTTPResponse:
        sent, self._unsent = b"".join(self._unsent), []
        super().send(sent)
        return super().getresponse()


def trace(tracer: Tracer, connection: HTTPConnection, path: str, body: Any) -> tuple[bytes, Passed]:
    """Answer of one request, and its calls until the event loop has nothing more to do for it."""
    tracer.take()
    tracer.on = True
    text = post(connection, path, body)
    idle = threading.Event()
    tracer.loop.call_soon_threadsafe(idle.set)
    idle.wait()
    tracer.on = False
    return text, tracer.take()


def post(connection: HTTPConnection, path: str, body: Any) -> bytes:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    assert response.status < 300, text
    return text


def client(tracer: Tracer, port: int, found: dict[str, Passed]) -> None:
    """Make the requests that are traced, then stop the server."""
    try:
        connection = WholeRequests(port)
        learner = {"kind": "dexp3", "n_arms": 10}
        tracer.on = True
        post(connection, "/v1/sessions", {"session_id": "traced", "learner": learner, "seed": 1})
        path = "/v1/sessions/traced"
        tries = [trace(tracer, connection, f"{path}/act", {}) for _ in range(TRIES)]
        found["act"] = min((calls for _, calls in tries), key=figures)
        arms = [json.loads(text)["arm"] for text, _ in tries]
        events = [{"arm": arm, "loss": 0.5, "event_id": f"event-{number}"} for number, arm in enumerate(arms)]
        tries = [trace(tracer, connection, f"{path}/feedback", event) for event in events]
        found["feedback"] = min((calls for _, calls in tries), key=figures)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


async def never_sweep(sweeper: Sweeper) -> None:
    """Wait until the sweeper is stopped: on a busy machine its first sweep takes as long as all requests."""
    await sweeper._stopping.wait()


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    tracer, found = Tracer(), {}
    threading.Thread(target=client, args=(tracer, listener.getsockname()[1], found), daemon=True).start()
    out = os.dup(sys.stdout.fileno())
    # What runs beside requests waits, even where a request takes longer than its period.
    process_watch.LAG_SECONDS = process_watch.READY_SECONDS = 3600.0
    Sweeper.run = never_sweep  # type: ignore[method-assign]
    FairYield.slice_seconds = 3600.0  # Under the tracer a busy machine would add what long work passes.
    sys.setprofile(tracer)
    with suppress(SystemExit):  # The signal that ends the server is raised again behind it.
        serve(Settings(store_url=sys.argv[1]), listener, Board.create(1), 0)
    sys.setprofile(None)
    with os.fdopen(out, "w") as report:
        report.write("\n")  # Behind what the server has logged.
        report.writelines(f"{name}\t{file}\t{function}\n" for name in found for file, function in found[name])


if __name__ == "__main__":
    main()
