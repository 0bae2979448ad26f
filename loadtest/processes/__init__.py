"""Redis and the service as child processes that can be killed, frozen and started again."""

from __future__ import annotations

from loadtest.processes.ports import free_port, is_free
from loadtest.processes.redis_process import RedisProcess, find_server, packaged_server, running_redis, started
from loadtest.processes.running import RunningProcess
from loadtest.processes.service_process import ServiceProcess, running_service
from loadtest.processes.waiting import wait_until

__all__ = [
    "RedisProcess",
    "RunningProcess",
    "ServiceProcess",
    "find_server",
    "free_port",
    "is_free",
    "packaged_server",
    "running_redis",
    "running_service",
    "started",
    "wait_until",
]
