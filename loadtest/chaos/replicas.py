"""A master with two replicas and a sentinel, and failovers while the master lives."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from loadtest.errors import LoadTestError
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
            host=place.host, port=sentinel.port, folder=folder, master=f"{master.host} {master.port}", quorum=quorum
        )
    )
    sentinel.command_line = [*place.launcher, find_server(), str(path), "--sentinel"]
    return sentinel


def _start(stack: ExitStack, process: RedisProcess) -> None:
    process.start()
    stack.callback(RunningProcess.end, process)
    wait_until(process.answers, "a server of the group starts")


SENTINELS = 3
LONGEST_PARTITION = 3.0
"""Seconds that both sides go on after a failover."""
NEAR, FAR = "near", "far"
"""The bridges: the service is at the near one."""
BRIDGE_ADDRESSES = {NEAR: "02:00:00:00:00:01", FAR: "02:00:00:00:00:02"}
"""Given, because a bridge without one takes that of a host, and changes it when the host leaves."""


class Network:
    """Hosts in namespaces of their own, all of them within reach until they are moved to the far bridge.

    Parameters
    ----------
    hosts : how many
    """

    def __init__(self, hosts: int) -> None:
        self._hub = f"bd{os.getpid()}"
        self._hosts = hosts
        # A range that is set aside for tests of networks, and that nobody routes.
        self._prefix = f"198.18.{os.getpid() % 256}"

    def __enter__(self) -> Network:
        _ip("netns", "add", self._hub)
        for bridge, address in BRIDGE_ADDRESSES.items():
            self._in_hub("link", "add", bridge, "type", "bridge")
            self._in_hub("link", "set", bridge, "address", address, "up")
        _ip("link", "add", self._hub, "type", "veth", "peer", "name", "service", "netns", self._hub)
        self._in_hub("link", "set", "service", "master", NEAR, "up")
        _ip("address", "add", f"{self._prefix}.1/24", "dev", self._hub)
        _ip("link", "set", self._hub, "up")
        for host in range(self._hosts):
            self._add(host)
        return self

    def __exit__(self, *_: object) -> None:
        for name in (self._hub, *map(self._namespace, range(self._hosts))):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)  # noqa: S603, S607

    def _add(self, host: int) -> None:
        name, link = self._namespace(host), f"host{host}"
        _ip("netns", "add", name)
        self._in_hub("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        self._in_hub("link", "set", link, "master", NEAR, "up")
        _ip("-n", name, "address", "add", f"{self.place(host).host}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", name, "link", "set", device, "up")

    def place(self, host: int) -> Place:
        """Return where a server on this host runs."""
        return Place(f"{self._prefix}.{10 + host}", ("ip", "netns", "exec", self._namespace(host)))

    def part(self, away: Collection[int]) -> None:
        """Cut these hosts off from all others, and from the service; none: all reach each other again."""
        for host in range(self._hosts):
            self._in_hub("link", "set", f"host{host}", "master", FAR if host in away else NEAR)

    def _namespace(self, host: int) -> str:
        return f"{self._hub}-{host}"

    def _in_hub(self, *words: str) -> None:
        _ip("-n", self._hub, *words)


def _ip(*words: str) -> None:
    """Run ``ip``; its namespaces, links and addresses."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if done.returncode:
        raise LoadTestError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def lacks_namespaces() -> str | None:
    """Why networks can't be parted here, None where they can."""
    if shutil.which("ip") is None:
        return "needs the program ip (iproute2)"
    try:
        with Network(1):
            return None
    except LoadTestError as error:
        return f"needs the right to make network namespaces ({error})"


class PartedStage(NamedTuple):
    """What partitions happen to; host n has server n, and the sentinels are on the hosts after these."""

    group: Group
    service: ServiceProcess
    chance: random.Random
    network: Network


def cut_master_off(stage: PartedStage) -> None:
    """Part the master from all others until they have another one."""
    servers = stage.group.servers
    (old,) = stage.group.masters()
    stage.network.part({servers.index(old)})
    wait_until(lambda: set(stage.group.masters()) - {old}, "a replica is the master", SETTLED_SECONDS)
    _heal(stage)


def part_with_majority(stage: PartedStage) -> None:
    """Part a replica and two sentinels from the master, its other replica and the service.

    The sentinels promote the replica, while the old master and its replica go on with what the service sends.
    """
    servers = stage.group.servers
    (old,) = stage.group.masters()
    replica = stage.chance.choice([each for each in servers if each is not old])
    sentinels = stage.chance.sample(range(len(servers), len(servers) + SENTINELS), SENTINELS // 2 + 1)
    stage.network.part({servers.index(replica), *sentinels})
    # The far side is asked by nobody, so nothing but time tells: sentinels need two seconds to miss the master.
    time.sleep(stage.chance.uniform(4, 4 + LONGEST_PARTITION))
    _heal(stage)


def cut_replica_off(stage: PartedStage) -> None:
    """Part a replica from all others."""
    servers = stage.group.servers
    replica = stage.chance.choice([each for each in servers if each not in stage.group.masters()])
    stage.network.part({servers.index(replica)})
    _heal(stage)


def _heal(stage: PartedStage) -> None:
    time.sleep(stage.chance.uniform(0, LONGEST_PARTITION))
    stage.network.part(())
    settle(stage.group)


PARTITIONS: dict[str, Callable[[PartedStage], None]] = {
    "master cut off": cut_master_off,
    "majority cut off": part_with_majority,
    "replica cut off": cut_replica_off,
}


@contextmanager
def staged_network(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[PartedStage]:
    """Start three servers and three sentinels on a host each, and the service; end them in any case."""
    count = REPLICAS + 1
    with Network(count + SENTINELS) as network, ExitStack() as stack:
        places = [network.place(host) for host in range(count + SENTINELS)]
        group = start_group(stack, data, logs, places[:count], places[count:])
        with running_service(logs, "--workers", "2", "--store-url", group.url, *SAFE, *flags) as service:
            yield PartedStage(group, service, random.Random(seed), network)  # noqa: S311 - a repeatable plan
