"""What a request's line and headers must be, beyond what the parser asks of them.

These checks are made by the connection, before the body is parsed, and not by middleware. The version, the
Transfer-Encoding and the lengths decide where a request ends: where a proxy in front of this server may understand
them otherwise, nothing behind them may be taken for a request. The address as it was sent, with its host and
fragment, is not handed on to applications. And a wrong Host gets the same end as all of these: an answer, then
nothing more is read as a request.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

from ...errors import BadRequestError, HeadTooLargeError

MAX_URL_BYTES = 16_384
"""Room for the longest cursor of a list of sessions, with the path and the limit."""
MAX_PORT = 65_535
_READ = frozenset({b"host", b"transfer-encoding"})
"""Headers that are checked."""
_HOST = re.compile(
    rb"(?:(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
    rb"|\[(?:(?P<ipv6>[0-9A-Fa-f:.]+)|[vV][0-9A-Fa-f]+\.[\w.~!$&'()*+,;=:-]+)\])"
    rb"(?::0*(?P<port>\d{0,5}))?",
    re.ASCII,
)


def check_head(version: str, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse what a proxy in front of this server could understand otherwise.

    Parameters
    ----------
    version : as ``1.1``
    url : the address as it was sent
    headers : names in small letters, and values without space around them

    Raises
    ------
    HeadTooLargeError, BadRequestError
    """
    if len(url) > MAX_URL_BYTES:
        raise HeadTooLargeError(f"A request's address may have {MAX_URL_BYTES} bytes")
    if version not in {"1.0", "1.1"}:
        raise BadRequestError("The request is not HTTP/1.1")
    if b"#" in url:
        raise BadRequestError("A request has no fragment")
    # Most requests of a client have the same headers.
    _check_headers(version, tuple([header for header in headers if header[0] in _READ]))
    if not url.startswith(b"/") and not is_host(_named_in(url)):
        raise BadRequestError("The address has no valid host and port")


@lru_cache(maxsize=64)
def _check_headers(version: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise BadRequestError("A request has one Host")
    if not all(map(is_host, hosts)):
        raise BadRequestError("The Host is no host and port")
    # Two lengths, a length that is no number and a length beside chunks are refused by the parser.
    codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (codings != [b"chunked"] or version == "1.0"):
        raise BadRequestError("The only Transfer-Encoding is chunked")


def _named_in(url: bytes) -> bytes:
    """Return the host and port in a request's address that is no path."""
    return re.split(rb"[/?]", url.partition(b"://")[2], maxsplit=1)[0]


@lru_cache(maxsize=64)
def is_host(value: bytes) -> bool:
    """Return whether a value is a host, or a host and a port; both may be empty.

    RFC 9112, section 3.2, and RFC 3986 define them.
    """
    found = _HOST.fullmatch(value)
    if found is None or int(found["port"] or 0) > MAX_PORT:
        return False
    return found["ipv6"] is None or _is_ipv6(found["ipv6"])


def _is_ipv6(text: bytes) -> bool:
    try:
        ipaddress.IPv6Address(text.decode("ascii"))
    except ValueError:
        return False
    return True
