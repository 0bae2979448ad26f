"""The page of the documentation, as a browser is told to treat it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import threading

import pytest

from service import app


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

    def document(*_):
        made_in.append(threading.current_thread())
        return {"openapi": "3.1.0"}

    monkeypatch.setattr(app, "document", document)
    answers = await asyncio.gather(*(client.get("/openapi.json") for _ in range(2)))

    assert [answer.json() for answer in [*answers, await client.get("/openapi.json")]] == [{"openapi": "3.1.0"}] * 3
    assert len(made_in) == 1
    assert made_in[0] is not threading.current_thread()
