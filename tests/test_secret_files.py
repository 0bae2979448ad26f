"""Settings that hold secrets may stand in files."""

import json

import pytest

from service.api_keys import read_keys
from service.command_line import read_settings
from service.settings import Settings, SettingsError

pytestmark = pytest.mark.usefixtures("no_settings_from_outside")


@pytest.fixture
def secret(tmp_path):
    """A file with a text in it."""

    def write(text):
        file = tmp_path / "secret"
        file.write_bytes(text)
        return str(file)

    return write


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_keys_and_passwords_of_any_editor_are_read(secret, tmp_path, encoding):
    keys = tmp_path / "keys"
    keys.write_bytes('[{"name": "a", "role": "admin", "key": "0123456789abcdef"}]\r\n'.encode(encoding))
    flags = ["--store-url", "redis://h", "--store-password-file", secret("hunté\r\n".encode(encoding))]
    settings = read_settings([*flags, "--api-keys-file", str(keys)])

    assert settings.store_url.get_secret_value() == "redis://:hunt%C3%A9@h"
    assert [key.name for key in read_keys(settings)] == ["a"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n", " \t\r\n"])
def test_the_store_url_may_stand_in_a_file(monkeypatch, secret, end, encoding):
    monkeypatch.setenv("BANDIT_STORE_URL_FILE", secret(f"redis://user:hunter22@h:6379/0{end}".encode(encoding)))

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
    secrets = {name for name, field in Settings.model_fields.items() if "Secret" in str(field.annotation)}
    secrets |= {"store_url"}

    assert {f"{name}_file" for name in secrets} <= Settings.model_fields.keys()
