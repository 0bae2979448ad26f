"""Drills: replicas behind nginx with API keys, Prometheus and the shipped alerts; each trouble fires its alert.

Durations in rules and configuration are divided by a factor, so that a drill need not take an hour; nothing else of
what is shipped is changed but addresses and paths.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from loadtest.chaos.audit import audit
from loadtest.chaos.load import Load, connection, open_sessions
from loadtest.chaos.rounds import AROUND_SECONDS, clients_of, load_during
from loadtest.client import Client
from loadtest.errors import LoadTestError, ServiceError
from loadtest.operations.front import nginx_before, serving
from loadtest.operations.upgrade import PAUSE, REPLICAS, new_keys
from loadtest.processes import RedisProcess, RunningProcess, ServiceProcess, free_port, started, wait_until

MONITORING = Path("deploy/monitoring")
LONGEST_SECONDS = 1800.0
"""For which an alert is waited for, at factor 1."""
MARGIN_SECONDS = 30.0
"""More than that, at any factor."""
MEGABYTE = 1 << 20
STORE_BYTES = 48 * MEGABYTE
HEAD = ("drill", "alert", "fired after", "resolved after", "other alerts", "calls", "sent again", "audit")


class Place(NamedTuple):
    """An installation."""

    redis: RedisProcess
    replicas: Sequence[ServiceProcess]
    client: Client
    prometheus: str
    factor: float
    data: Path

    def firing(self) -> list[tuple[str, str]]:
        """Return the alerts that fire, each with its instance or nothing."""
        found = httpx.get(f"{self.prometheus}/api/v1/alerts", timeout=10).json()["data"]["alerts"]
        firing = (each["labels"] for each in found if each["state"] == "firing")
        return [(each["alertname"], each.get("instance", "")) for each in firing]

    def wait(self, alert: str, instances: int, others: set[str]) -> float:
        """Wait until an alert fires for so many instances: the seconds. Others that fire are added."""

        def holds() -> bool:
            firing = self.firing()
            others.update(name for name, _ in firing if name != alert)
            time.sleep(0.2)
            return sum(name == alert for name, _ in firing) == instances

        what = f"{alert} fires for {instances} instances, or is resolved at 0"
        return wait_until(holds, what, LONGEST_SECONDS / self.factor + MARGIN_SECONDS)


@contextmanager
def installed(folder: Path, factor: float) -> Iterator[Place]:
    """Start everything from nothing, and wait until it serves and no alert fires."""
    (data := folder / "data").mkdir(parents=True)
    key, keys = new_keys()
    (folder / "keys.json").write_text(keys, "utf-8")
    with ExitStack() as stack:
        limits = ("--maxmemory", str(STORE_BYTES), "--maxmemory-policy", "noeviction")
        redis = stack.enter_context(started(RedisProcess(data, folder, *limits)))
        flags = ["--store-url", f"redis://127.0.0.1:{redis.port}/0", "--api-keys-file", str(folder / "keys.json")]
        flags += ["--store-timeout-seconds", "0.5", "--store-budget-seconds", "0.5", "--drain-seconds", "2"]
        replicas = []
        for number in range(REPLICAS):
            (logs := folder / f"replica-{number}").mkdir()
            replicas.append(ServiceProcess(logs, *flags, temporary=str(logs)))
            stack.callback(replicas[-1].end)
        _start(replicas)
        url = stack.enter_context(nginx_before(_name(folder, replicas), folder))
        client = stack.enter_context(connection(url, api_key=key))
        prometheus = stack.enter_context(_prometheus(key, folder, factor))
        place = Place(redis, replicas, client, prometheus, factor, data)
        wait_until(
            lambda: _scraped(prometheus) == REPLICAS and not place.firing(), "all is scraped, no alert fires"
        )
        yield place


def _name(folder: Path, replicas: Sequence[ServiceProcess]) -> Sequence[str]:
    """Let Prometheus find these, as a compose service's name leads to the containers that run: their addresses."""
    addresses = [f"127.0.0.1:{each.port}" for each in replicas]
    (folder / "targets.json").write_text(json.dumps([{"targets": addresses}]), "utf-8")
    return addresses


def _start(replicas: Sequence[ServiceProcess]) -> None:
    for replica in replicas:
        replica.start()
    for replica in replicas:
        wait_until(replica.ready, "a replica is ready")


@contextmanager
def _prometheus(key: str, folder: Path, factor: float) -> Iterator[str]:
    """Start Prometheus with the shipped configuration and alerts, their times divided: its URL."""
    if (program := shutil.which("prometheus")) is None:
        raise LoadTestError("no prometheus found: install one (Debian: prometheus)")

    def divided(found: re.Match[str]) -> str:
        seconds = int(found[2]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[3]] / factor
        return f"{found[1]}{max(1, round(1000 * seconds))}ms"

    (folder / "metrics-key").write_text(key, "utf-8")
    for name in ("alerts.yml", "containers-alerts.yml"):
        rules = re.sub(r"(\bfor: |\[)(\d+)([smhd])\b", divided, (MONITORING / name).read_text("utf-8"))
        (folder / name).write_text(rules, "utf-8")
    text = re.sub(r"(interval: )(\d+)([smhd])\b", divided, (MONITORING / "containers.yml").read_text("utf-8"))
    interval = re.findall(r"scrape_interval: (\w+)", text)[0]
    text = text.replace("global:\n", f"global:\n  scrape_timeout: {interval}\n")
    text = re.sub(r"dns_sd_configs: \[{.*, (?=refresh)", "file_sd_configs: [{files: [targets.json], ", text)
    text = text.replace("/run/secrets/metrics_key", str(folder / "metrics-key"))
    (folder / "prometheus.yml").write_text(text, "utf-8")
    port = free_port()
    flags = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    flags.append(f"--web.listen-address=127.0.0.1:{port}")
    with serving(RunningProcess([program, *flags], folder / "prometheus.log"), port):
        yield f"http://127.0.0.1:{port}"


def _scraped(prometheus: str) -> int:
    """Return how many replicas are scraped."""
    query = {"query": "bandit_ready == 1"}
    answer = httpx.get(f"{prometheus}/api/v1/query", params=query, timeout=10)
    return len(answer.json()["data"]["result"]) if answer.is_success else 0  # It refuses while it starts.


class Trouble(NamedTuple):
    """What happens, and which alert it fires."""

    alert: str
    instances: int
    begin: Callable[[Place], object]
    mend: Callable[[Place], object]


FREEZE_AND_THAW = signal.SIGSTOP, signal.SIGCONT


def _send(place: Place, number: signal.Signals) -> None:
    replica = place.replicas[0]
    for pid in (replica.pid, *replica.workers()):
        os.kill(pid, number)


def _end(place: Place) -> None:
    """End a replica of which Prometheus learns no more."""
    place.replicas[0].end()
    _name(place.data.parent, place.replicas[1:])


def _begin(place: Place) -> None:
    place.replicas[0].start()
    _name(place.data.parent, place.replicas)


def _fill(place: Place) -> None:
    """Create large sessions until the store is nearly full."""
    label = "a" * 90
    for number in range(1000):
        used, limit = (int(place.redis.information("memory")[name]) for name in ("used_memory", "maxmemory"))
        if used > 0.85 * limit:
            return
        arms = [f"{label}{number}-{arm}" for arm in range(10_000)]
        body = {"session_id": f"large-{number}", "learner": {"kind": "dexp3", "arms": arms}}
        place.client.call("create", "POST", "/v1/sessions", body)


def _overfill_and_enlarge(place: Place) -> None:
    """Let it be full, see what clients are told, and do what the alert says."""
    used = int(place.redis.information("memory")["used_memory"])
    place.redis.command(f"CONFIG SET maxmemory {used}")
    with connection(place.client.url, 0, api_key=place.client.api_key) as impatient:
        try:
            body = {"learner": {"kind": "dexp3", "arms": ["a" * 100 + str(arm) for arm in range(10_000)]}}
            impatient.call("create", "POST", "/v1/sessions", body)
        except ServiceError as error:
            if "503" not in str(error):
                raise
        else:
            raise LoadTestError("a full store takes a session")
    place.redis.command(f"CONFIG SET maxmemory {4 * used}")


SHOP = "/v1/sessions/drill-shop"
CLICKS = 120
"""A silence needs 100 clicks before it, and 30 that are due."""


def _visit(place: Place, *, clicks: bool) -> None:
    for number in range(CLICKS):
        act = place.client.call("act", "POST", f"{SHOP}/act")
        if clicks:
            event = {"arm": act["arm"], "reward": 1, "event_id": f"{act['slot']}-{number}"}
            place.client.call("feedback", "POST", f"{SHOP}/feedback", event)


def _fall_silent(place: Place) -> None:
    expiry = {"after_seconds": 1, "default_reward": 0}
    body = {"session_id": "drill-shop", "learner": {"kind": "centred_tsallis", "n_arms": 3}}
    place.client.call("create", "POST", "/v1/sessions", body | {"reward_range": [0, 1], "expiry": expiry})
    _visit(place, clicks=True)
    _visit(place, clicks=False)


TROUBLES: Mapping[str, Trouble] = {
    "store-dies": Trouble("BanditNotReady", REPLICAS, lambda at: at.redis.end(), lambda at: at.redis.start()),
    "store-fills": Trouble("BanditStoreFills", REPLICAS, _fill, _overfill_and_enlarge),
    "replica-hangs": Trouble("BanditDown", 1, *(partial(_send, number=each) for each in FREEZE_AND_THAW)),
    "replica-dies": Trouble("BanditDown", 1, lambda at: at.replicas[0].end(), lambda at: at.replicas[0].start()),
    "container-ends": Trouble("BanditMissing", 1, _end, _begin),
    "clicks-stop": Trouble("BanditSilence", 1, _fall_silent, partial(_visit, clicks=True)),
}
RESTORE = "restore"
NAMES = [*TROUBLES, RESTORE]


def drill(name: str, place: Place) -> dict[str, Any]:
    """Let a trouble happen under load, wait for its alert, mend it, wait until it is resolved, and audit."""
    trouble, times, others = TROUBLES[name], dict[str, float](), set[str]()

    def happen() -> None:
        trouble.begin(place)
        times["fired"] = place.wait(trouble.alert, trouble.instances, others)
        trouble.mend(place)
        times["resolved"] = place.wait(trouble.alert, 0, others)

    found = load_during(happen, place.client.url, outage=True, api_key=place.client.api_key, pause=PAUSE)
    return {"drill": name, "alert": trouble.alert, **times, "others": sorted(others), **found}


def restore(place: Place) -> dict[str, Any]:
    """Back up under load, lose the store with its disk, restore it, and audit what was there before."""
    began, backup = time.monotonic(), place.data.parent / "backup"
    url, key = place.client.url, place.client.api_key
    with ExitStack() as stack:
        clients = clients_of(stack, url, 60.0, api_key=key)
        before = open_sessions(clients[0], f"before-{secrets.token_hex(4)}")
        with Load(clients, before, PAUSE).running():
            time.sleep(AROUND_SECONDS)
        with Load(clients, open_sessions(clients[0], f"meanwhile-{secrets.token_hex(4)}"), PAUSE).running():
            command = [sys.executable, "deploy/backup/backup.py", str(place.data), str(backup)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
            time.sleep(AROUND_SECONDS)
    place.redis.end()
    shutil.rmtree(place.data)
    lost = time.monotonic()
    for replica in place.replicas:
        replica.end(signal.SIGTERM)
    words = {str(place.data): str(backup), str(STORE_BYTES): str(4 * STORE_BYTES)}  # As another drill enlarged it.
    place.redis.command_line = [words.get(word, word) for word in place.redis.command_line]
    place.redis.start()
    wait_until(place.redis.answers, "the restored store answers")
    _start(place.replicas)
    seconds = time.monotonic() - lost
    problems = []
    for ledger in before:
        problems += audit(place.client, ledger)
        slot = place.client.call("act", "POST", f"{ledger.path}/act")["slot"]
        if ledger.is_named and slot != ledger.slots + 1:
            problems.append(f"{ledger.session_id} goes on at slot {slot} behind {ledger.slots}")
    after = load_during(lambda: time.sleep(AROUND_SECONDS), url, outage=True, api_key=key, pause=PAUSE)
    after["problems"] = problems + after["problems"]
    facts = {"drill": RESTORE, "alert": "", "fired": 0.0, "resolved": seconds, "others": []}
    return facts | after | {"seconds": time.monotonic() - began}


def play(names: Sequence[str], out: Path, factor: float, advance: Callable[[], object]) -> list[dict[str, Any]]:
    """Play drills, in this order, on one installation."""
    shutil.rmtree(folder := (out / "place").absolute(), ignore_errors=True)
    found = []
    with installed(folder, factor) as place:
        for name in names:
            found.append(restore(place) if name == RESTORE else drill(name, place))
            advance()
    return found


def row(found: Mapping[str, Any]) -> Sequence[str]:
    """Return the cells of ``HEAD``."""
    audited = f"{len(found['problems'])} wrong" if found["problems"] else "exact"
    times = (f"{found[name]:.0f} s" for name in ("fired", "resolved"))
    counts = (str(found["calls"]), str(sum(found["retries"].values())))
    return found["drill"], found["alert"], *times, ", ".join(found["others"]), *counts, audited
