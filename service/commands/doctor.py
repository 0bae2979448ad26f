"""``doctor``: what of the settings, the store and a running service should be changed, one line each."""

import argparse
import itertools
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from .. import __version__, api_keys
from ..client.attempts import KEY_VARIABLE, URL_VARIABLE
from ..command_line import read_settings, unknown_variables
from ..server.pool import is_loopback
from ..settings import Settings, SettingsError
from .doctor_store import Finding, Level, check_store, error, ok, warning
from .run import Command, CommandError, Screen, http_client

# -- The settings themselves: misspelt ones, those that don't fit each other or this machine, and files of keys.


def check_settings(settings: Settings, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Judge settings that were read without an error, variables ``BANDIT_...``, and the files that they name."""
    advice, unknown = "correct its name: docs/settings.md", unknown_variables(environment)
    found = [warning("settings", f"{name} is no setting of this service", advice) for name in unknown]
    found += [*_keys(settings), *_fit(settings)]
    yield from found or [ok("settings", "they fit each other and this machine")]
    for name in ("api_keys_file", "store_url_file", "store_password_file"):
        if (path := environment.get(f"BANDIT_{name.upper()}")) and (problem := _open_to_others(Path(path))):
            yield problem


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
    if settings.workers > (cores := os.cpu_count() or 1):
        text = f"BANDIT_WORKERS is {settings.workers} on {cores} cores"
        yield warning("settings", text, "more processes than cores make answers slower")
    if settings.drain_seconds and settings.drain_seconds >= settings.grace_seconds * 10:
        text = f"BANDIT_DRAIN_SECONDS is {settings.drain_seconds:g}: a stop takes at least that long"
        yield warning("settings", text, "see that whoever stops the service waits longer")


def _open_to_others(path: Path) -> Finding | None:
    try:
        mode = path.stat().st_mode
    except PermissionError as refused:
        return warning("secret files", f"can't check {path}: {refused.strerror}", "run this as the service's user")
    except OSError as missing:
        return error("secret files", f"{path}: {missing.strerror}", "correct the path, or the file's owner")
    if mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        text = f"{path} can be read or changed by other users ({stat.filemode(mode)})"
        return warning("secret files", text, f"chmod 600 {path}")
    return ok("secret files", f"{path} is this user's alone")


# -- A running service, asked over HTTP.

SECONDS = 5.0
CLOCK_SECONDS = 2.0
"""``Date`` has whole seconds."""
_BUILD = re.compile(r'^bandit_build_info\{.*version="([^"]*)"', re.MULTILINE)


def check_service(url: str) -> Iterator[Finding]:
    """Ask the service at an address whether it lives, can commit, and is of this version; its clock and keys."""
    if not re.match("https?://", url):
        yield error("service", f"{url} has no http:// or https://", f"say --url http://{url}")
        return
    try:
        with http_client(url, SECONDS) as http:
            if not (live := http.get("/livez")).is_success:
                text = f"{url}/livez answers {live.status_code}"
                yield error("service", text, "see that the address is that of this service, and not of another")
                return
            yield from (ok("service", f"{url} answers"), _clock(live), _ready(http.get("/readyz")))
            yield from (_key(http), _version(http.get("/metrics")))
    except (httpx.HTTPError, httpx.InvalidURL) as away:
        text = f"{url} does not answer ({type(away).__name__})"
        yield error("service", text, "start it with `delayed-bandits serve`, or correct --url")


def _ready(answer: httpx.Response) -> Finding:
    if answer.is_success:
        return ok("readiness", "the service can commit")
    reason = answer.json().get("detail", "") if "json" in answer.headers.get("Content-Type", "") else ""
    text = f"{answer.status_code}: {reason or 'no reason given'}"
    return error("readiness", text, "mend the store of this service; its log says more")


def _clock(answer: httpx.Response) -> Finding:
    if (told := answer.headers.get("Date")) is None:
        return ok("service's clock", "not told")
    ahead = parsedate_to_datetime(told).timestamp() - time.time()
    if abs(ahead) > CLOCK_SECONDS:
        text = f"it differs from this machine's by {ahead:+.0f} s"
        return warning("service's clock", text, "run a time service (NTP) on both machines")
    return ok("service's clock", "it agrees with this machine's")


def _key(http: httpx.Client) -> Finding:
    answer = http.get("/v1/sessions", params={"limit": 1})
    if answer.is_success:
        return ok("API key", "accepted" if KEY_VARIABLE in os.environ else "none needed")
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        return warning("API key", "missing or wrong", f"set {KEY_VARIABLE}")
    if answer.status_code == httpx.codes.FORBIDDEN:
        return ok("API key", "accepted; it may not list sessions, so no more can be checked")
    return warning("API key", f"a list of sessions answers {answer.status_code}", "see docs/errors.md")


def _version(answer: httpx.Response) -> Finding:
    found = _BUILD.search(answer.text) if answer.is_success else None
    if found is None:
        return ok("version", f"this program is {__version__}; the service does not tell its own with this key")
    if found[1] != __version__:
        text = f"the service is {found[1]}, this program {__version__}"
        return warning("version", text, "install the same here and there")
    return ok("version", f"{__version__}, as this program")


# -- The command line.

SIGNS = {Level.OK: ("ok", "green"), Level.WARNING: ("warning", "yellow"), Level.ERROR: ("ERROR", "red")}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags; those of the settings are read as ``serve`` reads them."""
    text = f"a running service to check, too ({URL_VARIABLE})"
    parser.add_argument("--url", default=os.environ.get(URL_VARIABLE), help=text)
    parser.set_defaults(settings=[])


def _run(options: argparse.Namespace, screen: Screen) -> int:
    """Print a line for each finding; the exit code is the level of the worst."""
    try:
        settings = read_settings(options.settings)
    except SettingsError as refused:
        raise CommandError(str(refused), code=int(Level.ERROR)) from None
    findings = [check_settings(settings, os.environ)]
    # A service elsewhere does not use the store of the defaults.
    if not options.url or settings.store_url.scheme != "embedded" or "data_dir" in settings.model_fields_set:
        findings.append(check_store(settings))
    if options.url:
        findings.append(check_service(options.url))
    worst = Level.OK
    lines = []
    for each in itertools.chain.from_iterable(findings):
        worst = max(worst, each.level)
        lines.append({**each._asdict(), "level": each.level.name.lower()})
        if not screen.as_json:
            sign, style = SIGNS[each.level]
            advice = f"; {each.do}" if each.do else ""
            screen.console.print(f"{sign:<8}", style=style, end="")
            screen.console.print(f"{each.subject}: {each.found}{advice}", soft_wrap=True)
    if screen.as_json:
        screen.json({"findings": lines, "exit_code": int(worst)})
    return int(worst)


DOCTOR = Command(
    "Check the settings (BANDIT_* and the flags of serve), the store that they name, and with --url a running "
    "service. With --url the store is checked only where a setting names it. "
    "Nothing is changed or started. Exit code 0: all is well, 1: something should be changed, 2: acknowledged data "
    "will be lost, or the service can't work.",
    _add_arguments,
    _run,
)
