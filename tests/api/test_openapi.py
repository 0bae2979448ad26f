"""The OpenAPI document says what the service does, and its page is safe in a browser."""

import asyncio
import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from service import app, errors
from service.api.routes import ROUTES
from service.learners import REGISTRY
from tests.support.described import OPENAPI
from tests.support.examples import examples
from tests.support.running import RunningService


@pytest.fixture
def paths(document):
    return document["paths"]


def test_every_route_has_a_description_and_a_worked_example(paths):
    for path, calls in paths.items():
        for method, call in calls.items():
            assert call["description"], (method, path)
            said = {answer["description"] for answer in call["responses"].values()}
            assert "Successful Response" not in said, f"{method} {path}: give it a response_description"
            if path.startswith("/v1") and "requestBody" in call and not path.endswith("/act"):
                content = call["requestBody"]["content"]["application/json"]
                assert content.get("examples") or content["schema"].get("examples"), (method, path)
            responses = call["responses"]
            good = next((responses[status] for status in ("200", "201") if status in responses), None)
            if path.startswith("/v1") and good is not None:
                assert "example" in good["content"]["application/json"], (method, path)


def test_learners_are_one_union_told_apart_by_kind(document):
    learner = document["components"]["schemas"]["CreateSession"]["properties"]["learner"]
    assert learner["discriminator"]["propertyName"] == "kind"
    assert learner["discriminator"]["mapping"].keys() == REGISTRY.keys()


def test_errors_are_documented_as_problems(document, paths):
    assert "HTTPValidationError" not in document["components"]["schemas"]
    act = paths["/v1/sessions/{session_id}/act"]["post"]["responses"]
    assert "application/problem+json" in act["422"]["content"]


def test_the_body_of_act_is_documented_as_optional(paths):
    body = paths["/v1/sessions/{session_id}/act"]["post"]["requestBody"]
    assert not body.get("required")
    assert body["content"]["application/json"]["schema"]["$ref"].endswith("/Act")


async def test_the_limits_of_the_settings_are_told(make_client):
    bounds = {"max_acts": 7, "max_events": 8, "max_dim": 9, "max_arms": 10}
    client = await make_client(max_arms_centred=5, max_label_bytes=6, **bounds)
    document = (await client.get("/openapi.json")).json()
    schemas = {name: schema.get("properties") for name, schema in document["components"]["schemas"].items()}

    assert (schemas["Acts"]["count"]["maximum"], schemas["Feedbacks"]["events"]["maxItems"]) == (7, 8)
    assert schemas["LossesEvent"]["losses"]["maxItems"] == 10
    assert schemas["GradientEvent"]["gradient"]["maxItems"] == 9
    assert schemas["DbgdSpec"]["dim"]["maximum"] == 9
    assert schemas["Dexp3Spec"]["n_arms"]["anyOf"][0]["maximum"] == 10
    assert schemas["CentredTsallisSpec"]["arms"]["anyOf"][0]["maxItems"] == 5
    assert schemas["BoldSpec"]["arms"]["anyOf"][0]["items"]["maxLength"] == 6
    assert schemas["ChangeArms"]["add"]["anyOf"][0]["items"]["maxLength"] == 6
    assert schemas["ArmEvent"]["event_id"]["anyOf"][0]["pattern"] == r"^[\x20-\x7e]+$"


def test_every_route_tells_the_errors_it_can_have(paths):
    for path, calls in paths.items():
        for method, call in calls.items():
            found = {status for status in call["responses"] if status >= "400"}
            assert {"400", "431", "500"} <= found, (method, path)
            assert ({"408", "413", "415"} <= found) == ("requestBody" in call), (method, path)
            assert ({"401", "403"} <= found) == (path not in {"/livez", "/readyz", "/v1/clicks"}), (method, path)
            assert ("503" in found) == (path not in {"/livez", "/metrics"}), (method, path)


def test_health_can_be_asked_by_head_whose_answers_have_no_body(paths):
    heads = {path: calls["head"]["responses"] for path, calls in paths.items() if "head" in calls}
    ids = [call["operationId"] for calls in paths.values() for call in calls.values()]

    assert {path: set(responses) for path, responses in heads.items()} == {
        path: set(paths[path]["get"]["responses"]) for path in ("/livez", "/readyz")
    }
    assert not any("content" in response for responses in heads.values() for response in responses.values())
    assert len(set(ids)) == len(ids)


def test_an_operation_is_named_as_its_handler(document, paths):
    handlers = {
        (method.lower(), route.path): route.name
        for route in ROUTES
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in route.methods
    }
    ids = {(method, path): call["operationId"] for path, calls in paths.items() for method, call in calls.items()}

    assert ids == {key: f"head_{handlers[key]}" if key[0] == "head" else handlers[key] for key in ids}
    assert {"act", "acts", "feedback", "feedbacks", "create_session", "list_decisions"} <= set(ids.values())
    assert max(map(len, ids.values())) <= 28


def test_bounds_of_numbers_are_named_as_generators_read_them(document, paths):
    assert not re.findall(r'"(?:ge|gt|le|lt)":', json.dumps(document))

    within = document["components"]["schemas"]["UpdatesSpec"]["properties"]["within_seconds"]
    assert (within["minimum"], within["maximum"]) == (1, 31_536_000)
    (limit,) = (each for each in paths["/v1/sessions"]["get"]["parameters"] if each["name"] == "limit")
    assert (limit["schema"]["minimum"], limit["schema"]["maximum"]) == (1, 1_000)


def test_the_document_beside_the_pages_is_the_one_that_is_served(document):
    kept, served = json.loads(OPENAPI.read_text()), json.loads(json.dumps(document))
    kept["info"]["version"] = served["info"]["version"]

    assert kept == served, "python -m tests.support.described writes docs/openapi.json"


@pytest.mark.slow
async def test_a_prefix_that_a_proxy_takes_off_is_told(make_client):
    for prefix, servers in ((None, None), ("", None), ("/bandit", [{"url": "/bandit"}])):
        client = await make_client(root_path=prefix)
        assert (await client.get("/openapi.json")).json().get("servers") == servers
        assert (await client.get("/livez")).status_code == 200


def test_every_example_of_an_error_is_one_of_its_status(paths):
    shown = [
        (status, example["value"]["status"], code, example["value"]["code"])
        for calls in paths.values()
        for call in calls.values()
        for status, answer in call["responses"].items()
        for media_type, content in answer.get("content", {}).items()
        if media_type == "application/problem+json"
        for code, example in content["examples"].items()
    ]

    assert len(shown) > 100
    assert all(status == str(told) and code == named for status, told, code, named in shown)


def subclasses(error):
    return {each for child in error.__subclasses__() for each in (child, *subclasses(child))}


UNDESCRIBED = {"not_found", "method_not_allowed", "client_gone"}
"""Of no route, or of an answer that nobody gets."""


def test_every_code_is_in_the_document(document):
    text = json.dumps(document)
    codes = {error.code for error in subclasses(errors.ServiceError) if hasattr(error, "code")}
    assert len(codes) > 20
    assert {code for code in codes if f'"{code}"' not in text} == UNDESCRIBED


async def test_every_field_of_a_session_and_of_its_calls_has_an_example_that_is_taken(client, document, paths):
    """Sessions are created of their examples; of other bodies the fields are compared."""
    path = "/v1/sessions/{session_id}"

    def bodies(path, method):
        shown = paths[path][method]["requestBody"]["content"]["application/json"]["examples"]
        return [example["value"] for example in shown.values()]

    created = bodies("/v1/sessions", "post")
    for body in created:
        answer = await client.post("/v1/sessions", json=body)
        assert answer.status_code == 201, answer.text
    fields = document["components"]["schemas"]
    for name, shown in {
        "CreateSession": created,
        "ExpirySpec": [body["expiry"] for body in created if "expiry" in body],
        "ChangeSession": bodies(path, "patch"),
        "ChangeArms": bodies(f"{path}/arms", "patch"),
        "Act": bodies(f"{path}/act", "post"),
        "ArmEvent": bodies(f"{path}/feedback", "post"),
        "RewardEvent": bodies(f"{path}/feedback", "post"),
        "GoalEvent": bodies(f"{path}/feedback", "post"),
        "LossesEvent": bodies(f"{path}/feedback", "post"),
        "GradientEvent": bodies(f"{path}/feedback", "post"),
    }.items():
        assert set(fields[name]["properties"]) <= {field for body in shown for field in body}, name


def test_examples_have_their_nulls(paths):
    path = "/v1/sessions/{session_id}"

    def body(path, method, name):
        return paths[path][method]["requestBody"]["content"]["application/json"]["examples"][name]["value"]

    assert body(f"{path}/feedback", "post", "void") == {"arm": 2, "loss": None, "event_id": "hidden-1"}
    assert body(path, "patch", "window") == {"expiry": {"after_seconds": 3600, "default_loss": None}}
    view = paths[path]["get"]["responses"]["200"]["content"]["application/json"]["example"]
    assert (view["expires_at"], view["mean_loss"]) == (None, None)


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/docs-assets/swagger-ui.css"])
async def test_browsers_guess_no_types(client, path):
    answer = await client.get(path)

    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


async def test_only_the_scripts_of_the_page_run(client):
    page = await client.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    (script,) = re.findall(r"<script>(.*?)</script>", page.text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    assert "SwaggerUIBundle" in script
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert set(re.findall(r'(?:src|href)="([^"]+)"', page.text)) == {
        f"docs-assets/{name}" for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png")
    }


async def test_the_document_is_made_once_and_not_by_the_event_loop(client, monkeypatch):
    """Making it takes long: others are served meanwhile."""
    made_in = []

    def made_document(*_):
        made_in.append(threading.current_thread())
        return {"openapi": "3.1.0"}

    monkeypatch.setattr(app, "document", made_document)
    answers = await asyncio.gather(*(client.get("/openapi.json") for _ in range(2)))

    assert [answer.json() for answer in [*answers, await client.get("/openapi.json")]] == [{"openapi": "3.1.0"}] * 3
    assert len(made_in) == 1
    assert made_in[0] is not threading.current_thread()


SETTINGS = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_generated_calls_are_answered_as_described(tmp_path):
    with RunningService(tmp_path, "--store-url", "memory://", "--clicks-per-second", "0") as service:
        service.wait_ready()
        with service.client() as client:
            paths = client.get("/openapi.json").json()["paths"]
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS)]
        how = ["--checks=all", "--seed=1", f"-n{examples(20)}", "--no-color"]
        run = subprocess.run(
            [*command, "run", f"{service.url}/openapi.json", *how],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    assert run.returncode == 0, run.stdout[-8_000:]
    calls = sum(map(len, paths.values()))
    assert calls
    assert f"Selected: {calls}/{calls}" in run.stdout
    assert f"Tested: {calls}" in run.stdout
