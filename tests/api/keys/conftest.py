"""A service with API keys."""

import json

import pytest

from service.settings import SecretText
from tests.support.api_keys import ADMIN, KEYS, bearer

LEARNER = {"kind": "dexp3", "n_arms": 3}


@pytest.fixture
async def client(make_client):
    client = await make_client(api_keys=SecretText(json.dumps(KEYS)))
    for session_id in ("shop-1", "other"):
        answer = await client.post(
            "/v1/sessions", json={"session_id": session_id, "learner": LEARNER}, headers=bearer(ADMIN)
        )
        assert answer.status_code == 201
    return client


@pytest.fixture
def problem():
    def check(answer, status, code):
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"
        return answer

    return check
