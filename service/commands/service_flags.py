"""The flags that say which service a command calls."""

from __future__ import annotations

import argparse
import os

from ..client import Bandits

URL_VARIABLE, KEY_VARIABLE = "DELAYED_BANDITS_URL", "DELAYED_BANDITS_API_KEY"
DEFAULT_URL = "http://127.0.0.1:8000"
CALL_SECONDS = 30.0
"""A command waits longer than a page does."""


def add_service_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--url``; the API key comes from the environment alone, because flags show in the list of processes."""
    parser.add_argument(
        "--url",
        default=os.environ.get(URL_VARIABLE) or DEFAULT_URL,
        help=f"address of the service ({URL_VARIABLE}, else {DEFAULT_URL}); its API key comes from {KEY_VARIABLE}",
    )


def client_of(options: argparse.Namespace) -> Bandits:
    """Return a client of the service that the flags name.

    Raises
    ------
    ValueError
        for a wrong address or key.
    """
    return Bandits(options.url, timeout=CALL_SECONDS, max_retries=2)
