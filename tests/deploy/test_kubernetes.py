"""The Kubernetes manifest: valid by the schemas of Kubernetes, and its times fit the service's."""

from typing import Any

import pytest
import yaml

from service.server.supervisor import _KILL_MARGIN
from service.settings import Settings
from tests.support.compose import ROOT

kubernetes_validate = pytest.importorskip("kubernetes_validate")

TEXT = (ROOT / "deploy/kubernetes/bandit.yaml").read_text()
RESOURCES: dict[str, dict[str, Any]] = {each["kind"]: each for each in yaml.safe_load_all(TEXT)}
POD = RESOURCES["Deployment"]["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
ENVIRONMENT = {each["name"]: each["value"] for each in CONTAINER["env"]}


@pytest.mark.parametrize("kind", RESOURCES)
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_every_resource_is_valid(kind, version):
    kubernetes_validate.validate(RESOURCES[kind], version, strict=True)


def test_a_field_that_is_none_is_found():
    wrong = {**RESOURCES["Service"], "spec": {"ports": [{"prot": 80}]}}

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_every_variable_is_a_setting():
    assert {name.removeprefix("BANDIT_").lower() for name in ENVIRONMENT} <= set(Settings.model_fields)


def test_a_stop_has_the_time_it_needs():
    drain, grace = (float(ENVIRONMENT[f"BANDIT_{what}_SECONDS"]) for what in ("DRAIN", "GRACE"))
    readiness = CONTAINER["readinessProbe"]

    assert POD["terminationGracePeriodSeconds"] > drain + grace + _KILL_MARGIN
    assert drain > readiness["periodSeconds"] * readiness["failureThreshold"] + readiness["timeoutSeconds"]


def test_only_a_process_that_does_not_answer_is_restarted():
    assert CONTAINER["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert CONTAINER["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_replicas_are_apart_and_never_all_away():
    labels = RESOURCES["Deployment"]["spec"]["template"]["metadata"]["labels"]
    (apart,) = POD["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]

    assert apart["topologyKey"] == "kubernetes.io/hostname"
    selectors = [
        apart["labelSelector"]["matchLabels"],
        RESOURCES["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        RESOURCES["Deployment"]["spec"]["selector"]["matchLabels"],
        RESOURCES["Service"]["spec"]["selector"],
    ]
    assert selectors == [labels] * 4
    assert RESOURCES["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert RESOURCES["Deployment"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_it_is_confined_and_bounded():
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in CONTAINER["resources"]["limits"]
    assert POD["securityContext"]["runAsNonRoot"]
