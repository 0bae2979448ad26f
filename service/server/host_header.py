"""Checks hosts and ports in a request's head by RFC 9112, section 3.2, and RFC 3986, section 3.2."""

from __future__ import annotations

import ipaddress
import re

MAX_PORT = 65_535
_HOST = re.compile(
    rb"(?:(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
    rb"|\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|[vV][0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+)\])"
    rb"(?::0*(?P<port>\d{0,5}))?",
    re.ASCII,
)


def named_in(url: bytes) -> bytes:
    """Return the host and port in a request's address; empty for an address that is a path."""
    return b"" if url.startswith(b"/") else re.split(rb"[/?]", url.partition(b"://")[2], maxsplit=1)[0]


def is_host(value: bytes) -> bool:
    """Whether a value is a host, or a host and a port; both may be empty."""
    found = _HOST.fullmatch(value)
    return found is not None and int(found["port"] or 0) <= MAX_PORT and _is_ipv6(found["ipv6"])


def _is_ipv6(text: bytes | None) -> bool:
    if text is None:
        return True
    try:
        ipaddress.IPv6Address(text.decode("ascii"))
    except ValueError:
        return False
    return True
