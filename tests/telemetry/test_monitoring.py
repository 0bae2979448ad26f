"""The alerts and the dashboard of deploy/monitoring/: they ask for what there is, and work in a real Prometheus."""

import json
import re
import subprocess

import pytest
import yaml

from service.api.middleware import labels
from service.telemetry.metrics import Metrics
from tests.support.prometheus import MONITORING, metrics_of, results, scraping
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

RULES = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
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
    tried = yaml.safe_load((MONITORING / "alerts.test.yml").read_text())["tests"]

    assert [test["name"] for test in tried] == ["good health", *(rule["alert"] for rule in RULES)]
    for rule in RULES:
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in {"page", "ticket"}


@pytest.mark.servers("promtool")
@pytest.mark.parametrize(
    "command",
    [("check", "rules", "alerts.yml"), ("test", "rules", "alerts.test.yml"), ("check", "config", "prometheus.yml")],
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

    assert {rule["name"] for rule in state} == {rule["alert"] for rule in RULES}
    assert {rule["health"] for rule in state} <= {"ok", "unknown"}
    assert {rule["name"] for rule in state if rule["state"] == "firing"} == set()
