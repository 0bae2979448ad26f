"""Settings: where they come from, what is refused, and what is never shown."""

import json

import pytest
from pydantic import ValidationError

from service import __version__
from service.settings import Settings, SettingsError, StoreUrl, hide_password, read_settings


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"BANDIT_{name.upper()}", raising=False)


def test_flags_win_over_the_environment_and_that_over_defaults(monkeypatch):
    monkeypatch.setenv("BANDIT_PORT", "9001")
    monkeypatch.setenv("BANDIT_WORKERS", "2")

    settings = read_settings(["--port", "9002"])

    assert (settings.port, settings.workers, settings.host) == (9002, 2, "127.0.0.1")


def test_no_flags_are_no_flags_whatever_started_this_process():
    assert read_settings([]).port == 8000


def test_every_setting_is_described():
    assert all(field.description for field in Settings.model_fields.values())


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


def test_bad_values_end_the_command_with_code_2(capsys):
    from service.server.cli import main

    assert main(["--port", "-1"]) == 2
    assert "service: --port (BANDIT_PORT): " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--store-url", "memory://", "--workers", "2"], "memory:// keeps sessions in one process"),
        (["--min-replicas", "1"], "have no replicas"),
        (["--store-url", "memory://", "--min-replicas", "1"], "have no replicas"),
    ],
)
def test_what_the_store_cannot_do_ends_the_command_with_code_2(flags, message, capsys):
    from service.server.cli import main

    assert main(flags) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_flag_ends_the_command_with_code_2(capsys):
    from service.server.cli import main

    assert main(["--stor-url", "memory://"]) == 2
    assert capsys.readouterr().err == "service: there is no flag --stor-url: see --help\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--port"], "--port needs a value"),
        (["--workers", "2", "--store-url", "--port", "1"], "--store-url needs a value"),
        (["--open-metrics"], "--open-metrics needs true or false"),
        (["hunter22"], "unexpected argument"),
        (["-v"], "unexpected argument"),
        (["--port", "1", "hunter22"], "unexpected argument"),
        (["--por", "1"], "there is no flag --por"),
        (["--api-key=hunter22"], "there is no flag --api-key"),
        (["--help=hunter22"], "unexpected argument"),
    ],
)
def test_bad_flags_are_named_without_values(flags, message, capsys):
    from service.server.cli import main

    assert main(flags) == 2
    assert capsys.readouterr().err == f"service: {message}: see --help\n"


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


@pytest.fixture
def secret(tmp_path):
    """A file with a text in it."""

    def write(text):
        file = tmp_path / "secret"
        file.write_bytes(text)
        return str(file)

    return write


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_store_url_may_stand_in_a_file(monkeypatch, secret, end):
    monkeypatch.setenv("BANDIT_STORE_URL_FILE", secret(b"redis://user:hunter22@h:6379/0" + end))

    settings = read_settings()

    assert settings.store_url.get_secret_value() == "redis://user:hunter22@h:6379/0"
    assert "hunter22" not in repr(settings)
    again = Settings(**json.loads(settings.to_json()))
    assert again.store_url.get_secret_value() == "redis://user:hunter22@h:6379/0"
    assert again.store_url_file is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://bandit@h:6379/0", "redis://bandit:a%2Fb%40c%3A%23%25@h:6379/0"),
        ("redis://h", "redis://:a%2Fb%40c%3A%23%25@h"),
        (
            "rediss+sentinel://u@a:1,b:2/mymaster/0?x=y",
            "rediss+sentinel://u:a%2Fb%40c%3A%23%25@a:1,b:2/mymaster/0?x=y",
        ),
        ("unix:///run/redis", "unix://:a%2Fb%40c%3A%23%25@/run/redis"),
    ],
)
def test_the_stores_password_may_stand_in_a_file(secret, url, expected):
    flags = ["--store-url", url, "--store-password-file", secret(b"a/b@c:#%\n")]

    assert read_settings(flags).store_url.get_secret_value() == expected


def test_url_and_password_may_stand_in_two_files(monkeypatch, secret, tmp_path):
    (tmp_path / "url").write_text("redis://u@h")
    monkeypatch.setenv("BANDIT_STORE_URL_FILE", str(tmp_path / "url"))
    monkeypatch.setenv("BANDIT_STORE_PASSWORD_FILE", secret(b"hunter22"))

    assert read_settings().store_url.get_secret_value() == "redis://u:hunter22@h"


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (b"redis://hunter22@h", ["--store-url", "redis://h", "--store-url-file", "{}"], "give one of them"),
        (b"hunter22", ["--store-url-file", "{}"], "--store-url-file (BANDIT_STORE_URL_FILE): must be embedded:"),
        (b"", ["--store-url-file", "{}"], "is empty"),
        (b"\n", ["--store-password-file", "{}", "--store-url", "redis://h"], "is empty"),
        (b"hunter22\xff", ["--store-url-file", "{}"], "not UTF-8"),
        (b"hunter22", ["--store-url-file", "{}/missing"], "can't be read: "),
        (b"hunter22", ["--store-password-file", "{}"], "(BANDIT_STORE_PASSWORD_FILE): this store has no password"),
        (b"hunter22", ["--store-password-file", "{}", "--store-url", "memory://"], "this store has no password"),
        (b"hunter22", ["--store-password-file", "{}", "--store-url", "redis://u:p@h"], "has a password already"),
    ],
)
def test_a_file_that_does_not_fit_is_named_and_not_shown(secret, content, flags, message):
    file = secret(content)
    with pytest.raises(SettingsError) as refused:
        read_settings([flag.replace("{}", file) for flag in flags])

    assert message in str(refused.value)
    assert "hunter22" not in str(refused.value)


def test_every_secret_has_a_setting_for_its_file():
    secrets = {
        name
        for name, field in Settings.model_fields.items()
        if "Secret" in str(field.annotation) or name == "store_url"
    }

    assert {f"{name}_file" for name in secrets} <= Settings.model_fields.keys()
