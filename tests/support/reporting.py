"""Prints what it reports, and ends in a certain way: ``python -m tests.support.reporting URL END``."""

import multiprocessing
import os
import re
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest.mock import Mock

from service.client import Bandits, ReportRules

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
bandits = Bandits(sys.argv[1], reports=ReportRules(interval=1000.0))


def run_line(end, **names):
    """Do what the page says of processes that end so, and return what that defines."""
    line = re.search(rf"^\| {end} \| `(.+)` \|$", PAGE.read_text(), re.M)[1]
    exec(line, names := names | {"bandits": bandits, "signal": signal, "sys": sys})
    return names


def report(name):
    assert bandits.session("s").report(0, loss=0.5, event_id=name)
    os.write(1, f"{name}\n".encode())


def terminate(name):
    run_line("SIGTERM")
    report(name)
    os.kill(os.getpid(), signal.SIGTERM)


def work_for_celery(name):
    """End as billiard ends the processes of Celery's pool: the signal's receivers are called, and nothing else."""
    run_line("Celery", worker_process_shutdown=(shutdown := Mock()))
    report(name)
    shutdown.connect.call_args.args[0](sender=None, pid=os.getpid(), exitcode=0)
    os._exit(0)


def work_for_gunicorn(name):
    hook = run_line("gunicorn")["worker_exit"]
    report(name)
    hook(None, None)
    os._exit(0)


def fork(name):
    report(f"{name}-{os.fork()}")
    sys.exit()


def start_children(method):
    context = multiprocessing.get_context(method)
    for target in (report, terminate, fork):
        child = context.Process(target=target, args=(f"{method}-{target.__name__}",))
        child.start()
        child.join()
    with ProcessPoolExecutor(1, context) as pool:
        pool.submit(report, f"{method}-pool").result()


if __name__ == "__main__":
    ends = {"celery": work_for_celery, "gunicorn": work_for_gunicorn, "sigterm": terminate, "os.fork": fork}
    ends.get(sys.argv[2], start_children)(sys.argv[2])
