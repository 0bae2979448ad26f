"""A cluster of three masters, each with a replica, of real servers."""

from contextlib import ExitStack
from pathlib import Path

from redis.crc import key_slot
from redis.exceptions import ResponseError

from loadtest.processes import free_port
from tests.support.real_redis import RedisServer
from tests.support.waiting import wait_until

SLOTS = 16384
TIMES = "--cluster-node-timeout 1000 --repl-diskless-sync-delay 0 --cluster-replica-validity-factor 0"
STAY = "--cluster-allow-replica-migration no"
"""Else a second replica would leave for a master that has none."""


class Cluster:
    """Nodes 0-2 are masters of a third of the slots each, 3-5 their replicas."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.nodes = [self._node(stack, folder / str(n)) for n in range(6)]
        first = self.nodes[0].client
        for n, node in enumerate(self.nodes):
            node.client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        for node in self.nodes[1:]:
            first.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, node.bus_port)
        for n in range(3):
            ends = SLOTS * n // 3, SLOTS * (n + 1) // 3 - 1
            self.nodes[n].client.execute_command("CLUSTER", "ADDSLOTSRANGE", *ends)
        wait_until(lambda: all(state(node)["cluster_known_nodes"] == "6" for node in self.nodes))
        for n in range(3):
            name = self.nodes[n].client.execute_command("CLUSTER", "MYID").decode()
            wait_until(lambda n=n, name=name: follows(self.nodes[n + 3], name))
        wait_until(lambda: all(state(node)["cluster_state"] == "ok" for node in self.nodes))
        wait_until(lambda: all(map(self.in_step, range(3))))

    @staticmethod
    def _node(stack: ExitStack, folder: Path) -> RedisServer:
        folder.mkdir()
        bus_port = free_port()
        flags = f"--cluster-enabled yes --cluster-port {bus_port} {TIMES} {STAY}".split()
        server = RedisServer(folder, *flags)
        server.bus_port = bus_port
        stack.callback(server.close)
        return server.start()

    def in_step(self, n: int) -> bool:
        """Whether a master's replica has all that it has."""
        here, there = (self.nodes[at].client.info("replication") for at in (n, n + 3))
        linked = there.get("master_link_status") == "up"
        return bool(linked and here["master_repl_offset"] == there["slave_repl_offset"])

    def master_of(self, session_id: str) -> int:
        return key_slot(session_id.encode()) * 3 // SLOTS

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:1,127.0.0.1:{self.nodes[0].port},127.0.0.1:{self.nodes[1].port}"


def state(node: RedisServer) -> dict[str, str]:
    found: dict[str, str] = node.client.execute_command("CLUSTER INFO")
    return found


def follows(node: RedisServer, master: str) -> bool:
    """Make a node a replica, which it refuses until it has heard of the master."""
    try:
        return bool(node.client.execute_command("CLUSTER", "REPLICATE", master))
    except ResponseError:
        return False
