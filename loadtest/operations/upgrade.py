"""Upgrades between two builds under load, and the ways back, carried out by what each kind of deployment ships."""

from __future__ import annotations

import configparser
import json
import os
import secrets
import shlex
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.chaos.rounds import load_during
from loadtest.errors import LoadTestError
from loadtest.operations.cluster import Cluster
from loadtest.operations.front import nginx_before
from loadtest.processes import RunningProcess, free_port, running_redis, wait_until

OVERLAY = Path("deploy/kubernetes/production")
UNIT, UNITS_SCRIPT = Path("deploy/systemd/bandit@.service"), Path("deploy/systemd/rolling-upgrade.sh")
REPLICAS = 3
SLOWEST = 15
"""Seconds that nginx must wait if the store's time limits are the service's own: docs/deployment.md."""
PAUSE = 0.05
"""Seconds between two turns of a client: a load that a cluster without an ingress carries, too."""
HEAD = ("upgrade", "way", "calls", "5xx", "cut", "slots", "events", "slowest", "seconds", "audit")


class Stage(NamedTuple):
    """A deployment that serves."""

    url: str
    api_key: str
    upgrade: Callable[[Path], object]
    """Goes to the build in a folder; returns something true if it fails."""
    told: Callable[[], Sequence[str]]
    """What happened; what must not begins with WRONG, behind a time."""


def new_keys() -> tuple[str, str]:
    """Return a new API key of role admin, and the JSON that gives it to the service."""
    key = secrets.token_urlsafe(32)
    return key, json.dumps([{"name": "ops", "role": "admin", "key": key}])


@contextmanager
def kubernetes(old: Path, folder: Path, *, behind_nginx: bool) -> Iterator[Stage]:
    """Pods of the rendered manifest; clients reach the Service, or an ingress that hashes between ready pods."""
    key, keys = new_keys()
    (data := folder / "data").mkdir()
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis(data, folder))
        secret = {"store-url": f"redis://127.0.0.1:{redis.port}/0", "api-keys": keys}
        secret |= {"token-keys": secrets.token_urlsafe(32), "metrics-key": key}
        cluster = Cluster(OVERLAY, secret, folder / "pods")
        address, *places = stack.enter_context(cluster.serving(old))
        url = stack.enter_context(nginx_before(places, folder, SLOWEST)) if behind_nginx else f"http://{address}"
        yield Stage(url, key, cluster.roll, lambda: cluster.told)


@contextmanager
def systemd(old: Path, folder: Path) -> Iterator[Stage]:
    """Instances of the shipped unit behind nginx; a program ``systemctl`` of this rehearsal restarts them."""
    text = UNIT.read_text("utf-8")
    unit = configparser.RawConfigParser(strict=False)
    unit.read_string(text)
    words, longest = shlex.split(unit["Service"]["ExecStart"]), float(unit["Service"]["TimeoutStopSec"])
    key, keys = new_keys()
    (data := folder / "data").mkdir()
    told: list[str] = []
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis(data, folder))
        own = {"BANDIT_STORE_URL": f"redis://127.0.0.1:{redis.port}/0", "BANDIT_API_KEYS": keys}
        own |= {"BANDIT_DRAIN_SECONDS": "2"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
        units: dict[str, RunningProcess] = {}
        for _ in range(REPLICAS):
            port = str(free_port())
            command = [sys.executable, "-m", "service", *(word.replace("%i", port) for word in words[1:])]
            units[f"bandit@{port}"] = RunningProcess(command, folder / f"{port}.log", kept | own, old)
        for unit_process in units.values():
            unit_process.start()
            stack.callback(unit_process.end)

        def systemctl(verb: str, name: str) -> None:
            began = time.monotonic()
            code = units[name].end(signal.SIGTERM)
            seconds = time.monotonic() - began
            wrong = "WRONG: " if code or seconds > longest or verb != "restart" else ""
            told.append(f"{wrong}{verb} {name}: ended with {code} after {seconds:.1f} s")
            units[name].start()

        ports = [name.rpartition("@")[2] for name in units]
        programs = stack.enter_context(_program("systemctl", systemctl))
        url = stack.enter_context(nginx_before([f"127.0.0.1:{port}" for port in ports], folder, SLOWEST))

        def upgrade(build: Path) -> object:
            for each in units.values():
                each.folder = build
            environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
            return subprocess.call(["sh", str(UNITS_SCRIPT), *ports], env=environment)  # noqa: S603, S607

        wait_until(lambda: all("serves" in each.log.read_text() for each in units.values()), "the units serve")
        yield Stage(url, key, upgrade, lambda: told)


@contextmanager
def _program(name: str, carry_out: Callable[..., None]) -> Iterator[Path]:
    """Make a program whose calls this process carries out: the folder that it is in."""

    class Asked(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            carry_out(*json.loads(self.rfile.readline()))
            self.wfile.write(b"done")

    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        text = f"""#!{sys.executable}
import json, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({str(place / "socket")!r})
    asked.sendall(json.dumps(sys.argv[1:]).encode() + b"\\n")
    sys.exit(asked.recv(4) != b"done")
"""
        (place / name).write_text(text, "utf-8")
        (place / name).chmod(0o755)
        with socketserver.ThreadingUnixStreamServer(str(place / "socket"), Asked) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield place
            server.shutdown()


@contextmanager
def compose(old: Path, folder: Path) -> Iterator[Stage]:
    """Containers of docker-compose.yml behind its nginx, built from a checkout with the service of a build."""
    if shutil.which("docker") is None:
        raise LoadTestError("no docker found")
    key, keys = new_keys()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
    environment |= {"SERVICE_PORT": "0", "NGINX_PORT": "0", "COMPOSE_PROJECT_NAME": "bandit-upgrade"}
    environment |= {"BANDIT_API_KEYS": keys}

    def docker(place: Path, *words: str) -> str:
        command = ["docker", "compose", "--profile", "nginx", *words]
        done = subprocess.run(command, env=environment, cwd=place, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise LoadTestError(f"{shlex.join(command)} ended with {done.returncode}")
        return done.stdout.strip()

    def upgrade(build: Path) -> object:
        place = _checkout(build, folder / build.name)
        return subprocess.call(["sh", "deploy/compose/rolling-upgrade.sh"], env=environment, cwd=place)  # noqa: S607

    place = _checkout(old, folder / old.name)
    try:
        docker(place, "up", "-d", "--build", "--wait", "--scale", f"service={REPLICAS}")
        yield Stage(f"http://{docker(place, 'port', 'nginx', '8080')}", key, upgrade, tuple)
    finally:
        (folder / "compose.log").write_text(docker(place, "logs", "--no-color"), "utf-8")
        docker(place, "down", "--volumes")


def _checkout(build: Path, folder: Path) -> Path:
    """Copy what an image is built from, with the service of a build."""
    if not folder.exists():
        (folder / "docs").mkdir(parents=True)
        for name in ("Dockerfile", ".dockerignore", "docker-compose.yml", "requirements.lock", "docs/nginx.conf"):
            shutil.copy(name, folder / name)
        shutil.copytree("deploy", folder / "deploy")
        shutil.copytree(build / "service", folder / "service", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


class Way(StrEnum):
    """What is upgraded."""

    KUBERNETES = "kubernetes"
    INGRESS = "ingress"
    SYSTEMD = "systemd"
    COMPOSE = "compose"


WAYS: Mapping[Way, Callable[[Path, Path], AbstractContextManager[Stage]]] = {
    Way.KUBERNETES: partial(kubernetes, behind_nginx=False),
    Way.INGRESS: partial(kubernetes, behind_nginx=True),
    Way.SYSTEMD: systemd,
    Way.COMPOSE: compose,
}


def rehearse(way: Way, old: Path, new: Path, out: Path) -> list[dict[str, Any]]:
    """Upgrade under load and go back: a summary of each, with what is wrong as ``problems``."""
    shutil.rmtree(folder := (out / way).absolute(), ignore_errors=True)
    folder.mkdir(parents=True)
    found = []
    with WAYS[way](old.absolute(), folder) as stage:
        for name, build in (("there", new), ("back", old)):
            began = time.monotonic()
            happen = partial(stage.upgrade, build.absolute())
            summary = load_during(happen, stage.url, outage=True, api_key=stage.api_key, pause=PAUSE)
            seconds = time.monotonic() - began
            summary["problems"] += [f"{count} times {reason}" for reason, count in summary["retries"].items()]
            found.append({"upgrade": way, "way": name, "seconds": round(seconds), **summary})
        told = stage.told()
        found[-1]["problems"] += [each for each in told if "WRONG" in each]
        (folder / "told.txt").write_text("\n".join(told) + "\n", "utf-8")
    return found


def row(found: Mapping[str, Any]) -> Sequence[str]:
    """Return the cells of ``HEAD``."""
    refused = sum(count for reason, count in found["retries"].items() if reason.startswith("status"))
    cut = sum(found["retries"].values()) - refused
    numbers = (found["calls"], refused, cut, found["acts"], found["events"])
    times = (f"{found['slowest_ms']} ms", str(found["seconds"]))
    audit = f"{len(found['problems'])} wrong" if found["problems"] else "exact"
    return found["upgrade"], found["way"], *map(str, numbers), *times, audit
