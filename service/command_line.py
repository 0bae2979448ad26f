"""The settings that flags, the environment and files of secrets give, and errors that show no values."""

import argparse
import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails

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
_VALUES = {"store_url": "URL", "api_keys": "JSON", "boolean": "{true,false}"}
"""What the help calls the value of a flag, by its setting or its type; of others it is the type or the format."""


def _value(name: str, schema: Mapping[str, Any]) -> str:
    schema = schema.get("anyOf", [schema])[0]  # Null comes last.
    if "enum" in schema:
        return f"{{{','.join(schema['enum'])}}}"
    kind = schema.get("format", schema["type"])
    return _VALUES.get(name) or _VALUES.get(kind) or kind.upper()


def descriptions() -> dict[str, str]:
    """Return what the texts below the settings say; pydantic would read them wherever the class is imported."""
    found = re.findall(r'^    (\w+): .*?^    """(.*?)"""$', inspect.getsource(Settings), re.MULTILINE | re.DOTALL)
    return {name: inspect.cleandoc(text) for name, text in found}


class _SettingsParser(argparse.ArgumentParser):
    """Parses the flags; its errors name flags and never show values, which may be secrets."""

    def __init__(self, arguments: Sequence[str]) -> None:
        unset = argparse.SUPPRESS
        super().__init__(prog=_PROGRAM, description=_DESCRIPTION, allow_abbrev=False, argument_default=unset)
        self.add_argument("--version", action="version", version=f"delayed-bandits {__version__}")
        self._flags = {name: self.add_argument(f"--{name.replace('_', '-')}") for name in Settings.model_fields}
        self._given = [word.partition("=")[0] for word in arguments]

    def format_help(self) -> str:
        """Describe the flags, which takes longer than all else and is seldom asked for."""
        schemas = Settings.model_json_schema()["properties"]
        for name, text in descriptions().items():
            default = Settings.model_fields[name].default
            default = str(default).lower() if isinstance(default, bool) else default
            text += "" if default is None else f" (default: {default})"
            self._flags[name].help, self._flags[name].metavar = text.replace("%", "%%"), _value(name, schemas[name])
        return super().format_help()

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
    variables = {name.upper(): value for name, value in os.environ.items()}
    known = {name: f"BANDIT_{name.upper()}" for name in Settings.model_fields}
    given = {name: text for name, variable in known.items() if (text := variables.get(variable)) is not None}
    # Empty texts are of what nobody has set; but where data or keys are said to be, they may have been lost.
    given = {name: text for name, text in given.items() if text or name.endswith(("_url", "_file"))}
    if "://" in given.get("port", ""):
        del given["port"]  # The pod has a Service named ``bandit``: it is an address.
    try:
        given |= vars(_SettingsParser(arguments).parse_args(arguments))
        return _with_secrets(Settings.model_validate(given))
    except ValidationError as error:
        raise SettingsError("\n".join(map(_line, error.errors(include_input=False)))) from None


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
