"""Bandit online learning with unknown delays, as an HTTP service, and its Python client."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import AsyncBandits, Bandits

__version__ = "1.0.0"
__all__ = ["AsyncBandits", "Bandits", "__version__"]

COMMAND = "service" if __name__ == "service" else "delayed-bandits"
"""What error messages of the command begin with: in a checkout the package, else the command of the wheel."""


def install(extra: str) -> str:
    """Return the command that installs an extra, from the package index or in a checkout."""
    return f"pip install 'delayed-bandits[{extra}]' (in a checkout: pip install '.[{extra}]')"


def encoding_of(beginning: bytes) -> str:
    """Return how a text is encoded, by its byte-order mark or the zeros of UTF-16 in its first character."""
    if beginning.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in beginning[:2]:
        return "utf-16-be" if beginning[:1] == b"\0" else "utf-16-le"
    return "utf-8-sig"


def decoded(text: bytes) -> str:
    """Return the text of a file without its byte-order mark; UnicodeDecodeError where it is none."""
    return text.decode(encoding_of(text))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the client when it is asked for: the server doesn't need it, nor ``--version`` its httpx."""
        if name not in {"AsyncBandits", "Bandits"}:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import client

        return getattr(client, name)
