"""The socket that workers share, and the board on which each says that it lives."""

import asyncio
import errno
import os
import socket
import subprocess
import sys

import pytest

from service.server import pool as module
from service.server.pool import (
    FRESH_SECONDS,
    LOOK_SECONDS,
    Acceptor,
    AddressError,
    Board,
    Watchdog,
    bind,
    is_traced,
    listen,
    refuse,
)
from tests.support.waiting import until

# -- Taking connections from the shared socket: in this process, on real sockets.


class Noting(asyncio.Protocol):
    """Notes when it is connected."""

    def __init__(self, made):
        self._made = made

    def connection_made(self, transport):
        self._made.append(transport)


class Failing:
    """A listener whose next accepts fail."""

    def __init__(self, listener, *errors):
        self._listener = listener
        self._errors = list(errors)

    def accept(self):
        if self._errors:
            raise OSError(self._errors.pop(0), "made to fail")
        return self._listener.accept()

    def __getattr__(self, name):
        return getattr(self._listener, name)


class Worker:
    """An acceptor of one of two workers, and the connections that it has taken."""

    def __init__(self, listener, board, number):
        self.taken = []
        self.acceptor = Acceptor(
            listener, lambda connection: Noting(self.taken), board, number, lambda: len(self.taken)
        )
        board.beat(number, 0)


@pytest.fixture
def listener():
    with bind("127.0.0.1", 0) as listener:
        yield listener


@pytest.fixture
def board():
    return Board.create(2)


def connect(listener):
    connection = socket.socket()
    connection.setblocking(False)
    with pytest.raises(BlockingIOError):
        connection.connect(listener.getsockname())
    return connection


async def taken(worker, count):
    await until(lambda: asyncio.sleep(0.001, len(worker.taken) == count), 10)


async def test_a_connection_is_taken_once_the_worker_listens(listener, board):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(listener.getsockname())
    worker = Worker(listener, board, 0)
    worker.acceptor.start()
    with connect(listener), connect(listener):
        await taken(worker, 2)
    worker.acceptor.close()
    await worker.acceptor.wait_closed()


async def test_a_worker_that_is_ahead_leaves_connections_to_one_that_lives(listener, board, monkeypatch):
    monkeypatch.setattr(module, "DEFER_SECONDS", 0.2)
    first, second = Worker(listener, board, 0), Worker(listener.dup(), board, 1)
    first.acceptor.start()
    connections = [connect(listener) for _ in range(5)]
    await taken(first, 5)
    second.acceptor.start()
    connections.append(connect(listener))
    await taken(second, 1)

    assert len(first.taken) == 5
    for each in (*connections, first.acceptor, second.acceptor):
        each.close()


async def test_a_worker_that_is_ahead_takes_what_the_others_leave(listener, board):
    first = Worker(listener, board, 0)
    board.beat(1, 0)  # It lives, and takes nothing.
    first.acceptor.start()
    connections = [connect(listener) for _ in range(12)]
    await taken(first, 12)

    for each in (*connections, first.acceptor):
        each.close()


async def test_what_waits_already_is_taken_at_the_end(listener, board):
    worker = Worker(listener, board, 0)
    listen(listener)
    connections = [connect(listener) for _ in range(3)]
    listener.setblocking(False)
    worker.acceptor.close()
    await worker.acceptor.wait_closed()

    assert len(worker.taken) == 3
    for each in connections:
        each.close()


@pytest.mark.parametrize("failure", [errno.EMFILE, errno.ENOMEM, errno.EPROTO])
async def test_a_connection_that_cannot_be_taken_is_logged_and_tried_again(listener, board, failure, caplog):
    worker = Worker(Failing(listener, failure), board, 0)
    worker.acceptor.start()
    with connect(listener):
        await taken(worker, 1)
    worker.acceptor.close()

    assert "can" in caplog.text
    assert "taken" in caplog.text


async def test_a_worker_listens_again_where_the_supervisor_had_ended_it(listener, board):
    worker = Worker(listener, board, 0)
    worker.acceptor.start()
    refuse(listener)
    await until(lambda: asyncio.sleep(0.001, listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)), 10)
    with connect(listener):
        await taken(worker, 1)
    worker.acceptor.close()


async def test_a_protocol_that_cannot_be_made_ends_its_connection_alone(listener, board, caplog):
    caplog.set_level("INFO")

    def make(connection):
        raise OSError("made to fail")

    acceptor = Acceptor(listener, make, board, 0, lambda: 0)
    acceptor.start()
    with connect(listener):
        await until(lambda: asyncio.sleep(0.001, "ended before it began" in caplog.text), 10)
    acceptor.close()


def test_an_address_that_is_held_is_refused_also_while_nobody_listens(listener):
    with pytest.raises(AddressError, match="Address already in use"):
        bind(*listener.getsockname())


def test_an_ipv6_address_is_bound_alone():
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    with bind("::1", 0) as six:
        assert six.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1


# -- Which worker is given up, and when: decided from the board alone.


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watched_board(clock):
    watched_board = Board(Board.create(3).descriptor, 3, clock)
    for worker in range(3):
        watched_board.beat(worker, 0)
    return watched_board


def given_up(watchdog, watched_board, clock, *, seconds, beating=(), processes=None):
    """Workers given up within so many seconds of looks."""
    found = []
    for _ in range(round(seconds / LOOK_SECONDS)):
        clock.now += LOOK_SECONDS
        for worker in beating:
            watched_board.beat(worker, 0)
        if (worker := watchdog.stuck(processes or {0: -1, 1: -2, 2: -3})) is not None:
            found.append(worker)
    return found


def test_a_silent_worker_is_given_up_after_its_time_and_once(watched_board, clock):
    watchdog = Watchdog(watched_board, 5)
    given_up(watchdog, watched_board, clock, seconds=1, beating=(0, 1, 2))

    assert given_up(watchdog, watched_board, clock, seconds=4.5, beating=(0, 2)) == []
    assert given_up(watchdog, watched_board, clock, seconds=1, beating=(0, 2)) == [1]
    assert given_up(watchdog, watched_board, clock, seconds=60, beating=(0, 2), processes={0: -1, 2: -3}) == []


def test_of_several_one_is_given_up_at_a_look(watched_board, clock):
    watchdog = Watchdog(watched_board, 2)

    assert sorted(given_up(watchdog, watched_board, clock, seconds=4)) == [0, 1, 2]


def test_a_machine_that_slept_gives_up_nobody(watched_board, clock):
    watchdog = Watchdog(watched_board, 5)
    for _ in range(10):
        given_up(watchdog, watched_board, clock, seconds=1, beating=(0, 1, 2))
        clock.now += 3600

        assert watchdog.stuck({0: -1, 1: -2, 2: -3}) is None


def test_a_worker_that_starts_has_a_minute(watched_board, clock):
    watchdog = Watchdog(watched_board, 5)
    watched_board.forget(1)

    assert given_up(watchdog, watched_board, clock, seconds=55, beating=(0, 2)) == []
    assert given_up(watchdog, watched_board, clock, seconds=10, beating=(0, 2)) == [1]


def test_a_worker_that_took_the_place_of_another_begins_anew(watched_board, clock):
    watchdog = Watchdog(watched_board, 5)
    given_up(watchdog, watched_board, clock, seconds=4.5, beating=(0, 2))
    watched_board.forget(1)

    found = given_up(watchdog, watched_board, clock, seconds=4.5, beating=(0, 2), processes={0: -1, 1: -9, 2: -3})
    assert found == []


def test_a_worker_under_a_debugger_stays(watched_board, clock, monkeypatch):
    monkeypatch.setattr("service.server.pool.is_traced", lambda process: process == -2)
    watchdog = Watchdog(watched_board, 5)

    assert given_up(watchdog, watched_board, clock, seconds=60, beating=(0, 2)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_debugger_is_seen_in_proc():
    traced = "import ctypes, sys; ctypes.CDLL(None).ptrace(0, 0, 0, 0); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", traced], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert is_traced(child.pid)
        child.stdin.close()
    assert not is_traced(os.getpid())
    assert not is_traced(2**30)


def test_the_board_names_the_least_of_the_living_others(watched_board, clock):
    watched_board.count(0, 7)
    watched_board.count(1, 3)
    watched_board.count(2, 5)

    assert (watched_board.least_connections(but=0), watched_board.least_connections(but=1)) == (3, 5)
    clock.now += FRESH_SECONDS / 2
    watched_board.beat(2, 5)
    clock.now += FRESH_SECONDS
    assert watched_board.least_connections(but=2) == float("inf")
    watched_board.forget(0)
    assert list(watched_board.serving()) == [1, 2]
    assert not watched_board.is_draining()
    watched_board.drain()
    assert watched_board.is_draining()
