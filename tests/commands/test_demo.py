"""``demo``: its shop on a service in this process, whose time passes in steps, and the whole command once."""

import json
import re
import signal
import subprocess
import sys

import pytest

from loadtest.processes import free_port
from service.commands import demo
from service.commands.demo import Shop, running_service
from service.commands.run import CommandError
from service.testing import LocalBandits
from tests.support.compose import ROOT

COMMAND = [sys.executable, "-m", "service", "demo", "--no-browser", "--visitors", "20"]


def play(bandits, seconds, show, visitors=200):
    shop, now = Shop(bandits, seed=1), [0.0]

    def sleep(pause):
        now[0] += pause
        bandits.advance(pause)

    demo.play(shop, visitors, seconds, lambda at: show(shop, at), clock=lambda: now[0], sleep=sleep)
    return shop


@pytest.mark.slow
def test_within_half_a_minute_it_learns_and_within_a_minute_follows_another_best_item():
    shares, lines = {}, {}

    def show(shop, at):
        shares[int(at)] = demo.share_of_best(shop.recent["learner"])
        lines[int(at)] = demo.line(shop, at)

    with LocalBandits() as bandits:
        shop = play(bandits, 120, show)
        found = demo.document(shop, "")

    assert shares[25] > 0.8
    assert shop.best(0) != shop.best(61)
    assert shares[60] < 0.5 < shares[115]
    assert f"best item {shop.best(61)}, shown to {shares[60]:.0%}; better by " in lines[60]
    assert found["click_rate"]["learner"] > 2 * found["click_rate"]["control"]
    assert found["verdict"]["is"] == "better"
    says = (
        rf"^{found['visitors']:,} visitors\. .* is better by [\d.]+ points, between [\d.]+ and [\d.]+ \(95 % sure\)"
    )
    assert re.search(says, demo.summary(shop))


def test_it_tells_of_the_shop_before_there_is_a_verdict():
    with LocalBandits() as bandits:
        shop = Shop(bandits, seed=1)
        for at in (0.0, 2.0, 16.0):
            shop.step(at, 20)

    assert [len(moments) for moments in shop.recent.values()] == [1, 1]
    assert re.search("learner +.*control +.*no verdict yet", demo.line(shop, 16.0))
    assert demo.summary(shop).startswith("60 visitors. There is no verdict yet")


def test_items_that_are_sold_out_are_not_shown():
    with LocalBandits() as bandits:
        shop = Shop(bandits, seed=1)
        shop.step(0.0, 100)
        acts = {arm["label"]: arm["acts"] for arm in shop.session.arms()}

    assert shop.best(0.0) not in shop.sold_out(0.0)
    assert {acts[item] for item in shop.sold_out(0.0)} == {0}


@pytest.mark.processes
def test_the_command_starts_its_own_service_and_says_what_came_of_it():
    ended = subprocess.run([*COMMAND, "--seconds", "2", "--json"], capture_output=True, text=True, cwd=ROOT)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["visitors"] > 0


@pytest.mark.processes
def test_an_interrupt_ends_it_with_a_summary():
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True) as running:
        lines = iter(running.stdout.readline, "")
        assert next(line for line in lines if "learner " in line)
        running.send_signal(signal.SIGINT)
        rest = running.stdout.read()

    assert running.returncode == 0
    assert "visitors. " in rest


@pytest.mark.processes
def test_a_service_that_does_not_start_is_said():
    port = free_port()
    with running_service(port), pytest.raises(CommandError, match="did not start"), running_service(port):
        pass
