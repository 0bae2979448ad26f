"""Settings: where they come from, what is refused, and what is never shown."""

import json

import pytest
from pydantic import ValidationError

from service import __version__
from service.command_line import descriptions, read_settings
from service.settings import Settings, SettingsError, StoreUrl, hide_password

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


def test_flags_win_over_the_environment_and_that_over_defaults(monkeypatch):
    monkeypatch.setenv("BANDIT_PORT", "9001")
    monkeypatch.setenv("BANDIT_WORKERS", "2")

    settings = read_settings(["--port", "9002"])

    assert (settings.port, settings.workers, settings.host) == (9002, 2, "127.0.0.1")


def test_an_empty_variable_is_unset_but_where_data_or_keys_are_said_to_be(monkeypatch):
    names = [name for name in Settings.model_fields if not name.endswith(("_url", "_file"))]
    for name in names:
        monkeypatch.setenv(f"BANDIT_{name.upper()}", "")

    assert read_settings([]) == Settings()
    monkeypatch.setenv("BANDIT_STORE_URL", "")
    with pytest.raises(SettingsError, match="BANDIT_STORE_URL"):
        read_settings([])


def test_no_flags_are_no_flags_whatever_started_this_process():
    assert read_settings([]).port == 8000


def test_every_setting_is_described():
    assert descriptions().keys() == Settings.model_fields.keys()
    assert all(descriptions().values())


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--port", "99999"], "--port (BANDIT_PORT): Input should be less than or equal to 65535"),
        (["--root-path", "bandit/"], "--root-path (BANDIT_ROOT_PATH): "),
        (["--workers", "0"], "--workers (BANDIT_WORKERS): "),
        (["--grace-seconds", "nan"], "--grace-seconds (BANDIT_GRACE_SECONDS): "),
        (["--dedupe-window-seconds", str(10**15)], "--dedupe-window-seconds (BANDIT_DEDUPE_WINDOW_SECONDS): "),
        (["--appendfsync", "no"], "--appendfsync (BANDIT_APPENDFSYNC): "),
        (["--store-url", "localhost:6379"], "--store-url (BANDIT_STORE_URL): must be embedded:"),
    ],
)
def test_a_bad_value_is_named(flags, message):
    with pytest.raises(SettingsError) as refused:
        read_settings(flags)

    assert message in str(refused.value)


def test_a_refused_store_url_is_not_shown():
    with pytest.raises(SettingsError) as refused:
        read_settings(["--store-url", "redis:user:hunter22@h"])

    assert "hunter22" not in str(refused.value)
    assert "hunter22" not in repr(refused.value.__cause__)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("embedded:", "embedded:"),
        ("memory://", "memory://"),
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://:p@h:6379/0", "redis://***@h:6379/0"),
        ("rediss://u:p@h", "rediss://***@h"),
        ("redis://u:p#/@?x@h", "redis://***"),
        ("redis://u:1/2@h", "redis://***"),
        ("unix://u:p@/s?password=x", "unix://***@/s"),
        ("unix:///s?password=x@y", "unix://***"),
        ("redis:u:p@h", "redis:***"),
        ("redis://h?password=p", "redis://h"),
        ("redis+sentinel://u:p@a,b/m?sentinel_password=p", "redis+sentinel://***@a,b/m"),
        ("redis://u:p@h?password=x@y", "redis://***"),
    ],
)
def test_a_store_url_prints_without_its_secrets(url, shown):
    secret = StoreUrl(url)

    assert shown == hide_password(url) == str(secret) == f"{secret}"
    assert f"StoreUrl({shown!r})" == repr(secret)
    assert url == secret.get_secret_value()


def test_settings_print_without_password():
    settings = Settings(store_url=StoreUrl("redis://u:hunter22@h"))

    assert "hunter22" not in f"{settings} {settings!r} {settings.model_dump()} {settings.model_dump_json()}"


def test_a_worker_gets_the_same_settings(monkeypatch):
    settings = Settings(store_url=StoreUrl("redis://u:hunter22@h"), port=1)
    monkeypatch.setenv("BANDIT_PORT", "2")

    assert Settings(**json.loads(settings.to_json())) == settings


UNKNOWN = {
    "--port needs a value": (["--port"],),
    "--store-url needs a value": (["--workers", "2", "--store-url", "--port", "1"],),
    "--open-metrics needs true or false": (["--open-metrics"],),
    "unexpected argument": (["hunter22"], ["-v"], ["--port", "1", "hunter22"], ["--help=hunter22"]),
    "there is no flag --por": (["--por", "1"],),
    "there is no flag --stor-url": (["--stor-url", "memory://"],),
    "there is no flag --api-key": (["--api-key=hunter22"],),
}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--port", "-1"], "service: --port (BANDIT_PORT): "),
        (["--store-url", "memory://", "--workers", "2"], "memory:// keeps sessions in one process"),
        (["--min-replicas", "1"], "have no replicas"),
        (["--store-url", "memory://", "--min-replicas", "1"], "have no replicas"),
        *((flags, f"service: {said}: see --help\n") for said, each in UNKNOWN.items() for flags in each),
    ],
)
def test_what_makes_no_sense_ends_the_command_with_code_2_and_shows_no_value(flags, message, capsys):
    from service.server.supervisor import main

    assert main(flags) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "hunter22" not in said


def test_help_names_the_flags(capsys):
    with pytest.raises(SystemExit) as ended:
        read_settings(["--help"])

    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')} " in shown for name in Settings.model_fields)
    assert "BANDIT_STORE_URL" in shown
    assert "--version" in shown
    assert not any(word in shown for word in ("StoreUrl", "SecretText", "null", "bool", "Path]"))


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_without_a_command_lists_the_commands(flag, capsys, monkeypatch):
    from service.__main__ import COMMANDS, run

    monkeypatch.setattr("sys.argv", ["service", flag])
    assert run() == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("  ")] == [*COMMANDS]
    assert "--store-url" not in shown


def test_the_version_is_shown_beside_other_flags(capsys):
    with pytest.raises(SystemExit) as ended:
        read_settings(["--port", "1", "--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"delayed-bandits {__version__}\n"
