"""Closed-loop load on a target, by wrk or by clients in Python."""

from __future__ import annotations

from loadtest.bench.closed_loop import Rate, run_clients
from loadtest.bench.targets import Target
from loadtest.bench.wrk import run_wrk


def run_load(target: Target, wrk: str | None, clients: int, seconds: float) -> Rate:
    """Call a target for some seconds, and return the rate of requests.

    Parameters
    ----------
    wrk : the program; None for clients in Python, which also make the load that wrk cannot
    clients : connections that wait for one answer before they send the next request
    """
    if wrk is not None and target.says is not None:
        return run_wrk(wrk, target.port, clients, seconds, target.says)
    return run_clients(target.port, target.talk, clients, seconds)
