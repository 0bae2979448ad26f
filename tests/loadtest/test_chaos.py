"""Chaos finds nothing, and its audit finds whatever is wrong."""

import json
import socket
import subprocess
import sys
import uuid
from contextlib import ExitStack, suppress
from threading import Thread

import httpx
import pytest
from typer.testing import CliRunner

from loadtest.chaos.audit import Ledger, audit
from loadtest.chaos.faults import CLOCKS, DISKS, FAULTS, SLOWNESS, WORKERS, CuttingProxy, Freeze
from loadtest.chaos.load import Load, _Counting, open_sessions
from loadtest.chaos.replicas import FAILOVERS, LOSSES, PARTITIONS, LetGo
from loadtest.chaos.rounds import ONE_STORE, clients_of, plan
from loadtest.client import CallLog, Client
from loadtest.commands import app
from tests.support.http import http_client
from tests.support.programs import server_binary


@pytest.fixture(scope="module")
def url(service):
    return service.url


@pytest.fixture
def client(url):
    with http_client(url) as http:
        yield Client(http)


@pytest.fixture
def ledger(client):
    """Four acts in three calls, two of them reported, and one void."""
    name = uuid.uuid4().hex
    body = {"session_id": name, "learner": {"kind": "dexp3", "n_arms": 3}, "decision_log": {"max_entries": 100}}
    client.call("create", "POST", "/v1/sessions", body)
    made = Ledger(name, has_log=True)
    for key, count in (("a", 1), ("b", 2), ("c", 1)):
        made.acted(key, {"count": count}, act(client, made, key, count)["actions"])
    events = [event(made, 0, "x"), event(made, 1, "y"), event(made, 0, "x"), event(made, 3, "v") | {"loss": None}]
    made.settled(events, client.call("feedbacks", "POST", f"{made.path}/feedbacks", {"events": events}))
    return made


def act(client, ledger, key, count=1):
    return client.call("acts", "POST", f"{ledger.path}/acts", {"count": count}, key)


def event(ledger, index, event_id):
    return {"event_id": event_id, "arm": ledger.actions[index]["arm"], "loss": 0.5}


def report(client, ledger, index, event_id):
    return client.call("feedback", "POST", f"{ledger.path}/feedback", event(ledger, index, event_id))


def test_a_session_that_is_as_it_was_acknowledged_passes(client, ledger):
    assert audit(client, ledger) == []


def changed(ledger, **fields):
    """Let the first act be another one."""
    first, *rest = ledger.acts
    ledger.acts[:] = [first._replace(actions=[{**first.actions[0], **fields}]), *rest]


WRONG = {
    "slot is 5, acknowledged 4": lambda client, ledger: act(client, ledger, "applied twice"),
    "feedbacks is 3, acknowledged 2": lambda client, ledger: report(client, ledger, 2, "z"),
    "voided is 1, acknowledged 0": lambda _, ledger: ledger.events.update(v=event(ledger, 3, "v")),
    "slot is 4, acknowledged 5": lambda _, ledger: ledger.acted(
        "lost", {}, [{"slot": 5, "arm": 0, "probability": 1}]
    ),
    "feedbacks is 2, acknowledged 3": lambda _, ledger: ledger.events.update(z=event(ledger, 2, "z")),
    "slots given twice: [1]": lambda _, ledger: ledger.acted("again", {"count": 1}, ledger.acts[0].actions),
    "the acknowledged slots have gaps": lambda _, ledger: changed(ledger, slot=9),
    "2 events sent, the answer was": lambda _, ledger: ledger.settled(
        [event(ledger, 0, "x"), event(ledger, 0, "x")], {"applied": 0, "duplicates": 1, "voided": 0}
    ),
    "act a was": lambda _, ledger: changed(ledger, probability=0.9),
    "the mean of arm": lambda _, ledger: ledger.events.update(x=event(ledger, 0, "x") | {"loss": 0.6}),
    "acknowledged {'acts'": lambda _, ledger: changed(ledger, arm=(ledger.actions[0]["arm"] + 1) % 3),
    "arms not listed: [7]": lambda _, ledger: changed(ledger, arm=7),
    "the log has 5 acts": lambda client, ledger: act(client, ledger, "applied twice"),
    "the log has {'kind': 'act', 'slot': 1": lambda _, ledger: changed(ledger, probability=0.9),
    "4 events in the log, 3 acknowledged": lambda client, ledger: report(client, ledger, 2, "z"),
    "nothing was acknowledged": lambda _, ledger: ledger.acts.clear(),
    "unknown_session": lambda client, ledger: httpx.delete(f"{client.url}{ledger.path}"),
}


@pytest.mark.parametrize("problem", WRONG)
def test_whatever_differs_is_found(client, ledger, problem):
    WRONG[problem](client, ledger)

    assert any(problem in found for found in audit(client, ledger))


IMPROVED = {
    "exact": {},
    "goals were reached": {"event_id": "b", "arm": 1, "goal": "high"},
    "the mean of arm 0": {"event_id": "a", "arm": 0, "reward": 0.75},
    "the log has event a at 0.75": {"event_id": "a", "arm": 0, "reward": 0.75},
}


@pytest.mark.parametrize("problem", IMPROVED)
def test_an_event_counts_at_its_best(client, problem):
    goals, name = {"low": 0.25, "high": 0.5}, uuid.uuid4().hex
    body = {"session_id": name, "learner": {"kind": "fixed", "n_arms": 2}, "reward_range": [0, 1], "goals": goals}
    body |= {"updates": {"within_seconds": 60}, "decision_log": {"max_entries": 100}}
    client.call("create", "POST", "/v1/sessions", body)
    made = Ledger(name, "reward", has_log=True, goals=goals)
    for arm in (0, 1):
        asked = {"count": 1, "eligible": [arm]}
        made.acted(str(arm), asked, client.call("acts", "POST", f"{made.path}/acts", asked, str(arm))["actions"])
    outcomes = [{"reward": 0.125}, {"goal": "high"}, {"goal": "low"}, {"reward": None}]
    events = [{"event_id": "a", "arm": 0} | outcome for outcome in outcomes]
    events += [{"event_id": "b", "arm": 1} | outcome for outcome in (outcomes[2], {"reward": 0.375}, outcomes[0])]
    made.settled(events, client.call("feedbacks", "POST", f"{made.path}/feedbacks", {"events": events}))
    if posted := IMPROVED[problem]:
        client.call("feedback", "POST", f"{made.path}/feedback", posted)

    found = audit(client, made)

    assert (found == []) == (problem == "exact")
    assert problem == "exact" or any(problem in each for each in found)


@pytest.mark.parametrize("reward", [0.5, 0.25])
def test_regressions_know_what_was_said_of_visitors(client, reward):
    ledger = open_sessions(client, uuid.uuid4().hex, features=True)[0]
    said = {"taste": [0.5, 0, -1, 0], "shop": "web", "new": True}
    for key in "ab":
        body = {"count": 2, "features": said}
        actions = client.call("acts", "POST", f"{ledger.path}/acts", body, key)["actions"]
        ledger.acted(key, body, actions)
    where = {name: actions[0][name] for name in ("slot", "arm")}
    first = {"event_id": "x", "reward": 0.5, "features": said} | where
    ledger.settled([first], client.call("feedbacks", "POST", f"{ledger.path}/feedbacks", {"events": [first]}))
    ledger.events["x"] = first | {"reward": reward}

    found = audit(client, ledger)

    assert (found == []) == (reward == 0.5)
    assert reward == 0.5 or any("the regression of arm" in each for each in found)


def test_what_has_no_id_may_count_without_an_answer_but_once(client):
    made = Ledger(uuid.uuid4().hex, is_named=False)
    body = {"session_id": made.session_id, "learner": {"kind": "centred_tsallis", "n_arms": 3}}
    client.call("create", "POST", "/v1/sessions", body)

    def act_with(arm):
        return client.call("acts", "POST", f"{made.path}/acts", {"count": 1, "eligible": [arm]})["actions"]

    assert "nothing was acknowledged" in audit(client, made)[0]
    made.acted("", {}, act_with(0))
    act_with(1)
    assert audit(client, made) == []
    act_with(0)
    made.events["2"] = {"arm": 2, "loss": 0.5}
    assert [found.split(": ", 1)[1] for found in audit(client, made)] == [
        "arm 0 has {'acts': 2, 'feedbacks': 0}, acknowledged {'acts': 1}",
        "arm 2 has {'acts': 0, 'feedbacks': 0}, acknowledged {'feedbacks': 1}",
    ]


def test_no_fault_happens_before_each_session_has_acknowledged_an_act(client):
    with ExitStack() as stack:
        ledgers = open_sessions(client, uuid.uuid4().hex)
        with Load(clients_of(stack, client.url, 60), ledgers).running():
            assert all(ledger.acts for ledger in ledgers)


class Once(httpx.SyncByteStream):
    """A body that can be read once, as that of a connection."""

    def __init__(self):
        self.parts = iter([b'{"code": ', b'"overloaded"}'])

    def __iter__(self):
        return self.parts


def test_a_refusal_is_counted_and_still_read_by_the_users_client(monkeypatch):
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *_: httpx.Response(503, stream=Once()))
    log = CallLog()

    answer = _Counting(log).handle_request(httpx.Request("GET", "http://service"))

    assert b"".join(answer.stream) == b'{"code": "overloaded"}'
    assert log.retries == {"status 503 overloaded": 1}


def test_bounds_of_a_freeze_and_of_a_loss_are_held():
    assert Freeze(19, 0.9, 4.9).problems() == []
    assert Freeze(21, 0.9, 4.9).problems() == ["red_after was 21.00 s, allowed 20 s"]
    assert len(Freeze(21, float("inf"), 6.0).problems()) == 3
    assert len(Freeze(21, float("inf"), 6.0).problems(time_factor=2.0)) == 1
    assert LetGo(5.9).problems() == LetGo(11.9).problems(2) == []
    assert LetGo(6.5).problems() == ["commits_after was 6.50 s, allowed 6 s"]


def chaos(folder, kinds, *flags):
    """Play these kinds of fault; skip the test where none of them can be."""
    server_binary()
    named = [word for kind in kinds for word in ("--fault", kind)]
    command = [sys.executable, "-m", "loadtest", "chaos", "--out", str(folder), *named, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((folder / "summary.json").read_text())
    assert found["ok"]
    if not found["faults"]:
        pytest.skip(str(found["skipped"]))
    return found


COMMAND_SECONDS = 600
"""On a machine that others use too a round takes a quarter of a minute."""
in_time = pytest.mark.timeout(COMMAND_SECONDS + 10)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="chaos finds workers in /proc")


def takes_minutes(test):
    for mark in (pytest.mark.slow, pytest.mark.alone, in_time, on_linux):
        test = mark(test)
    return test


@pytest.mark.recipes
@takes_minutes
def test_one_round_of_each_fault_and_a_freeze_run_clean(tmp_path):
    rounds = ("--rounds", str(len(FAULTS)))
    summary = chaos(tmp_path, FAULTS, *rounds, "--long-freezes", "1", "--freeze-seconds", "4", "--time-factor", "4")

    assert set(summary["faults"]) == {*FAULTS, "store frozen for long"}
    for found in summary["faults"].values():
        assert found["rounds"] == 1
        assert found["events"] > 0


@pytest.mark.recipes
@takes_minutes
@pytest.mark.parametrize(
    "kinds", [SLOWNESS, CLOCKS, DISKS, FAILOVERS, LOSSES, PARTITIONS], ids=lambda kinds: next(iter(kinds))
)
def test_one_round_of_each_other_fault_runs_clean(tmp_path, kinds):
    count = str(len(list(kinds)))
    summary = chaos(tmp_path, kinds, "--rounds", count, "--failovers", count, "--time-factor", "4")

    assert set(summary["faults"]) == set(kinds)
    assert all(found["events"] > 0 for found in summary["faults"].values())


@takes_minutes
@pytest.mark.parametrize("flags", [("planned failover", "--failovers=1"), (*WORKERS, "--rounds=4")])
def test_some_rounds_run_clean(tmp_path, flags):
    kind, rounds = flags

    summary = chaos(tmp_path, [kind], rounds, "--time-factor=2")

    assert summary["faults"][kind]["events"] > 0


@pytest.mark.slow
@in_time
def test_a_running_service_is_loaded_and_audited_while_a_command_runs(url, tmp_path):
    result = CliRunner().invoke(app, ["chaos", "--url", url, "--during", "sh -c 'exit 3'", "--out", str(tmp_path)])

    found = json.loads((tmp_path / "summary.json").read_text())
    assert (result.exit_code, found["ok"], found["problems"]) == (1, False, ["the command ended with 3"])
    assert found["acts"] > found["events"] > 0
    assert CliRunner().invoke(app, ["chaos", "--during", "true"]).exit_code == 2


def test_an_unknown_fault_is_refused_with_the_known_ones(tmp_path):
    result = CliRunner().invoke(app, ["chaos", "--fault", "flood", "--out", str(tmp_path / "out")])

    assert result.exit_code == 2
    assert "planned failover" in result.output


@on_linux
def test_a_kind_that_the_machine_does_not_allow_is_skipped_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    flags = ["--rounds", "1", "--failovers", "1", "--fault", "disk full", "--fault", "master cut off"]
    result = CliRunner().invoke(app, ["chaos", *flags, "--out", str(tmp_path / "out")])

    assert result.exit_code == 0
    assert "skipped: master cut off: needs the program ip" in result.output
    assert "skipped: disk full: needs the program mount" in result.output


def test_faults_of_all_stages_take_turns():
    kinds = [FAULTS, WORKERS, SLOWNESS, CLOCKS, DISKS]

    planned = plan(ONE_STORE, None, sum(map(len, kinds)) + 2)
    assert [count for _, count in planned] == [len(FAULTS) + 2, *map(len, kinds[1:])]
    assert [(list(kind.faults), count) for kind, count in plan(ONE_STORE, ["disk full"], 2)] == [(["disk full"], 2)]
    assert plan(ONE_STORE, ["planned failover"], 2) == plan(ONE_STORE, None, 0) == []


@pytest.fixture
def received():
    """A port that answers each request with itself in capitals, and the requests that came."""
    requests = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            while True:
                try:
                    link, _ = server.accept()
                except OSError:
                    return
                with link, suppress(ConnectionResetError):
                    while data := link.recv(100):
                        requests.append(data)
                        link.sendall(data.upper())

        thread = Thread(target=answer)
        thread.start()
        yield server.getsockname()[1], requests
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def ask(proxy, request=b"request"):
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as link:
        link.sendall(request)
        try:
            return link.recv(100)
        except ConnectionResetError:
            return b""


def test_it_passes_everything_on_until_armed(received):
    with CuttingProxy(received[0]) as proxy:
        assert [ask(proxy), ask(proxy)] == [b"REQUEST", b"REQUEST"]
        assert proxy.cut == 0


@pytest.mark.parametrize(
    ("where", "arrived", "answered"),
    [("request", [], b""), ("half_request", [b"req"], b""), ("reply", [b"request"], b"")],
)
def test_it_cuts_once_where_it_is_told_to(received, where, arrived, answered):
    with CuttingProxy(received[0]) as proxy:
        proxy.arm(where)

        assert (ask(proxy), ask(proxy, b"next")) == (answered, b"NEXT")
        assert received[1][:-1] == arrived
        assert proxy.cut == 1


def test_a_closed_port_is_a_closed_connection(received):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with CuttingProxy(port) as proxy:
        assert ask(proxy) == b""
