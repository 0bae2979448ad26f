"""Clicks by token against real processes: workers that die, connections that pages of several sites share."""

import json
import os
import signal
import threading

import pytest

from tests.support.http import http_client
from tests.support.running import RunningService, create
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

FOREIGN = {"origin": "https://shop.example", "sec-fetch-site": "cross-site", "host": "bandit.example"}


def test_a_connection_that_brought_a_click_is_checked_as_any_other(service):
    """What a proxy sends on one connection may come from pages of several sites."""
    with service.client() as client:
        for path, status in (("/v1/clicks", 403), ("/v1/sessions/s/act", 421), ("/v1/clicks", 403)):
            answer = client.post(path, content="t", headers=FOREIGN)
            assert answer.status_code == status, answer.text
        assert client.get("/v1/clicks.js", headers=FOREIGN).status_code == 200
        assert client.head("/v1/clicks.js").headers["etag"]
        assert client.options("/v1/clicks", headers=FOREIGN).status_code == 204
        assert client.get("/v1/clicks.js", headers={"if-none-match": "*"}).status_code == 200


def test_behind_a_proxy_each_visitor_has_clicks_of_their_own(tmp_path):
    flags = ("--store-url", "memory://", "--trusted-proxies", "127.0.0.1", "--clicks-per-second", "1")
    with RunningService(tmp_path, *flags) as service, service.client() as client:

        def status(address):
            return client.post("/v1/clicks", content="t", headers={"x-forwarded-for": address}).status_code

        assert [status(each) for each in ("10.0.0.1", "10.0.0.1", "10.0.0.2")] == [403, 429, 403]


def test_the_keys_of_a_file_are_read_again(tmp_path):
    (keys := tmp_path / "keys").write_text("a" * 40)
    flags = ("--store-url", "memory://", "--token-keys-file", str(keys), "--clicks-per-second", "0")
    with RunningService(tmp_path, *flags) as service, service.client() as client:
        create(client, session_id="s", tokens=True)

        def token():
            return client.post("/v1/sessions/s/act").json()["token"]

        before = token()
        keys.write_text("b" * 40 + "\n" + "a" * 40 + "\n")
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: token()[2:5] != before[2:5])
        assert client.post("/v1/clicks", content=before).status_code == 204
        keys.write_text("b" * 40)
        wait_until(lambda: client.post("/v1/clicks", content=before).status_code == 403)
        assert client.post("/v1/clicks", content=token()).status_code == 204


@pytest.mark.slow
def test_each_token_counts_once_however_workers_die(tmp_path):
    """Each click is posted by two clients, again until it is answered, while workers and then the store are killed.

    The store's key outlives them: tokens of before are good afterwards.
    """
    flags = ("--workers", "2", "--clicks-per-second", "0")
    with RunningService(tmp_path, *flags) as service, service.client() as client:
        names = ["one", "two"]
        for name in names:
            learner = {"kind": "multiscale_tsallis", "n_arms": 3}
            create(client, session_id=name, learner=learner, tokens=True, reward_range=[0, 1])
        acts = [client.post(f"/v1/sessions/{name}/acts", json={"count": 150}).json()["actions"] for name in names]
        lists = [[{"token": one["token"]}, {"token": two["token"]}] for one, two in zip(*acts, strict=True)]
        sent = []

        def report(order):
            with http_client(service.url) as mine:
                for clicks in order:

                    def is_answered(clicks=clicks):
                        try:
                            return mine.post("/v1/clicks", content=json.dumps(clicks)).status_code == 204
                        except Exception:
                            return False

                    wait_until(is_answered)
                    sent.append(clicks)

        clients = [threading.Thread(target=report, args=(order,)) for order in (lists, lists[::-1])]
        for each in clients:
            each.start()
        for kill in range(3):
            wait_until(lambda kill=kill: len(sent) >= 60 * (kill + 1))
            victims = service.workers(2) if kill < 2 else service.children("appendonly") or service.workers(2)
            os.kill(victims[kill % len(victims)], signal.SIGKILL)
            wait_until(lambda kill=kill: len(service.workers(2)) == 2)
        for each in clients:
            each.join(60)
        for name in names:
            view = wait_until(lambda name=name: client.get(f"/v1/sessions/{name}").json())
            assert (view["feedbacks"], view["outstanding"], view["slot"]) == (150, 0, 150)
