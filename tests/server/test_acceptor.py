"""Taking connections from the shared socket: in this process, on real sockets."""

import asyncio
import errno
import socket

import pytest

from service.server import pool as module
from service.server.listeners import AddressError, bind
from service.server.pool import Acceptor, Board, listen, refuse
from tests.support.waiting import until


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
        self.acceptor = Acceptor(listener, lambda _: Noting(self.taken), board, number, lambda: len(self.taken))
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

    def make(_):
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
