"""The settings themselves: misspelt ones, those that don't fit each other or this machine, and files of keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from ... import api_keys
from ...command_line import unknown_variables
from ...server.listeners import is_loopback
from ...settings import Settings, SettingsError
from .finding import Finding, error, ok, warning

SCHEMA_OF_0_1 = 1


def check(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Judge settings that were read without an error.

    Parameters
    ----------
    settings : as ``read_settings`` returns them
    environment : its variables named ``BANDIT_...`` are examined, and the secret files that they name
    """
    found = [*_unknown(environment), *_keys(settings), *_fit(settings)]
    yield from found or [ok("settings", "they fit each other and this machine")]
    for name in ("api_keys_file", "store_url_file", "store_password_file"):
        path = environment.get(f"BANDIT_{name.upper()}")
        if path and (problem := _open_to_others(Path(path))):
            yield problem


def _unknown(environment: Mapping[str, str]) -> Iterator[Finding]:
    for name in unknown_variables(environment):
        yield warning("settings", f"{name} is no setting of this service", "correct its name: docs/settings.md")


def _keys(settings: Settings) -> Iterator[Finding]:
    try:
        keys = api_keys.read_keys(settings)
    except SettingsError as refused:
        yield error("API keys", str(refused), "mend the file: docs/security.md")
        return
    if not keys and not is_loopback(settings.host):
        text = f"none, and {settings.host} is no loopback address: everybody who reaches it may do everything"
        yield warning("API keys", text, "set BANDIT_API_KEYS_FILE, or keep others out")
    if keys and not any(key.role == "admin" for key in keys):
        yield warning("API keys", "none has the role admin: nobody can create sessions", "add one")


def _fit(settings: Settings) -> Iterator[Finding]:
    cores = os.cpu_count() or 1
    if settings.workers > cores:
        text = f"BANDIT_WORKERS is {settings.workers} on {cores} cores"
        yield warning("settings", text, "more processes than cores make answers slower")
    if settings.write_schema == SCHEMA_OF_0_1:
        text = "BANDIT_WRITE_SCHEMA is 1: what 0.1 can't read is refused"
        yield warning("settings", text, "leave it out once no replica of 0.1 is left")
    if settings.drain_seconds and settings.drain_seconds >= settings.grace_seconds * 10:
        text = f"BANDIT_DRAIN_SECONDS is {settings.drain_seconds:g}: a stop takes at least that long"
        yield warning("settings", text, "see that whoever stops the service waits longer")


def _open_to_others(path: Path) -> Finding | None:
    try:
        mode = path.stat().st_mode
    except OSError as missing:
        return error("secret files", f"{path}: {missing.strerror}", "correct the path, or the file's owner")
    if mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        text = f"{path} can be read or changed by other users ({stat.filemode(mode)})"
        return warning("secret files", text, f"chmod 600 {path}")
    return ok("secret files", f"{path} is this user's alone")
