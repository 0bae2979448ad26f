"""Types of settings, and what their values must be."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

from pydantic import Field, Secret


class StoreUrl(Secret[str]):
    """A store's URL that prints without user, password and options; ``get_secret_value()`` returns it in full."""

    def _display(self) -> str:
        return hide_password(self.get_secret_value())

    @property
    def scheme(self) -> str:
        """What stands before the colon, such as ``embedded``."""
        return self.get_secret_value().partition(":")[0]


class SecretText(Secret[str]):
    """A text that never prints."""

    def _display(self) -> str:
        return "***"


def hide_password(url: str) -> str:
    """Return a store URL as logs may show it.

    Of one with a stray ``@``, which may hide a password, that is the scheme alone.
    """
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return f"{url.partition(':')[0]}:{'***' if url.partition(':')[2] else ''}"
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    behind = rest.removeprefix(authority)
    if "@" in behind:
        return f"{scheme}://***"
    path = re.split(r"[?#]", behind, maxsplit=1)[0]
    secret, _, hosts = authority.rpartition("@")
    return f"{scheme}://{'***@' if secret else ''}{hosts}{path}"


def has_scheme(url: StoreUrl) -> StoreUrl:
    """Check that a URL says which kind of store it is of."""
    if url.get_secret_value() != "embedded:" and "://" not in url.get_secret_value():
        raise ValueError("must be embedded:, memory:// or the URL of a Redis")
    return url


def hosts(text: str) -> str:
    """Check hosts without ports, separated by commas."""
    return _checked_list(text, r"[\w.-]+|[0-9a-f:.]*:[0-9a-f:.]*|\[[0-9a-f:.]+\]", "hosts without ports")


def origins(text: str) -> str:
    """Check origins of pages, separated by commas."""
    return _checked_list(text, r"https?://[^/?#@,\s]+", "origins, such as https://shop.example")


def networks(text: str) -> str:
    """Check IP addresses and networks, separated by commas."""
    for each in filter(None, map(str.strip, text.split(","))):
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise ValueError("must be IP addresses and networks, separated by commas") from None
    return text


def _checked_list(text: str, pattern: str, what: str) -> str:
    known = re.compile(pattern, re.ASCII | re.IGNORECASE)
    if all(known.fullmatch(each.strip()) for each in text.split(",") if each.strip() not in {"", "*"}):
        return text
    raise ValueError(f"must be {what}, separated by commas")


Count = Annotated[int, Field(ge=1, le=2**53 - 1)]
Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
