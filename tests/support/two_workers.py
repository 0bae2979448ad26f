"""A session on two workers that share a Redis, and the run in this process that it has to equal."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from service.engine.run import Run
from service.models.specification import Specification
from service.models.stored import Stored
from tests.support.running import RunningService

CONNECTIONS = 6
"""The system hands each new connection to one of the workers, so that both get some."""
SESSION = "/v1/sessions/s"


class TwoWorkers:
    """Calls about the session ``s``, each on a random connection.

    Parameters
    ----------
    chance : what draws the connections, and whatever else a test draws
    """

    def __init__(self, clients: list[httpx.Client], chance: random.Random) -> None:
        self._clients, self.chance = clients, chance

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer to a POST."""
        answer = self.chance.choice(self._clients).post(f"{SESSION}{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str = "") -> Any:
        """The answer to a GET."""
        return self._clients[0].get(f"{SESSION}{path}").json()


@contextlib.contextmanager
def two_workers(folder: Path, store_url: str, fields: dict[str, Any]) -> Iterator[tuple[TwoWorkers, Run]]:
    """Start both workers with a session of these fields, and its twin."""
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(RunningService(folder, "--workers", "2", "--store-url", store_url))
        service.workers(2)
        clients = [stack.enter_context(service.client()) for _ in range(CONNECTIONS)]
        assert clients[0].post("/v1/sessions", json={"session_id": "s", **fields}).status_code == 201
        run = Stored.of(Specification.model_validate(fields)).start()
        yield TwoWorkers(clients, random.Random(5)), run
