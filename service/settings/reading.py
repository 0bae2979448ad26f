"""Reading the settings from flags, the environment and files of secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pydantic_settings
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, CliSettingsSource, SettingsConfigDict

from ..secret_files import read_secret, with_password
from .errors import SettingsError, named
from .fields import Settings
from .flags import FlagParser, add_flag
from .values import StoreUrl, has_scheme


class _GivenSettings(BaseSettings, Settings):
    """Settings that are looked for in flags and in the environment."""

    model_config = SettingsConfigDict(env_prefix="BANDIT_", cli_kebab_case=True)

    @property
    def settings(self) -> Settings:
        """The same, of the class that workers have."""
        values = {name: getattr(self, name) for name in Settings.model_fields}
        return Settings.model_construct(self.model_fields_set, **values)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return variables that look like settings but are not, such as misspelt ones."""
    known = {f"BANDIT_{name.upper()}" for name in Settings.model_fields}
    return sorted(name for name in environment if name.upper().startswith("BANDIT_") and name.upper() not in known)


def read_settings(arguments: Sequence[str] = ()) -> Settings:
    """Read settings from flags (``--store-url memory://``), the environment and defaults.

    Raises
    ------
    SettingsError
        for bad values, one line each.
    """
    try:
        flags: CliSettingsSource[_GivenSettings] = CliSettingsSource(
            _GivenSettings, cli_hide_none_type=True, root_parser=FlagParser(arguments), add_argument_method=add_flag
        )
        given = _GivenSettings(_cli_settings_source=flags(args=list(arguments)))
    except pydantic_settings.SettingsError:
        # Its text has values of flags.
        raise SettingsError("the value of a flag can't be read: see --help") from None
    except ValidationError as error:
        raise SettingsError("\n".join(map(_line, error.errors(include_input=False)))) from None
    return _with_secrets(given.settings)


def _with_secrets(settings: Settings) -> Settings:
    """Return the settings with the store URL complete, as its files have it; workers don't read them again."""
    url, given = settings.store_url.get_secret_value(), settings.model_fields_set
    if (file := settings.store_url_file) is not None:
        if "store_url" in given:
            raise SettingsError(f"{named('store_url')}, {named('store_url_file')}: give one of them")
        url = _read(file, "store_url_file")
        try:
            has_scheme(StoreUrl(url))
        except ValueError as error:
            raise SettingsError(f"{named('store_url_file')}: {error}") from None
    if (file := settings.store_password_file) is not None:
        try:
            url = with_password(url, _read(file, "store_password_file"))
        except ValueError as error:
            raise SettingsError(f"{named('store_password_file')}: {error}") from None
    return settings.model_copy(
        update={"store_url": StoreUrl(url), "store_url_file": None, "store_password_file": None}
    )


def _read(file: Path, setting: str) -> str:
    try:
        return read_secret(file)
    except ValueError as error:
        raise SettingsError(f"{named(setting)}: {error}") from None


def _line(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return message
    return f"{named(str(error['loc'][0]))}: {message}"
