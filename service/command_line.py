"""The settings that flags, the environment and files of secrets give, and errors that show no values."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import pydantic_settings
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, CliSettingsSource, SettingsConfigDict

from . import __version__
from .settings import Settings, SettingsError, StoreUrl, has_scheme, named, read_secret, with_password

_FLAG = re.compile(r"--[a-z][a-z-]*")
_OF_A_SERVICE = re.compile(
    r"\w+_(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT=\w+://|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=).*",
    re.DOTALL,
)
"""Variables with their values that Kubernetes makes of a Service."""
_PROGRAM = "python -m service" if __package__ == "service" else "delayed-bandits serve"
"""How it was started: from a checkout, or as the wheel installs it."""
_DESCRIPTION = (
    "Serve bandit online learning over HTTP: applications ask which choice to show, and report losses when they "
    "become known. Each flag can also be set as an environment variable, such as BANDIT_STORE_URL for --store-url; "
    "flags win. `--help` without `serve` lists the other commands."
)
_VALUES = {
    "StoreUrl": "URL",
    "Path": "PATH",
    "SecretText": "JSON",
    "str": "TEXT",
    "int": "INTEGER",
    "float": "NUMBER",
    "bool": "{true,false}",
}
"""What the help calls the value of a flag, by the type of its field."""


class _SettingsParser(argparse.ArgumentParser):
    """Parses the flags; its errors name flags and never show values, which may be secrets."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(prog=_PROGRAM, description=_DESCRIPTION, allow_abbrev=False)
        self.add_argument("--version", action="version", version=f"delayed-bandits {__version__}")
        self._given = [word.partition("=")[0] for word in arguments]

    def error(self, message: str) -> NoReturn:
        """Refuse the flags; ``message`` has their values."""
        raise SettingsError(f"{self._reason(message)}: see --help") from None

    def _reason(self, message: str) -> str:
        fields = {f"--{name.replace('_', '-')}": field for name, field in Settings.model_fields.items()}
        if (bare := re.match(r"argument (--[a-z-]+): expected one argument", message)) and bare[1] in fields:
            return f"{bare[1]} needs {'true or false' if fields[bare[1]].annotation is bool else 'a value'}"
        known = {*fields, "--help", "--version"}
        unknown = [word for word in self._given if _FLAG.fullmatch(word) and word not in known]
        return f"there is no flag {', '.join(unknown)}" if unknown else "unexpected argument"


def add_flag(parser: argparse.ArgumentParser, *names: str, **options: Any) -> argparse.Action:
    """Add a flag as pydantic-settings does, but with a help that names no Python types or values."""
    text = options["help"].removesuffix(" (default: null)").replace("(default: False)", "(default: false)")
    options |= {"help": text, "metavar": _VALUES.get(options["metavar"], options["metavar"])}
    return parser.add_argument(*names, **options)


class _GivenSettings(BaseSettings, Settings):
    """Settings that are looked for in flags and in the environment."""

    model_config = SettingsConfigDict(env_prefix="BANDIT_", cli_kebab_case=True)

    @classmethod
    def settings_customise_sources(  # type: ignore[override]
        cls, *_: Any, env_settings: Any, **others: Any
    ) -> tuple[Any, ...]:
        """Leave out the port of a pod that has a Service named ``bandit``: it is an address."""

        def environment() -> dict[str, Any]:
            return {name: value for name, value in env_settings().items() if name != "port" or "://" not in value}

        return others["init_settings"], environment


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return variables that look like settings but are not, such as misspelt ones; those of Services are none."""
    known = {f"BANDIT_{name.upper()}" for name in Settings.model_fields}
    found = [name for name in environment if name.upper().startswith("BANDIT_") and name.upper() not in known]
    links = ["BANDIT_PORT with ://"] if "://" in environment.get("BANDIT_PORT", "") else []
    found = [name for name in found if not _OF_A_SERVICE.fullmatch(f"{name.upper()}={environment[name]}")]
    return links + sorted(found)


def read_settings(arguments: Sequence[str] = ()) -> Settings:
    """Read settings from flags (``--store-url memory://``), the environment and defaults.

    Raises
    ------
    SettingsError
        for bad values, one line each.
    """
    try:
        parser = _SettingsParser(arguments)
        flags: CliSettingsSource[_GivenSettings] = CliSettingsSource(
            _GivenSettings, cli_hide_none_type=True, root_parser=parser, add_argument_method=add_flag
        )
        given = _GivenSettings(_cli_settings_source=flags(args=list(arguments)))
    except pydantic_settings.SettingsError:
        # Its text has values of flags.
        raise SettingsError("the value of a flag can't be read: see --help") from None
    except ValidationError as error:
        raise SettingsError("\n".join(map(_line, error.errors(include_input=False)))) from None
    values = {name: getattr(given, name) for name in Settings.model_fields}
    return _with_secrets(Settings.model_construct(given.model_fields_set, **values))


def _with_secrets(settings: Settings) -> Settings:
    """Return the settings with the store URL complete, as its files have it; workers don't read them again."""
    url, given = settings.store_url.get_secret_value(), settings.model_fields_set
    if (file := settings.store_url_file) is not None:
        if "store_url" in given:
            raise SettingsError(f"{named('store_url')}, {named('store_url_file')}: give one of them")
        with _naming("store_url_file"):
            has_scheme(StoreUrl(url := read_secret(file).strip()))
    if (file := settings.store_password_file) is not None:
        with _naming("store_password_file"):
            url = with_password(url, read_secret(file))
    read = {"store_url": StoreUrl(url), "store_url_file": None, "store_password_file": None}
    return settings.model_copy(update=read)


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    """Say of which setting a value is wrong."""
    try:
        yield
    except ValueError as error:
        raise SettingsError(f"{named(setting)}: {error}") from None


def _line(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    return f"{named(str(error['loc'][0]))}: {message}" if error["loc"] else message
