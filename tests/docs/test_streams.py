"""The configuration of docs/streams.md in a real Fluent Bit, where there is one."""

import json
import os
import shutil
import subprocess

import pytest

from service.client import Bandits
from tests.support.pages import ROOT
from tests.support.running import RunningService
from tests.support.waiting import wait_until


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("fluent-bit") is None, reason="fluent-bit is not installed")
def test_fluent_bit_reports_each_click_once_and_the_service_skips_wrong_lines(tmp_path):
    clicks = tmp_path / "clicks.jsonl"
    fields = {"label": "hat", "reward": 1}
    lines = [json.dumps({"session_id": f"s{n % 5}", "event_id": f"e{n}", **fields}) for n in range(100)]
    with RunningService(tmp_path, "--store-url", "memory://") as service, Bandits(service.url) as bandits:
        service.wait_ready()
        for number in range(5):
            learner = {"kind": "fixed", "arms": ["hat"]}
            bandits.sessions.create(f"s{number}", learner=learner, reward_range=[0, 1]).acts(30)
        host, port = service.url.removeprefix("http://").split(":")
        names = {"BANDIT_HOST": host, "BANDIT_PORT": port, "CLICKS": str(clicks), "DELAYED_BANDITS_API_KEY": ""}
        names["PARSERS"] = str(ROOT / "docs/fluent-bit-parsers.conf")
        torn = ["torn {", *lines[:10]]
        clicks.write_text("\n".join(['{"session_id": "none"}'] * 12_000 + lines[:50] + torn) + "\n")
        command = ["fluent-bit", "-c", str(ROOT / "docs/fluent-bit.conf")]
        shipping = subprocess.Popen(command, env=os.environ | names, stdout=subprocess.DEVNULL)
        try:
            views = [bandits.session(f"s{number}") for number in range(5)]
            wait_until(lambda: sum(each.view().feedbacks for each in views) == 50)
            with clicks.open("a") as file:
                file.write("\n".join(lines[50:]) + "\n")
            wait_until(lambda: sum(each.view().feedbacks for each in views) == 100)
        finally:
            shipping.terminate()
            shipping.wait()
