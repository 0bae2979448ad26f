"""The alerts and the dashboard of deploy/monitoring/: they ask for what there is, and work in a real Prometheus."""

import json
import math
import re
import subprocess
from contextlib import contextmanager

import httpx
import pytest
import yaml

from loadtest.processes import free_port
from service.api.middleware import labels
from service.telemetry.metrics import Metrics
from tests.support.http import http_client
from tests.support.pages import ROOT
from tests.support.programs import program
from tests.support.running import RunningService, create
from tests.support.waiting import SECONDS, wait_until

MONITORING = ROOT / "deploy/monitoring"
RATE_INTERVAL = "30s"
"""What Grafana would put for ``$__rate_interval``; the service is scraped every second."""


@contextmanager
def scraping(service_url, folder):
    """A client of a Prometheus with the shipped configuration, but for the address and how often it scrapes."""
    text = (MONITORING / "prometheus.yml").read_text()
    text = text.replace("127.0.0.1:8000", service_url.removeprefix("http://"))
    text = text.replace("interval: 15s", "interval: 1s")
    config = folder / "prometheus.yml"
    config.write_text(text.replace("[alerts.yml]", f"[{MONITORING / 'alerts.yml'}]"))
    port = free_port()
    flags = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    flags += [f"--web.listen-address=127.0.0.1:{port}"]
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


def _is_ready(client):
    try:
        return client.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False


def results(client, query):
    """What a query of the dashboard gives, its variables as Grafana replaces them; NaN is no result."""
    query = query.replace("$__rate_interval", RATE_INTERVAL).replace("$instance", ".*")
    answer = client.get("/api/v1/query", params={"query": query}).json()
    assert answer["status"] == "success", (query, answer)
    return [each for each in answer["data"]["result"] if not math.isnan(float(each["value"][1]))]


def metrics_of(query):
    """The service's metrics in a query, as docs/metrics.md names them."""
    names = re.findall(r"\bbandit_\w+", query)
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


FILES = ("alerts", "containers-alerts")
GROUPS = [group for name in FILES for group in yaml.safe_load((MONITORING / f"{name}.yml").read_text())["groups"]]
RULES = [rule for group in GROUPS for rule in group["rules"]]
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
ASKED = [*(rule["expr"] for rule in RULES), *QUERIES]


@pytest.fixture(scope="module")
def catalogue():
    """Name of each metric to its labels."""
    return {
        family.name + ("_total" if family.type == "counter" else ""): {
            name for sample in family.samples for name in sample.labels
        }
        for family in Metrics(labels()).registry.collect()
    }


@pytest.mark.parametrize("query", ASKED)
def test_every_metric_is_in_the_catalogue(catalogue, query):
    assert metrics_of(query) <= catalogue.keys()
    assert "bandit_" in query or "up{" in query


def test_every_selected_label_is_of_its_metric(catalogue):
    selectors = [
        (name, label)
        for query in ASKED
        for name, inside in re.findall(r"\b(bandit_\w+)\{([^}]*)\}", query.replace("{session_id}", ""))
        for label in re.findall(r"(\w+)(?:=|!=|=~|!~)\"", inside)
    ]

    assert selectors
    for name, label in selectors:
        (metric,) = metrics_of(name)
        assert label in catalogue[metric] | {"instance"}, (name, label)


def test_panels_have_names_and_places_of_their_own():
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]

    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places) == len(set(places))
    assert len({panel["title"] for panel in DASHBOARD["panels"]}) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)


def test_every_alert_says_what_to_do_and_is_tried():
    tried = [yaml.safe_load((MONITORING / f"{name}.test.yml").read_text())["tests"] for name in FILES]

    assert [test["name"] for tests in tried for test in tests] == [
        "good health",
        *(rule["alert"] for rule in RULES),
    ]
    for rule in RULES:
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in {"page", "ticket"}


@pytest.mark.servers("promtool")
@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", *(f"{name}.yml" for name in FILES)),
        ("test", "rules", *(f"{name}.test.yml" for name in FILES)),
        ("check", "config", "prometheus.yml"),
        ("check", "config", "--syntax-only", "containers.yml"),  # It names a secret of the container.
    ],
)
def test_promtool_finds_no_fault(command):
    done = subprocess.run(["promtool", *command], cwd=MONITORING, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.servers("prometheus")
@pytest.mark.slow
def test_every_query_of_the_dashboard_has_data(tmp_path):
    with RunningService(tmp_path, "--workers", "2") as service, service.client() as client:
        service.workers(2)
        session = create(client, expiry={"after_seconds": 3600, "default_loss": None})

        def play():
            arm = client.post(f"/v1/sessions/{session}/act").json()["arm"]
            client.post(f"/v1/sessions/{session}/feedback", json={"arm": arm, "loss": 0.5})
            client.get("/nowhere")

        with scraping(service.url, tmp_path) as prometheus:
            missing = set(QUERIES)

            def answered():
                play()
                missing.difference_update([query for query in missing if results(prometheus, query)])
                return not missing

            wait_until(answered)
            state = prometheus.get("/api/v1/rules").json()["data"]["groups"][0]["rules"]

    assert {rule["name"] for rule in state} == {rule["alert"] for rule in GROUPS[0]["rules"]}
    assert {rule["health"] for rule in state} <= {"ok", "unknown"}
    assert {rule["name"] for rule in state if rule["state"] == "firing"} == set()
