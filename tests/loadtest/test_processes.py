"""Processes of the load test: when they have ended, what they started holds nothing back."""

import sys

from loadtest.processes import ServiceProcess, is_free
from tests.support.waiting import wait_until

WORKER = """
import os, socket, sys, time
parent = int(sys.argv[2])
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
time.sleep(0.5)
"""
SUPERVISOR = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {WORKER!r}, sys.argv[1], str(os.getpid())])
time.sleep(600)
"""


def test_the_port_is_free_once_a_service_has_been_killed(tmp_path):
    service = ServiceProcess(tmp_path)
    service.command_line = [sys.executable, "-c", SUPERVISOR, str(service.port)]
    service.start()
    wait_until(lambda: "listens" in service.log.read_text())
    assert not is_free(service.port)

    service.end()

    assert is_free(service.port)
