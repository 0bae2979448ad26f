"""The client in another language is made as the page says, fits the service by its types, and acts and reports."""

import subprocess

import pytest

from tests.support.pages import ROOT, blocks_of
from tests.support.running import RunningService


@pytest.mark.recipes
@pytest.mark.servers("npm")
def test_a_client_in_typescript_is_made_of_the_document(tmp_path):
    made, program = [block.text for block in blocks_of(ROOT / "docs/api.md") if block.language in {"sh", "ts"}]
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module"}')
    options = ("--strict", "--module", "esnext", "--moduleResolution", "bundler", "--target", "es2022")
    with RunningService(tmp_path, "--store-url", "memory://") as service, service.client() as client:
        service.wait_ready()
        fields = {"learner": {"kind": "fixed", "n_arms": 2}, "reward_range": [0, 1]}
        assert client.post("/v1/sessions", json={"session_id": "shop"} | fields).status_code == 201
        (folder / "shop.ts").write_text(program.replace("http://localhost:8000", service.url))
        for command in (
            ["sh", "-ec", made.replace("docs/", f"{ROOT}/docs/")],
            ["npx", "tsc", "--skipLibCheck", *options, "shop.ts"],
            ["node", "shop.js"],
        ):
            subprocess.run(command, cwd=folder, check=True, timeout=300)
        view = client.get("/v1/sessions/shop").json()

    assert (view["slot"], view["feedbacks"], view["mean_reward"]) == (1, 1, 1)
