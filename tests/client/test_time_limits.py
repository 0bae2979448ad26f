"""A call ends in its time, whatever the server does."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from service.client import AsyncBandits, Bandits, NoAnswerError, attempts
from tests.client.conftest import ACTION

pytestmark = pytest.mark.usefixtures("short_pauses")


@contextmanager
def slow_server(sent, every):
    """Sends ``sent`` at once and then a byte every so many seconds; ``every`` None: nothing more."""
    over = threading.Event()

    def serve():
        with listener:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(5)
                    connection.recv(65536)
                    connection.sendall(sent)
                    while not over.wait(every or 5):
                        try:
                            connection.sendall(b" ")
                        except OSError:
                            break

    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    over.set()
    thread.join()


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


LINE = b"HTTP/1.1 200 OK\r\nX-Slow:"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


CASES = [slow(b"", None, False), (LINE, 0.05, True), (HEAD, 0.05, False), slow(HEAD, None, True)]


@pytest.mark.parametrize(("sent", "every", "proxied"), CASES)
def test_a_call_ends_in_its_time_whatever_the_server_or_a_proxy_does(sent, every, proxied, monkeypatch):
    with slow_server(sent, every) as url:
        monkeypatch.setattr(attempts, "getproxies", lambda: {"http": url})
        bandits = Bandits("http://a.test" if proxied else url, timeout=0.4, max_retries=1, trust_env=proxied)
        start = time.monotonic()
        action = bandits.session("s").act(fallback="hat")
        seconds = time.monotonic() - start

    assert isinstance(action.error, NoAnswerError)
    assert seconds < 0.8


def test_a_slow_answer_is_used_that_comes_well_within_the_time():
    answer = json.dumps(ACTION).encode()

    def serve():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            assert not over.wait(1.2)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        served = pool.submit(serve)
        with Bandits(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=2) as bandits:
            assert not bandits.session("s").act(fallback="hat").is_fallback
        served.result()


def test_a_call_ends_in_its_time_while_the_address_is_looked_up(monkeypatch):
    over, looked_up = threading.Event(), socket.getaddrinfo

    def getaddrinfo(*where, **options):
        over.wait(5)
        return looked_up(*where, **options)

    with slow_server(b"", None) as url, Bandits(url, timeout=0.2, max_retries=1) as bandits:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        start = time.monotonic()
        action = bandits.session("s").act(fallback="hat")
        seconds = time.monotonic() - start
        over.set()

    assert isinstance(action.error, NoAnswerError)
    assert seconds < 0.6


@pytest.mark.parametrize(("sent", "every"), [slow(b"", None), slow(HEAD, 0.05)])
async def test_an_awaited_call_ends_in_its_time_too(sent, every):
    with slow_server(sent, every) as url:
        async with AsyncBandits(url, timeout=0.4, max_retries=1) as bandits:
            start = time.monotonic()
            assert (await bandits.session("s").act(fallback="hat")).is_fallback
            assert time.monotonic() - start < 0.8
