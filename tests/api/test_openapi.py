"""The OpenAPI document says what the service does."""

from service.learners import REGISTRY


async def test_every_route_has_a_description_and_a_worked_example(client):
    document = (await client.get("/openapi.json")).json()

    for path, calls in document["paths"].items():
        for method, call in calls.items():
            assert call["description"], (method, path)
            if path.startswith("/v1") and method in ("post", "patch") and not path.endswith("/act"):
                content = call["requestBody"]["content"]["application/json"]
                assert content.get("examples") or content["schema"].get("examples"), (method, path)
            good = next(
                (call["responses"][status] for status in ("200", "201") if status in call["responses"]), None
            )
            if path.startswith("/v1") and good is not None:
                assert "example" in good["content"]["application/json"], (method, path)


async def test_learners_are_one_union_told_apart_by_kind(client):
    document = (await client.get("/openapi.json")).json()

    learner = document["components"]["schemas"]["CreateSession"]["properties"]["learner"]
    assert learner["discriminator"]["propertyName"] == "kind"
    assert learner["discriminator"]["mapping"].keys() == REGISTRY.keys()


async def test_errors_are_documented_as_problems(client):
    document = (await client.get("/openapi.json")).json()

    assert "HTTPValidationError" not in document["components"]["schemas"]
    act = document["paths"]["/v1/sessions/{session_id}/act"]["post"]["responses"]
    assert "application/problem+json" in act["422"]["content"]


async def test_act_is_documented_to_take_nothing_but_an_empty_object(client):
    document = (await client.get("/openapi.json")).json()

    body = document["paths"]["/v1/sessions/{session_id}/act"]["post"]["requestBody"]
    assert not body.get("required")
    assert body["content"]["application/json"]["schema"]["$ref"].endswith("/Nothing")
