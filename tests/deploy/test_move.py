"""The recipe that moves an embedded store to a Redis, as the page has it, with an audit of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.client import Bandits
from tests.support.compose import ROOT
from tests.support.running import RunningService

SCRIPT = ROOT / "deploy/move/embedded_to_redis.py"
CLICKS = {"reward_range": [0, 1], "expiry": {"after_seconds": 86_400, "default_reward": 0}}


def move(data: Path, store_url: str, *flags: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BANDIT_")}
    environment = kept | ({"BANDIT_STORE_URL": store_url} if store_url else {})
    command = [sys.executable, SCRIPT, data, *flags]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)


@pytest.mark.recipes
@pytest.mark.timeout(600)
def test_every_session_goes_on_in_the_redis_as_it_was(tmp_path, own_redis_server):
    point = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
    with RunningService(tmp_path) as service:
        service.wait_ready()
        with Bandits(service.url, timeout=30) as bandits:
            learner = {"kind": "multiscale_tsallis", "arms": ["a", "b", "c"]}
            shop = bandits.sessions.create("shop", learner=learner, seed=1, **CLICKS)
            shop.feedback(shop.acts(20)[0], reward=1, event_id="click-1")
            tuner = bandits.sessions.create("tuner", learner=point, seed=2)
            tuner.acts(3)
        refused = move(tmp_path / "data", own_redis_server.url)
        assert refused.returncode == 1
        assert "in use by another service" in refused.stderr

    moved = move(tmp_path / "data", own_redis_server.url)
    assert (moved.returncode, moved.stdout) == (0, "2 sessions are in the Redis, each as it was\n"), moved.stderr
    with RunningService(tmp_path, "--store-url", own_redis_server.url) as service:
        service.wait_ready()
        with Bandits(service.url, timeout=30) as bandits:
            shop = bandits.session("shop")
            assert shop.feedback("a", reward=1, event_id="click-1").duplicates == 1
            assert shop.act().slot == 21
    present = move(tmp_path / "data", own_redis_server.url)
    assert (present.returncode, "session_exists" in present.stderr) == (1, True)
    different = move(tmp_path / "data", own_redis_server.url, "--skip-present")
    assert different.returncode == 1
    assert "shop: " in different.stderr


@pytest.mark.parametrize(
    ("folder", "url", "says"), [("none", "redis://x", "is no folder"), ("", "", "BANDIT_STORE_URL")]
)
def test_what_is_missing_is_said(tmp_path, folder, url, says):
    refused = move(tmp_path / folder, url)

    assert (refused.returncode, refused.stderr.startswith("move: ")) == (1, True)
    assert says in refused.stderr
