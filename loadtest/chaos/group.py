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
bind {host}
protected-mode no
dir {folder}
sentinel monitor main {master} {quorum}
sentinel down-after-milliseconds main 2000
sentinel failover-timeout main 4000
"""
SAFE = ("--min-replicas", "1", "--store-timeout-seconds", "1")


class Group(NamedTuple):
    """The servers, and the sentinels, who speak the same protocol."""

    servers: list[RedisProcess]
    sentinels: list[RedisProcess]

    @property
    def url(self) -> str:
        """What the service is told of it."""
        return f"redis+sentinel://{','.join(f'{each.host}:{each.port}' for each in self.sentinels)}/main"

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
    stage.group.sentinels[0].command("SENTINEL FAILOVER main")
    wait_until(lambda: old not in stage.group.masters(), "the old master follows", SETTLED_SECONDS)
    settle(stage.group)


def promotion(stage: GroupStage) -> None:
    """Make a replica a master by hand; the sentinel sets it back after some seconds."""
    masters = stage.group.masters()
    replica = stage.chance.choice([each for each in stage.group.servers if each not in masters])
    replica.command("REPLICAOF NO ONE")
    settle(stage.group)


def kill_master(stage: GroupStage) -> None:
    """SIGKILL the master, and start it again when another one is."""
    (old,) = stage.group.masters()
    old.end()
    wait_until(stage.group.masters, "a replica is the master", SETTLED_SECONDS)
    old.start()
    settle(stage.group)


def freeze_replica(stage: GroupStage) -> None:
    """SIGSTOP a replica for a while."""
    masters = stage.group.masters()
    replica = stage.chance.choice([each for each in stage.group.servers if each not in masters])
    replica.send(signal.SIGSTOP)
    time.sleep(stage.chance.uniform(0.05, FROZEN_SECONDS))
    replica.send(signal.SIGCONT)
    settle(stage.group)


def settle(group: Group) -> None:
    """Wait until there is one master, and all others follow it."""
    wait_until(group.is_settled, "the group has a master and its replicas", SETTLED_SECONDS)


FAILOVERS: dict[str, Callable[[GroupStage], None]] = {
    "planned failover": planned_failover,
    "replica promoted": promotion,
    "replica frozen": freeze_replica,
    "master killed": kill_master,
}


@contextmanager
def staged_group(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[GroupStage]:
    """Start the servers, a sentinel and the service; end them in any case."""
    with ExitStack() as stack:
        group = start_group(stack, data, logs, (Place(),) * (REPLICAS + 1), (Place(),))
        with running_service(logs, "--workers", "2", "--store-url", group.url, *SAFE, *flags) as service:
            yield GroupStage(group, service, random.Random(seed))  # noqa: S311 - a repeatable plan


class Place(NamedTuple):
    """Where a server runs: its address, and the words that start a program there."""

    host: str = "127.0.0.1"
    launcher: Sequence[str] = ()


def start_group(
    stack: ExitStack, data: Path, logs: Path, servers: Sequence[Place], sentinels: Sequence[Place]
) -> Group:
    """Start a master with its replicas, and sentinels that watch it; ``stack`` ends them."""
    group = Group([], [])
    for place in servers:
        first = group.servers[0] if group.servers else None
        follow = ("--replicaof", f"{first.host} {first.port}") if first else ()
        folder = _folder(data, f"server-{len(group.servers)}")
        flags = ("--repl-diskless-sync-delay", "0", "--protected-mode", "no", *follow)
        group.servers.append(RedisProcess(folder, logs, *flags, host=place.host, launcher=place.launcher))
        _start(stack, group.servers[-1])
    for place in sentinels:
        folder = _folder(data, f"sentinel-{len(group.sentinels)}")
        group.sentinels.append(_sentinel(folder, logs, place, group.servers[0], len(sentinels) // 2 + 1))
        _start(stack, group.sentinels[-1])
    wait_until(group.is_settled, "the replicas are attached")
    return group


def _folder(data: Path, name: str) -> Path:
    (data / name).mkdir()
    return data / name


def _sentinel(folder: Path, logs: Path, place: Place, master: RedisProcess, quorum: int) -> RedisProcess:
    sentinel = RedisProcess(folder, logs, host=place.host, launcher=place.launcher)
    path = folder / "sentinel.conf"
    path.write_text(
        _SENTINEL.format(
            host=place.host,
            port=sentinel.port,
            folder=folder,
            master=f"{master.host} {master.port}",
            quorum=quorum,
        )
    )
    sentinel.command_line = [*place.launcher, find_server(), str(path), "--sentinel"]
    return sentinel


def _start(stack: ExitStack, process: RedisProcess) -> None:
    process.start()
    stack.callback(RunningProcess.end, process)
    wait_until(process.answers, "a server of the group starts")
