"""What an operator can set: flags take precedence over variables (``BANDIT_*``), and these over defaults."""

from __future__ import annotations

from .errors import SettingsError
from .fields import Settings
from .reading import read_settings, unknown_variables
from .values import Count, SecretText, StoreUrl, hide_password

__all__ = [
    "Count",
    "SecretText",
    "Settings",
    "SettingsError",
    "StoreUrl",
    "hide_password",
    "read_settings",
    "unknown_variables",
]
