"""Which worker is given up, and when: decided from the board alone."""

import os
import subprocess
import sys

import pytest

from service.server.pool import FRESH_SECONDS, LOOK_SECONDS, Board, Watchdog, is_traced


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def board(clock):
    board = Board(Board.create(3).descriptor, 3, clock)
    for worker in range(3):
        board.beat(worker, 0)
    return board


def given_up(watchdog, board, clock, *, seconds, beating=(), processes=None):
    """Workers given up within so many seconds of looks."""
    found = []
    for _ in range(round(seconds / LOOK_SECONDS)):
        clock.now += LOOK_SECONDS
        for worker in beating:
            board.beat(worker, 0)
        if (worker := watchdog.stuck(processes or {0: -1, 1: -2, 2: -3}, clock.now)) is not None:
            found.append(worker)
    return found


def test_a_silent_worker_is_given_up_after_its_time_and_once(board, clock):
    watchdog = Watchdog(board, 5)
    given_up(watchdog, board, clock, seconds=1, beating=(0, 1, 2))

    assert given_up(watchdog, board, clock, seconds=4.5, beating=(0, 2)) == []
    assert given_up(watchdog, board, clock, seconds=1, beating=(0, 2)) == [1]
    assert given_up(watchdog, board, clock, seconds=60, beating=(0, 2), processes={0: -1, 2: -3}) == []


def test_of_several_one_is_given_up_at_a_look(board, clock):
    watchdog = Watchdog(board, 2)

    assert sorted(given_up(watchdog, board, clock, seconds=4)) == [0, 1, 2]


def test_a_machine_that_slept_gives_up_nobody(board, clock):
    watchdog = Watchdog(board, 5)
    for _ in range(10):
        given_up(watchdog, board, clock, seconds=1, beating=(0, 1, 2))
        clock.now += 3600

        assert watchdog.stuck({0: -1, 1: -2, 2: -3}, clock.now) is None


def test_a_worker_that_starts_has_a_minute(board, clock):
    watchdog = Watchdog(board, 5)
    board.forget(1)

    assert given_up(watchdog, board, clock, seconds=55, beating=(0, 2)) == []
    assert given_up(watchdog, board, clock, seconds=10, beating=(0, 2)) == [1]


def test_a_worker_that_took_the_place_of_another_begins_anew(board, clock):
    watchdog = Watchdog(board, 5)
    given_up(watchdog, board, clock, seconds=4.5, beating=(0, 2))
    board.forget(1)

    assert given_up(watchdog, board, clock, seconds=4.5, beating=(0, 2), processes={0: -1, 1: -9, 2: -3}) == []


def test_a_worker_under_a_debugger_stays(board, clock, monkeypatch):
    monkeypatch.setattr("service.server.pool.is_traced", lambda process: process == -2)
    watchdog = Watchdog(board, 5)

    assert given_up(watchdog, board, clock, seconds=60, beating=(0, 2)) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_debugger_is_seen_in_proc():
    traced = "import ctypes, sys; ctypes.CDLL(None).ptrace(0, 0, 0, 0); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", traced], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        assert is_traced(child.pid)
        child.stdin.close()
    assert not is_traced(os.getpid())
    assert not is_traced(2**30)


def test_the_board_names_the_least_of_the_living_others(board, clock):
    board.count(0, 7)
    board.count(1, 3)
    board.count(2, 5)

    assert (board.least_connections(but=0), board.least_connections(but=1)) == (3, 5)
    clock.now += FRESH_SECONDS / 2
    board.beat(2, 5)
    clock.now += FRESH_SECONDS
    assert board.least_connections(but=2) == float("inf")
    board.forget(0)
    assert list(board.serving()) == [1, 2]
    assert not board.is_draining()
    board.drain()
    assert board.is_draining()
