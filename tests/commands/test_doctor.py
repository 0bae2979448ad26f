"""``doctor``: what it says of servers, folders, settings and a running service, and its exit code."""

import asyncio
import json
import os
import re

import pytest

from service.commands import doctor
from service.commands.doctor import Level, check_service, check_settings
from service.errors import StoreUnavailableError
from service.settings import Settings, StoreUrl
from service.store import open_store
from service.store.base import NewSession
from tests.support.compose import COMPOSE
from tests.support.running import RunningService

NOW = 1.8e9
WELL = {
    "redis_version": "7.2.4",
    "aof_enabled": "1",
    "used_memory": "1000",
    "maxmemory": "100000",
    "maxmemory_policy": "noeviction",
    "connected_slaves": "1",
    "server_time_usec": str(int(NOW * 1e6)),
    "asked": str(NOW - 0.01),
    "answered": str(NOW),
}


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in [*os.environ]:
        if name.startswith(("BANDIT_", "DELAYED_BANDITS_")):
            monkeypatch.delenv(name)


def judge(info=(), fsync="always", missing=(), **settings):
    settings = Settings(**{"store_url": StoreUrl("redis://r"), "min_replicas": 1} | settings)
    server = WELL | dict(info) | ({} if fsync is None else {"appendfsync": fsync})
    return {each.subject: each for each in doctor.check([server], missing, settings)}


def test_a_server_as_it_should_be_is_well():
    assert {each.level for each in judge().values()} == {Level.OK}


@pytest.mark.parametrize(
    ("change", "subject", "level", "says"),
    [
        ({"info": {"redis_version": "6.0.9"}}, "server", Level.ERROR, "6.2 or newer"),
        ({"info": {"valkey_version": "9.0.0", "redis_version": "7.2.4"}}, "server", Level.OK, "valkey 9.0.0"),
        ({"info": {"aof_enabled": "0"}}, "append-only file", Level.ERROR, "appendonly yes"),
        ({"info": {"aof_last_write_status": "err"}, "fsync": None}, "append-only file", Level.WARNING, "may not"),
        ({"fsync": "everysec"}, "append-only file", Level.WARNING, "set appendfsync to always"),
        ({"fsync": "no"}, "append-only file", Level.ERROR, "to always"),
        ({"info": {"maxmemory_policy": "allkeys-lru"}}, "eviction", Level.ERROR, "noeviction"),
        ({"info": {"maxmemory": "0"}}, "memory", Level.OK, "without a limit"),
        ({"info": {"used_memory": "90000"}}, "memory", Level.WARNING, "90%"),
        ({"min_replicas": 2}, "replicas", Level.ERROR, "every commit is refused"),
        ({"min_replicas": 0}, "replicas", Level.WARNING, "BANDIT_MIN_REPLICAS to 1"),
        ({"info": {"role": "slave"}}, "replicas", Level.ERROR, "master"),
        ({"info": {"server_time_usec": str(int(NOW * 1e6) + 5_000_000)}}, "clock", Level.WARNING, "+5.0 s"),
        ({"info": {"asked": str(NOW - 3)}}, "clock", Level.OK, "agree"),
        ({"missing": ("HSET", "XADD")}, "rights", Level.ERROR, "+hset +xadd"),
        ({"missing": None}, "rights", Level.OK, "before Redis 7"),
    ],
)
def test_what_should_change_is_said(change, subject, level, says):
    found = judge(**change)[subject]

    assert found.level is level
    assert says in f"{found.found}; {found.do}"


@pytest.mark.parametrize(
    ("settings", "environment", "says"),
    [
        ({}, {"BANDIT_PROT": "1"}, "BANDIT_PROT is no setting"),
        ({"host": "0.0.0.0"}, {}, "may do everything"),
        ({"workers": 256}, {}, "256 on"),
        ({"api_keys": '[{"name": "r", "key": "k234567890123456", "role": "reader"}]'}, {}, "role admin"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings, environment, says):
    (found,) = check_settings(Settings(**settings), environment)

    assert found.level is Level.WARNING
    assert says in found.found


def test_a_store_that_forbids_commands_is_not_to_be_started(monkeypatch):
    async def refuse(url, options):
        raise StoreUnavailableError("the store's user lacks a permission (NOPERM): evalsha.")

    monkeypatch.setattr(doctor, "examine", refuse)
    (found,) = doctor.check_store(Settings(store_url="redis://h"))
    assert (found.found[-9:], found.do[:11]) == (": evalsha", "ACL SETUSER")


def test_files_of_secrets_that_others_can_read_are_named(tmp_path):
    path = tmp_path / "url"
    path.write_text("redis://x")
    environment = {"BANDIT_STORE_URL_FILE": str(path)}
    levels = []
    for mode in (0o644, 0o600):
        path.chmod(mode)
        levels.append([*check_settings(Settings(), environment)][-1].level)
    path.unlink()
    keys = next(check_settings(Settings(token_keys_file=path), environment))
    assert (keys.level, "BANDIT_TOKEN_KEYS_FILE" in keys.found) == (Level.ERROR, True)
    levels.append([*check_settings(Settings(), environment)][-1].level)

    assert levels == [Level.WARNING, Level.OK, Level.ERROR]


def found_by(command, *flags):
    code, out, err = command("doctor", "--json", *flags)
    assert err == ""
    document = json.loads(out)
    assert document["exit_code"] == code
    return code, {each["subject"]: each for each in document["findings"]}


def test_a_store_in_memory_loses_its_sessions(command):
    code, found = found_by(command, "--store-url", "memory://")

    assert code == 2
    assert "lost" in found["store"]["found"]


@pytest.mark.parametrize(
    "flags",
    [
        ("--store-url", "redis://127.0.0.1:9/0"),
        pytest.param(("--store-url", "redis://:secret@x@y/0"), marks=pytest.mark.slow),
        ("--store-url", "memory://", "--workers", "2"),
        ("--data-dir", f"{__file__}/data"),
    ],
)
def test_a_store_that_can_not_be_used_is_an_error(command, flags):
    code, out, _ = command("doctor", *flags)

    assert code == 2
    assert "ERROR" in out
    assert "secret" not in out


def test_flags_that_make_no_sense_are_one_line(command):
    code, out, err = command("doctor", "--workers", "x")

    assert (code, out, len(err.splitlines())) == (2, "", 1)


@pytest.mark.quick
@pytest.mark.processes
def test_a_folder_and_a_service_are_looked_at_before_and_while_it_runs(command, tmp_path):
    code, before = found_by(command, "--data-dir", tmp_path / "data")
    assert code == 0
    assert "not made yet" in before["store"]["found"]
    assert not (tmp_path / "data").exists()

    with RunningService(tmp_path) as service:
        service.wait_ready()
        code, found = found_by(command, "--data-dir", tmp_path / "data", "--url", service.url)
    assert {each["subject"] for each in found.values() if each["level"] != "ok"} == set()
    assert code == 0
    assert "before each answer" in found["append-only file"]["found"]
    assert {"rights", "clock", "service", "readiness", "API key", "version"} <= found.keys()

    code, after = found_by(command, "--data-dir", tmp_path / "data", "--appendfsync", "everysec")
    assert code == 1
    assert "not running" in after["store"]["found"]


def test_a_service_that_can_not_be_asked_is_an_error():
    (away,), (unnamed,) = check_service("http://127.0.0.1:9"), check_service("localhost:8000")

    assert away.level is unnamed.level is Level.ERROR
    assert "or correct --url" in unnamed.do
    assert "http://" in unnamed.found


def test_a_store_of_the_defaults_is_not_taken_for_that_of_a_service_elsewhere(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    _, elsewhere = found_by(command, "--url", "http://127.0.0.1:9")
    _, here = found_by(command)
    _, named = found_by(command, "--url", "http://127.0.0.1:9", "--data-dir", "data")

    assert "store" not in elsewhere
    assert "store" in here
    assert "store" in named


def test_the_shipped_rights_are_enough_and_missing_ones_are_named(command, own_redis_server):
    line = COMPOSE["services"]["redis"]["command"].partition("--user bandit")[2]
    rights = [word for word in line.split() if word.startswith("+") and word[1].isalpha()]
    create = ("ACL", "SETUSER", "small", "reset", "on", ">secret", "~bandit:*", "resetchannels", "-@all")
    url = f"redis://small:secret@127.0.0.1:{own_redis_server.port}/0"

    own_redis_server.client.execute_command(*create, *rights)
    code, found = found_by(command, "--store-url", url)
    assert (code, found["rights"]["level"]) == (1, "ok")
    assert "may not read appendfsync" in found["append-only file"]["found"]

    own_redis_server.client.execute_command(*create, *(right for right in rights if right != "+info"))
    code, found = found_by(command, "--store-url", url)
    assert (code, found["rights"]["level"], found["server"]["level"]) == (1, "ok", "warning")
    assert "can't check version, append-only file" in found["server"]["found"]
    code, found = found_by(command, "--store-url", url, "--min-replicas", "1")
    assert (code, found["rights"]["do"]) == (2, "ACL SETUSER ... +info")

    own_redis_server.client.execute_command(*create, *(right for right in rights if right != "+xadd"))
    code, found = found_by(command, "--store-url", url)
    assert (code, found["rights"]["do"]) == (2, "ACL SETUSER ... +xadd")


def test_a_folder_of_another_user_can_not_be_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    (found,) = doctor.check_store(Settings(data_dir=tmp_path / "data"))

    assert (found.level, found.found) == (Level.WARNING, f"can't check {tmp_path}: Permission denied")


async def _stored(url, ids, schema, readers):
    store = open_store(url)
    for session_id in ids:
        await store.create(NewSession(session_id, "v-1", b"", bytes([schema, 3, 0])))
    for worker, schemas in readers.items():
        await store.announce(worker, schemas, 30)
    await store.close()


def test_sessions_of_each_schema_are_counted_and_those_named_that_not_all_read(command, own_redis_server):
    says = []
    for ids, schema, readers in [("ab", 1, {"old": [1], "new": [1, 2]}), ("tuvwxyz", 2, {})]:
        asyncio.run(_stored(own_redis_server.url, ids, schema, readers))
        found = found_by(command, "--store-url", own_redis_server.url)[1]["schemas"]
        says.append((found["level"], re.sub("( [t-z],?){5}", " SOME", found["found"])))

    assert says == [
        ("ok", "sessions by schema: 2 in 1; live workers: 2"),
        ("warning", "sessions by schema: 2 in 1, 7 in 2; live workers: 2; not all read SOME ..."),
    ]
