"""Bodies posted as they are, and the one shape of all errors."""

JSON = {"content-type": "application/json"}


async def post(client, path, content, headers=JSON):
    return await client.post(path, content=content, headers=headers)


def assert_problem(response, status, code):
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code)
    assert body.keys() >= {"type", "title", "detail"}
    assert len(response.content) < 10_000
    return response
