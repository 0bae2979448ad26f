"""A master with two replicas and a sentinel, and failovers while the master lives."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from loadtest.processes import (
    RedisProcess,
    RunningProcess,
    ServiceProcess,
    find_server,
    running_service,
    wait_until,
)

REPLICAS = 2
FROZEN_SECONDS = 1.0
SETTLED_SECONDS = 120.0
"""Time limit for the group to have one master and two replicas again."""
_SENTINEL = """port {port}
bind 127.0.0.1
dir {folder}
sentinel monitor main 127.0.0.1 {master} 1
sentinel down-after-milliseconds main 2000
sentinel failover-timeout main 4000
"""
SAFE = ("--min-replicas", "1", "--store-timeout-seconds", "1")


class Group(NamedTuple):
    """The servers, and the sentinel's port by a process that speaks its protocol."""

    servers: Sequence[RedisProcess]
    sentinel: RedisProcess

    def masters(self) -> list[RedisProcess]:
        """Return the servers that take themselves for masters."""
        return [each for each in self.servers if each.information("replication").get("role") == "master"]

    def is_settled(self) -> bool:
        """Whether there is one master, and all others are attached to it."""
        masters = self.masters()
        return len(masters) == 1 and masters[0].information("replication").get("connected_slaves") == str(REPLICAS)


class GroupStage(NamedTuple):
    """What failovers happen to."""

    group: Group
    service: ServiceProcess
    chance: random.Random


def planned_failover(stage: GroupStage) -> None:
    """Order a failover from the sentinel, and wait until the old master follows."""
    (old,) = stage.group.masters()
    stage.group.sentinel.command("SENTINEL FAILOVER main")
    wait_until(lambda: old not in stage.group.masters(), "the old master follows", SETTLED_SECONDS)
    _settle(stage)


def promotion(stage: GroupStage) -> None:
    """Make a replica a master by hand; the sentinel sets it back after some seconds."""
    masters = stage.group.masters()
    replica = stage.chance.choice([each for each in stage.group.servers if each not in masters])
    replica.command("REPLICAOF NO ONE")
    _settle(stage)


def freeze_replica(stage: GroupStage) -> None:
    """SIGSTOP a replica for a while."""
    masters = stage.group.masters()
    replica = stage.chance.choice([each for each in stage.group.servers if each not in masters])
    replica.send(signal.SIGSTOP)
    time.sleep(stage.chance.uniform(0.05, FROZEN_SECONDS))
    replica.send(signal.SIGCONT)
    _settle(stage)


def _settle(stage: GroupStage) -> None:
    wait_until(stage.group.is_settled, "the group has a master and its replicas", SETTLED_SECONDS)


FAILOVERS: dict[str, Callable[[GroupStage], None]] = {
    "planned failover": planned_failover,
    "replica promoted": promotion,
    "replica frozen": freeze_replica,
}


@contextmanager
def staged_group(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[GroupStage]:
    """Start the servers, the sentinel and the service; end them in any case."""
    with ExitStack() as stack:
        servers: list[RedisProcess] = []
        for n in range(REPLICAS + 1):
            folder = data / str(n)
            folder.mkdir()
            follow = ("--replicaof", f"127.0.0.1 {servers[0].port}") if servers else ()
            servers.append(RedisProcess(folder, logs, "--repl-diskless-sync-delay", "0", *follow))
            _start(stack, servers[-1])
        group = Group(servers, _sentinel(data, logs, servers[0].port))
        _start(stack, group.sentinel)
        wait_until(group.is_settled, "the replicas are attached")
        store = f"redis+sentinel://127.0.0.1:{group.sentinel.port}/main"
        with running_service(logs, "--workers", "2", "--store-url", store, *SAFE, *flags) as service:
            yield GroupStage(group, service, random.Random(seed))  # noqa: S311 - a repeatable plan


def _sentinel(data: Path, logs: Path, master: int) -> RedisProcess:
    sentinel = RedisProcess(data, logs)
    path = data / "sentinel.conf"
    path.write_text(_SENTINEL.format(port=sentinel.port, folder=data, master=master))
    sentinel.command_line = [find_server(), str(path), "--sentinel"]
    return sentinel


def _start(stack: ExitStack, process: RedisProcess) -> None:
    process.start()
    stack.callback(RunningProcess.end, process)
    wait_until(process.answers, "a server of the group starts")
