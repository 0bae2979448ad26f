"""A real Prometheus that scrapes a service every second, with the alerts of deploy/monitoring/."""

import math
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from loadtest.processes import free_port
from tests.support.http import http_client
from tests.support.pages import ROOT
from tests.support.programs import program
from tests.support.waiting import SECONDS, wait_until

MONITORING = ROOT / "deploy/monitoring"
RATE_INTERVAL = "30s"
"""What Grafana would put for ``$__rate_interval``; the service is scraped every second."""


@contextmanager
def scraping(service_url: str, folder: Path) -> Iterator[httpx.Client]:
    """A client of a Prometheus with the shipped configuration, but for the address and how often it scrapes."""
    text = (MONITORING / "prometheus.yml").read_text()
    text = text.replace("127.0.0.1:8000", service_url.removeprefix("http://")).replace(
        "interval: 15s", "interval: 1s"
    )
    config = folder / "prometheus.yml"
    config.write_text(text.replace("[alerts.yml]", f"[{MONITORING / 'alerts.yml'}]"))
    port = free_port()
    flags = [
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([program("prometheus"), *flags], stderr=log) as process,
    ):
        try:
            with http_client(f"http://127.0.0.1:{port}") as client:
                wait_until(lambda: _is_ready(client))
                yield client
        finally:
            process.terminate()
            process.wait(SECONDS)


def _is_ready(client: httpx.Client) -> bool:
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def results(client: httpx.Client, query: str) -> list[dict[str, Any]]:
    """What a query of the dashboard gives, its variables as Grafana replaces them; NaN is no result."""
    query = query.replace("$__rate_interval", RATE_INTERVAL).replace("$instance", ".*")
    answer = client.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", (query, answer)
    return [each for each in answer["data"]["result"] if not math.isnan(float(each["value"][1]))]


def metrics_of(query: str) -> set[str]:
    """The service's metrics in a query, as docs/metrics.md names them."""
    names = re.findall(r"\bbandit_\w+", query)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
