"""``sessions``, ``export`` and ``import`` against a real service."""

import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from service.__main__ import SERVER_PACKAGES, WITHOUT_SERVER
from service.client import Bandits, NoAnswerError, UnknownSessionError
from service.commands.run import Screen
from service.commands.sessions import _followed
from tests.support.examples import some_quick

ARMS = "hat,shoes,scarf"


@pytest.fixture(autouse=True)
def _no_sessions(request):
    yield
    if "service" not in request.fixturenames:
        return
    service = request.getfixturevalue("service")
    with Bandits(service.url) as bandits:
        for view in bandits.sessions.list():
            bandits.sessions.delete(view.session_id)


def test_a_session_is_created_shown_paused_and_deleted(called):
    made = called("sessions", "create", "shop", "--arms", ARMS, "--window", 1800)
    assert made["learner"]["kind"] == "multiscale_tsallis"
    assert made["expiry"] == {"after_seconds": 1800, "default_reward": 0, "provisional": True}

    assert called("sessions", "pause", "shop", "hat")["paused"] == ["hat"]
    assert called("sessions", "resume", "shop", "hat")["paused"] == []
    assert called("sessions", "show", "shop")["session_id"] == "shop"
    assert [each["session_id"] for each in called("sessions", "list")["sessions"]] == ["shop"]
    assert called("sessions", "list", "--prefix", "x") == {"sessions": []}
    assert called("sessions", "delete", "shop", "--yes") == {"deleted": "shop"}
    assert called("sessions", "list") == {"sessions": []}


def test_labels_that_the_session_has_not_are_named_and_no_success(called, command, service):
    called("sessions", "create", "shop", "--arms", ARMS)
    code, out, _ = command("sessions", "pause", "shop", "hat", "nope", "--url", service.url)

    assert (code, out.strip()) == (1, 'session shop: 3 arms, paused: hat; it has no "nope"')
    assert (
        ", not clearly yet better than every other arm"
        in command("sessions", "show", "shop", "--url", service.url)[1]
    )
    code, out, _ = command("sessions", "resume", "shop", "gone", "hat", "--json", "--url", service.url)
    assert (code, json.loads(out)["unknown"], json.loads(out)["paused"]) == (1, ["gone"], [])


SHELL = 'exec "$0" -m service sessions {} {}'


@pytest.mark.parametrize(
    "words", some_quick(["list", "list --json", "show shop", "show shop --json"], ["show shop"])
)
def test_what_a_terminal_can_not_show_is_escaped_and_a_closed_one_is_no_fault(called, service, words):
    called("sessions", "create", "shop", "--arms", "é,\N{SOCKS},漢")
    variables = os.environ | {"PYTHONIOENCODING": "ascii", "DELAYED_BANDITS_URL": service.url}
    run = partial(subprocess.run, capture_output=True, text=True, check=False, env=variables)
    shown, closed, full, left = (
        run(["bash", "-c", SHELL.format(words, where), sys.executable])
        for where in ("", ">&- <&-", ">/dev/full", "> >(exec true)")
    )

    assert (shown.returncode, shown.stderr) == (0, "")
    if words == "show shop --json":
        assert json.loads(shown.stdout)["learner"]["arms"] == ["é", "\N{SOCKS}", "漢"]
    elif words == "show shop":
        assert "\\xe9" in shown.stdout
    assert (closed.returncode, closed.stdout + closed.stderr) == (0, "")
    assert full.returncode == 1
    assert "No space left" in full.stderr
    assert not any("Traceback" in each.stderr or "ignored" in each.stderr for each in (full, left))


def test_into_a_pipe_go_lines_with_tabs(command, service, called):
    called("sessions", "create", "shop", "--arms", ARMS)
    code, out, _ = command("sessions", "list", "--url", service.url)

    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ["session", "shop"]
    code, out, _ = command("sessions", "show", "shop", "--url", service.url)
    assert "hat\t0.3333\t0\t0\t0\t-\t0\t1" in out.splitlines()
    assert not [line for line in out.splitlines() if line.startswith("probabilities\t")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_any_session_can_be_created_from_a_file(called, tmp_path, encoding):
    spec = {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}}
    (tmp_path / "tuner.json").write_bytes(json.dumps(spec).encode(encoding))

    assert called("sessions", "create", "tuner", "--spec", tmp_path / "tuner.json")["learner"]["dim"] == 2


def test_the_log_is_printed_as_lines_that_evaluate_reads(command, service, called, tmp_path):
    spec = {"learner": {"kind": "fixed", "arms": ["a", "b"]}, "decision_log": {"max_entries": 100}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    called("sessions", "create", "logged", "--spec", tmp_path / "spec.json")
    with Bandits(service.url) as bandits:
        bandits.session("logged").acts(3)
    code, out, _ = command("sessions", "decisions", "logged", "--url", service.url)

    assert code == 0
    assert [json.loads(line).get("slot") for line in out.splitlines()] == [None, 1, 2, 3]


def test_sessions_go_to_files_and_come_back_as_they_were(called, command, service, tmp_path):
    for name in ("one", "two"):
        called("sessions", "create", name, "--arms", ARMS)
    with Bandits(service.url) as bandits:
        bandits.session("one").feedback(bandits.session("one").act(), reward=1)
    before = called("sessions", "show", "one")
    exported = called("export", "--all", "--to", tmp_path / "moved")
    assert [each["session_id"] for each in exported["exported"]] == ["one", "two"]

    called("sessions", "delete", "one", "--yes")
    code, _, err = command("import", tmp_path / "moved/two.session.json", "--url", service.url)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "session_exists" in err
    assert called("import", tmp_path / "moved", "--skip-present") == {"imported": ["one"], "skipped": ["two"]}
    assert {**called("sessions", "show", "one"), "version": ""} == {**before, "version": ""}


def test_a_session_that_is_not_there_leaves_no_file(command, service, tmp_path):
    code, _, err = command("export", "nobody", "--to", tmp_path, "--url", service.url)

    assert (code, list(tmp_path.iterdir())) == (1, [])
    assert err == "prog export: 404 unknown_session: There is no session with this id\n"


def test_one_of_many_that_can_not_be_exported_is_named(called, command, service, tmp_path):
    called("sessions", "create", "there", "--arms", ARMS)
    code, _, err = command("export", "there", "gone", "--to", tmp_path, "--url", service.url)

    assert (code, [path.name for path in tmp_path.iterdir()]) == (1, ["there.session.json"])
    assert "gone: 404 unknown_session" in err
    assert "1 were exported before it" in err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["sessions", "list", "--url", "http://127.0.0.1:9"], 1, "start a service with `delayed-bandits serve`"),
        (["export", "--all", "--url", "http://127.0.0.1:9"], 1, "start a service"),
        (["verdict", "s", "--url", "http://127.0.0.1:9"], 1, "start a service"),
        (["compare", "a", "b", "--url", "http://127.0.0.1:9"], 1, "start a service"),
        (["export"], 1, "name sessions, or all of them with --all"),
        (["sessions", "list", "--url", "nowhere"], 2, "give the service's address"),
        (["sessions", "create", "shop"], 1, "name the arms with --arms"),
        (["sessions", "delete", "shop"], 1, "say --yes"),
        (["import", "/nowhere"], 1, "No such file"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(command, words, code, says, monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    ended, out, err = command(*words)

    assert (ended, out, len(err.splitlines())) == (code, "", 1)
    assert err.startswith(f"prog {words[0]}: ")
    assert says in err


def test_fields_that_are_wrong_are_named(command, service):
    code, _, err = command("sessions", "create", "shop", "--arms", "a,a", "--url", service.url)

    assert code == 1
    assert err.count("arms must have different labels") == 1
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["sessions", "list", "--nix"],
        ["sessions"],
        ["sessions", "pause", "s"],
        ["import"],
        ["version", "x"],
        ["sessions", "decisions", "s", "--limit", "1"],
    ],
)
def test_wrong_flags_are_one_line(command, capsys, words):
    with pytest.raises(SystemExit) as ended:
        command(*words)
    err = capsys.readouterr().err

    assert (ended.value.code, len(err.splitlines())) == (2, 1)
    assert err.startswith(f"prog {words[0]}")
    assert err.endswith("; see --help\n")


def test_on_a_terminal_there_are_tables_without_control_characters(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    Screen().table(("arm", "acts"), [("[red]\x1b[2Ja", 12_000), ("b", None)])
    out = capsys.readouterr().out

    assert "[red] [2Ja" in out
    assert "12,000" in out


def test_versions_are_told(command):
    assert "python" in json.loads(command("version", "--json")[1])
    assert command("version")[1].startswith("delayed-bandits ")


def test_commands_that_only_call_a_service_need_no_package_of_the_server():
    code = f"""
import contextlib, sys
sys.modules |= dict.fromkeys({SERVER_PACKAGES})
from service.commands.run import main
for word in {sorted(WITHOUT_SERVER)}:
    with contextlib.suppress(SystemExit):
        main(word, ["--help"], "prog")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert [word for word in WITHOUT_SERVER if f"usage: prog {word}" not in said] == []


def test_who_follows_goes_on_behind_the_last_entry_after_the_service_was_away(monkeypatch, capsys):
    monkeypatch.setattr("service.commands.sessions.RETRY_SECONDS", 0)
    answers = iter(
        [
            {"decisions": [{"position": 1}], "cursor": "one"},
            NoAnswerError("restarts"),
            NoAnswerError("restarts"),
            {"decisions": [{"position": 2}], "cursor": "two", "missed": True},
            UnknownSessionError(404, {"code": "unknown_session"}),
        ]
    )
    asked = []

    class Log:
        def view(self):
            pass

        def follow(self, cursor, limit):
            asked.append(cursor)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
                yield answer

    followed = _followed(Log())
    assert [next(followed)["position"] for _ in range(2)] == [1, 2]
    with pytest.raises(UnknownSessionError):
        next(followed)
    assert asked == [None, "one", "one"]
    said = capsys.readouterr().err
    assert [said.count(text) for text in ("trying again", "trimmed away")] == [1, 1]


def test_a_log_is_followed_until_it_is_interrupted(called, service, tmp_path):
    spec = {"learner": {"kind": "fixed", "arms": ["a", "b"]}, "decision_log": {"max_entries": 100}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    called("sessions", "create", "logged", "--spec", tmp_path / "spec.json")
    words = ("sessions", "decisions", "logged", "--follow", "--url", service.url)
    command = [sys.executable, "-m", "service", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following, Bandits(service.url) as bandits:
        for slots in ([None, 1], [2]):
            bandits.session("logged").act()
            assert [json.loads(following.stdout.readline()).get("slot") for _ in slots] == slots
        following.send_signal(signal.SIGINT)
        assert following.wait(30) == 130
