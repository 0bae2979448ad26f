"""A master, its replica and sentinels that watch them: real servers."""

from contextlib import ExitStack
from pathlib import Path

from tests.support.real_redis import RedisServer
from tests.support.waiting import wait_until

TIMES = ("down-after-milliseconds main 500", "failover-timeout main 2000")


class Watched:
    """The servers, and as many replicas and sentinels as are wanted; the first replica is promoted first."""

    def __init__(self, folder: Path, stack: ExitStack, replicas: int = 1, sentinels: int = 1) -> None:
        self.master = self._server(stack, folder / "master", "--repl-diskless-sync-delay", "0")
        follow = ("--replicaof", f"127.0.0.1 {self.master.port}", "--repl-diskless-sync-delay", "0")
        self.replicas = [
            self._server(stack, folder / f"replica-{n}", *follow, "--replica-priority", str(n + 1))
            for n in range(replicas)
        ]
        self.replica = self.replicas[0]
        wait_until(lambda: self.replicas_confirm(replicas))
        settings = (f"monitor main 127.0.0.1 {self.master.port} {sentinels // 2 + 1}", *TIMES)
        self.sentinels = [RedisServer(folder / f"sentinel-{n}", "--sentinel") for n in range(sentinels)]
        self.sentinel = self.sentinels[0]
        for each in self.sentinels:
            each.configure("".join(f"sentinel {line}\n" for line in settings))
            stack.callback(each.close)
            each.start()
        wait_until(lambda: all(self._knows(each, replicas, sentinels) for each in self.sentinels))

    @staticmethod
    def _knows(sentinel: RedisServer, replicas: int, sentinels: int) -> bool:
        main = sentinel.client.sentinel_masters()["main"]
        return bool(main["num-slaves"] == replicas and main["num-other-sentinels"] == sentinels - 1)

    @staticmethod
    def _server(stack: ExitStack, folder: Path, *arguments: str) -> RedisServer:
        folder.mkdir()
        server = RedisServer(folder, *arguments)
        stack.callback(server.close)
        return server.start()

    def replicas_confirm(self, number: int) -> bool:
        """Whether so many replicas confirm a write.

        A replica calls its link up before its master waits for it.
        """
        self.master.client.eval("redis.call('SET', KEYS[1], '') redis.call('DEL', KEYS[1])", 1, "written")
        return bool(self.master.client.wait(number, 100) >= number)

    def in_step(self) -> bool:
        """Whether the replica has all that the master has."""
        here, there = (server.client.info("replication") for server in (self.master, self.replica))
        return bool(here["master_repl_offset"] == there["slave_repl_offset"] > 0)

    @property
    def url(self) -> str:
        addresses = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        return f"redis+sentinel://127.0.0.1:1,{addresses}/main"
