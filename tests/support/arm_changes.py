"""Changes of the arms of session ``s`` over HTTP, and the session of three arms that most of them begin with."""

from __future__ import annotations

from tests.support import one_session
from tests.support.one_session import PATH

ARMS = f"{PATH}/arms"


async def session(client, *, kind="dexp3", arms=("a", "b", "c"), **fields):
    return await one_session.session(client, kind=kind, arms=list(arms), **fields)


async def change(client, status=200, headers=None, **body):
    """Add, remove, pause and resume arms."""
    return await _changed(client, "PATCH", status, headers, body)


async def replace(client, arms, status=200, headers=None):
    """Replace the catalogue whole."""
    return await _changed(client, "PUT", status, headers, {"arms": arms})


async def _changed(client, method, status, headers, body):
    response = await client.request(method, ARMS, json=body, headers=headers)
    assert response.status_code == status, response.text
    return response.json()


def balanced(seen):
    """Whether each act has ended as one of four things, or is outstanding."""
    return seen["slot"] == seen["feedbacks"] + seen["expired"] + seen["removed"] + seen["outstanding"]
