"""What an operator can set: flags take precedence over variables (``BANDIT_*``), and these over defaults.

Workers get the settings from their parent process: what reads them (``reading``) is imported by that alone.
"""

from __future__ import annotations

from .errors import SettingsError
from .fields import Settings
from .values import Count, SecretText, StoreUrl, hide_password

__all__ = [
    "Count",
    "SecretText",
    "Settings",
    "SettingsError",
    "StoreUrl",
    "hide_password",
]
