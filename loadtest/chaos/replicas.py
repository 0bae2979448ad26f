"""A master with two replicas and three sentinels: failovers while the master lives, and lost replicas."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import httpx

from loadtest.chaos.faults import exceeded, lacks_right
from loadtest.errors import LoadTestError
from loadtest.processes import (
    RedisProcess,
    RunningProcess,
    ServiceProcess,
    find_server,
    running_service,
    wait_until,
)

REPLICAS, SENTINELS = 2, 3
LONGEST_PARTITION = 3.0
"""Seconds that both sides go on after a failover, or commits without a lost replica before one."""
FROZEN_SECONDS = 1.0
SETTLED_SECONDS = 120.0
"""Time limit for the group to have one master and its replicas again."""
LET_GO_SECONDS = 6.0
"""Until commits go on without a replica: two until sentinels miss it, three more, and a commit that is refused."""
LIMITS = ("sentinel down-after-milliseconds main 2000", "sentinel failover-timeout main 4000")
"""Of sentinels."""


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
        """Whether there is one master, and all others that run are attached to it."""
        masters, others = self.masters(), sum(each.running for each in self.servers) - 1
        return len(masters) == 1 and masters[0].information("replication").get("connected_slaves") == str(others)


class Stage(NamedTuple):
    """What failovers and partitions happen to; host n has server n, sentinels are on the hosts after these."""

    group: Group
    service: ServiceProcess
    chance: random.Random
    network: Network | None = None

    def master(self) -> RedisProcess:
        """Return the master."""
        (master,) = self.group.masters()
        return master

    def replica(self) -> RedisProcess:
        """Return one of the replicas."""
        masters = self.group.masters()
        return self.chance.choice([each for each in self.group.servers if each not in masters])

    def commits(self) -> bool:
        """Whether the service acknowledges a commit."""
        body = {"learner": {"kind": "dexp3", "n_arms": 2}}
        with suppress(httpx.TransportError):
            return httpx.post(f"{self.service.url}/v1/sessions", json=body, timeout=10).is_success
        return False

    def parted(self, *away: RedisProcess, sentinels: int = 0) -> AbstractContextManager[None]:
        """Part these servers, and so many sentinels, from all others within the block, and a while after it."""
        assert self.network is not None  # noqa: S101 - partitions are played where there is one
        count = len(self.group.servers)
        hosts = {self.group.servers.index(each) for each in away}
        hosts.update(self.chance.sample(range(count, count + SENTINELS), sentinels))
        return self.network.parted(hosts, self.chance.uniform(0, LONGEST_PARTITION))


def _then_settled(fault: Callable[[Stage], None]) -> Callable[[Stage], None]:
    """Wait after a fault until there is one master, and all others follow it."""

    def played(stage: Stage) -> None:
        fault(stage)
        wait_until(stage.group.is_settled, "the group has a master and its replicas", SETTLED_SECONDS)

    return played


@_then_settled
def planned_failover(stage: Stage) -> None:
    """Order a failover from the sentinel, again if it gives one up, and wait until the old master follows."""
    old, sentinel = stage.master(), stage.group.sentinels[0]

    def follows() -> bool:
        if f"address={old.host}:{old.port}," in sentinel.information("sentinel").get("master0", ""):
            sentinel.command("SENTINEL FAILOVER main")  # Which is refused while one is under way.
        return old not in stage.group.masters()

    wait_until(follows, "the old master follows", SETTLED_SECONDS)


@_then_settled
def promotion(stage: Stage) -> None:
    """Make a replica a master by hand; the sentinel sets it back after some seconds."""
    stage.replica().command("REPLICAOF NO ONE")


@_then_settled
def kill_master(stage: Stage) -> None:
    """SIGKILL the master, and start it again when another one is."""
    old = stage.master()
    old.end()
    wait_until(stage.group.masters, "a replica is the master", SETTLED_SECONDS)
    old.start()


@_then_settled
def freeze_replica(stage: Stage) -> None:
    """SIGSTOP a replica for a while."""
    replica = stage.replica()
    replica.send(signal.SIGSTOP)
    time.sleep(stage.chance.uniform(0.05, FROZEN_SECONDS))
    replica.send(signal.SIGCONT)


class LetGo(NamedTuple):
    """How long nothing was acknowledged, in seconds."""

    commits_after: float
    """From the death of the replica."""

    def problems(self, time_factor: float = 1.0) -> list[str]:
        """Return the exceeded time limit, multiplied by ``time_factor`` first."""
        return exceeded(self._asdict(), (LET_GO_SECONDS,), time_factor)


def lose_replica(stage: Stage) -> LetGo:
    """SIGKILL a replica for good, wait for commits without it, and let the one that is left become the master."""
    master = stage.master()
    for each in stage.group.servers:  # The one that the round before has lost.
        if not each.running:
            each.start()
            wait_until(each.answers, "a lost server starts")
            each.command(f"REPLICAOF {master.host} {master.port}")
    wait_until(stage.group.is_settled, "the group has a master and its replicas", SETTLED_SECONDS)
    stage.replica().end()
    seen = LetGo(wait_until(stage.commits, "commits go on without the replica", SETTLED_SECONDS))
    time.sleep(stage.chance.uniform(0, LONGEST_PARTITION))
    stage.chance.choice((planned_failover, kill_master))(stage)
    return seen


@_then_settled
def cut_master(stage: Stage) -> None:
    """Part the master from all others until they have another one."""
    old = stage.master()
    with stage.parted(old):
        wait_until(lambda: set(stage.group.masters()) - {old}, "a replica is the master", SETTLED_SECONDS)


@_then_settled
def cut_majority(stage: Stage) -> None:
    """Part a replica and two sentinels from the master, its other replica and the service.

    The sentinels promote the replica, while the old master and its replica go on with what the service sends.
    """
    with stage.parted(stage.replica(), sentinels=SENTINELS // 2 + 1):
        # The far side is asked by nobody, so nothing but time tells: sentinels need two seconds to miss the master.
        time.sleep(stage.chance.uniform(4, 4 + LONGEST_PARTITION))


@_then_settled
def cut_replica(stage: Stage) -> None:
    """Part a replica from all others."""
    with stage.parted(stage.replica()):
        pass


FAILOVERS = {"planned failover": planned_failover, "replica promoted": promotion}
FAILOVERS |= {"replica frozen": freeze_replica, "master killed": kill_master}
LOSSES = {"replica lost for good": lose_replica}
PARTITIONS = {"master cut off": cut_master, "majority cut off": cut_majority, "replica cut off": cut_replica}


@contextmanager
def staged_group(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[Stage]:
    """Start the servers, the sentinels and the service; end them in any case."""
    with ExitStack() as stack:
        group = start_group(stack, data, logs, (Place(),) * (REPLICAS + 1), (Place(),) * SENTINELS)
        yield _with_service(stack, group, logs, seed, flags)


@contextmanager
def staged_network(data: Path, logs: Path, seed: int, *flags: str) -> Iterator[Stage]:
    """Start three servers and three sentinels on a host each, and the service; end them in any case."""
    count = REPLICAS + 1
    with Network(count + SENTINELS) as network, ExitStack() as stack:
        places = [network.place(host) for host in range(count + SENTINELS)]
        group = start_group(stack, data, logs, places[:count], places[count:])
        yield _with_service(stack, group, logs, seed, flags)._replace(network=network)


def _with_service(stack: ExitStack, group: Group, logs: Path, seed: int, flags: Sequence[str]) -> Stage:
    words = ("--workers", "2", "--store-url", group.url, "--min-replicas", "1", "--store-timeout-seconds", "1")
    service = stack.enter_context(running_service(logs, *words, *flags))
    return Stage(group, service, random.Random(seed))  # noqa: S311 - a repeatable plan


class Place(NamedTuple):
    """Where a server runs: its address, and the words that start a program there."""

    host: str = "127.0.0.1"
    launcher: Sequence[str] = ()


def start_group(
    stack: ExitStack, data: Path, logs: Path, servers: Sequence[Place], sentinels: Sequence[Place]
) -> Group:
    """Start a master with its replicas, and sentinels that watch it; ``stack`` ends them."""
    group = Group([], [])

    def start(process: RedisProcess) -> RedisProcess:
        process.start()
        stack.callback(RunningProcess.end, process)
        wait_until(process.answers, "a server of the group starts")
        return process

    for number, place in enumerate(servers):
        (folder := data / f"server-{number}").mkdir()
        master = group.servers[0] if group.servers else None
        follow = ("--replicaof", f"{master.host} {master.port}") if master else ()
        flags = ("--repl-diskless-sync-delay", "0", "--protected-mode", "no", *follow)
        group.servers.append(start(RedisProcess(folder, logs, *flags, host=place.host, launcher=place.launcher)))
    for number, place in enumerate(sentinels):
        (folder := data / f"sentinel-{number}").mkdir()
        sentinel = RedisProcess(folder, logs, host=place.host, launcher=place.launcher)
        address = (f"port {sentinel.port}", f"bind {place.host}", "protected-mode no", f"dir {folder}")
        watched = f"main {group.servers[0].host} {group.servers[0].port} {len(sentinels) // 2 + 1}"
        (file := folder / "sentinel.conf").write_text(
            "\n".join((*address, f"sentinel monitor {watched}", *LIMITS, ""))
        )
        sentinel.command_line = [*place.launcher, find_server(), str(file), "--sentinel"]
        group.sentinels.append(start(sentinel))
    wait_until(group.is_settled, "the replicas are attached")
    return group


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
        self._hub, self._hosts = f"bd{os.getpid()}", hosts
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
            name, link = f"{self._hub}-{host}", f"host{host}"
            _ip("netns", "add", name)
            self._in_hub("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            self._in_hub("link", "set", link, "master", NEAR, "up")
            _ip("-n", name, "address", "add", f"{self.place(host).host}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", name, "link", "set", device, "up")
        return self

    def __exit__(self, *_: object) -> None:
        # The link goes with its namespace too, but some time after it.
        names = (self._hub, *(f"{self._hub}-{host}" for host in range(self._hosts)))
        for words in (("link", "delete", self._hub), *(("netns", "delete", name) for name in names)):
            subprocess.run(["ip", *words], capture_output=True, check=False)  # noqa: S603, S607

    def place(self, host: int) -> Place:
        """Return where a server on this host runs."""
        return Place(f"{self._prefix}.{10 + host}", ("ip", "netns", "exec", f"{self._hub}-{host}"))

    @contextmanager
    def parted(self, away: Collection[int], seconds: float) -> Iterator[None]:
        """Cut these hosts off from all others and from the service, within the block and so long after it."""
        for host in away:
            self._in_hub("link", "set", f"host{host}", "master", FAR)
        yield
        time.sleep(seconds)
        for host in away:
            self._in_hub("link", "set", f"host{host}", "master", NEAR)

    def _in_hub(self, *words: str) -> None:
        _ip("-n", self._hub, *words)


def _ip(*words: str) -> None:
    """Run ``ip``; its namespaces, links and addresses."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if done.returncode:
        raise LoadTestError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def lacks_namespaces() -> str | None:
    """Why networks can't be parted here, None where they can."""
    return lacks_right("ip", "make network namespaces", lambda: Network(1))
