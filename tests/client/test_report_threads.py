"""Reports and the threads that send them: waiting for all, sharing a client, the end of the program."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.client import ReportRules
from service.testing import LocalBandits
from tests.client.conftest import CLICKS, LATER, Gate, scripted, settled
from tests.support.waiting import SECONDS, wait_until

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_flush_returns_once_what_waits_is_answered():
    gate = Gate()
    bandits, _ = scripted(gate, reports=LATER)
    for _ in range(5):
        bandits.session("s").report("hat", loss=1)
    assert not bandits.flush(0.01)
    gate.opened.set()

    assert bandits.flush(SECONDS)
    assert bandits.reports.applied == 5
    assert bandits.flush()
    bandits.close()


def test_the_thread_lives_only_while_reports_wait():
    def is_running():
        return any(thread.name == "delayed-bandits-reports" for thread in threading.enumerate())

    bandits, _ = scripted(settled)
    for _ in range(2):
        bandits.session("s").report("hat", loss=1)
        bandits.flush(SECONDS)
        wait_until(lambda: not is_running())
    assert bandits.reports.applied == 2


def test_threads_may_share_a_client():
    with LocalBandits(reports=ReportRules(interval=0.005)) as bandits, ThreadPoolExecutor(8) as pool:
        shop = bandits.sessions.create("shop", **CLICKS)

        def visit(_):
            for _ in range(20):
                assert shop.report(shop.act(), loss=0)

        list(pool.map(visit, range(8)))
        assert bandits.flush(SECONDS)
        view = shop.view()

        assert (view.slot, view.feedbacks, view.outstanding) == (160, 160, 0)
        assert bandits.reports.applied == 160


REPORTING = """
import os, sys
from service.client import Bandits, ReportRules
bandits = Bandits(sys.argv[1], reports=ReportRules(interval=1000.0))
session = bandits.session("s")
session.report(0, loss=0.5, event_id="of-parent")
if "fork" in sys.argv and os.fork() == 0:
    session.report(0, loss=0.5, event_id="of-child")
    sys.exit()
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["fork"]])
def test_what_waits_is_sent_when_the_program_ends(service, words):
    with service.client() as client:
        client.post("/v1/sessions/s/acts", json={"count": 20})
        before = client.get("/v1/sessions/s").json()["feedbacks"]
        subprocess.run([sys.executable, "-c", REPORTING, service.url, *words], check=True)
        wait_until(lambda: client.get("/v1/sessions/s").json()["feedbacks"] > before)
        for name in ["of-parent", *(["of-child"] if words else [])]:
            answer = client.post("/v1/sessions/s/feedback", json={"arm": 0, "loss": 0.5, "event_id": name})
            assert answer.json()["duplicates"] == 1
