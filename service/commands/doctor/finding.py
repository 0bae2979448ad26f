"""What ``doctor`` finds."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """How bad it is; the worst is the exit code."""

    OK = 0
    WARNING = 1
    ERROR = 2
    """Acknowledged data will be lost, or nothing works."""


class Finding(NamedTuple):
    """One line.

    Attributes
    ----------
    subject : what was examined, in a word or two
    found : what is so
    do : what to do about it; empty for what is well
    """

    level: Level
    subject: str
    found: str
    do: str = ""


def ok(subject: str, found: str) -> Finding:
    """Return what is well.

    Parameters
    ----------
    subject : what was examined, in a word or two
    found : what is so
    """
    return Finding(Level.OK, subject, found)


def warning(subject: str, found: str, do: str) -> Finding:
    """Return what should be changed.

    Parameters
    ----------
    subject : what was examined, in a word or two
    found : what is so
    do : what to do about it
    """
    return Finding(Level.WARNING, subject, found, do)


def error(subject: str, found: str, do: str) -> Finding:
    """Return what loses data or keeps the service from working.

    Parameters
    ----------
    subject : what was examined, in a word or two
    found : what is so
    do : what to do about it
    """
    return Finding(Level.ERROR, subject, found, do)
