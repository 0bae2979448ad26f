"""What is wrong with settings, in words that never show a value."""

from __future__ import annotations


class SettingsError(Exception):
    """A setting has a bad value; the text names the setting and never shows the value."""


def named(setting: str) -> str:
    """Return a setting by its flag and its variable, as errors name it."""
    return f"--{setting.replace('_', '-')} (BANDIT_{setting.upper()})"
