"""Which requests a service without API keys serves: none that a page of another site made a browser send.

Any page may send requests to addresses that only its visitor reaches. A browser says where they come from: ``Host``
is the name that it looked up (an attacker's own name may lead to this machine: DNS rebinding), ``Origin`` and
``Sec-Fetch-Site`` tell the page. With API keys nothing of this is checked, as such a page knows no key.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from ..api_keys import needs_keys
from ..errors import CrossSiteError, ForeignHostError
from ..settings import Settings

ANY = "*"
"""As a setting: every host, or every origin."""
_PRIVATE = (".local", ".internal", ".test", ".home.arpa")
"""Ends of names that nobody can register: RFC 6762, RFC 8375, RFC 6761 and ICANN's .internal."""
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\s,\\]+)")


class LocalRequests:
    """Accepts requests to local names, and from pages of local names, and those that the settings add.

    On a loopback address the local names are ``localhost``, those below it, and loopback addresses. On any other
    address they are also IP addresses and names that nobody can register: a browser can't be led from such a name
    to another machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._hosts = frozenset(map(_plain_host, _listed(settings.allowed_hosts)))
        self._origins = frozenset(_listed(settings.allowed_origins))
        self._own = _plain_host(settings.host)
        self._on_loopback = is_local(self._own)
        self._check = lru_cache(maxsize=64)(self._check_read)

    def check(self, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Refuse what another site may have sent.

        Parameters
        ----------
        url : the address as it was sent; of one with a host, that is checked like ``Host``
        headers : names in small letters. One without ``Host`` (HTTP/1.0) comes from no browser

        Raises
        ------
        ForeignHostError, CrossSiteError
        """
        read = tuple([header for header in headers if header[0] in _READ])
        # Most requests of a client have the same headers.
        self._check(None if url.startswith(b"/") or url == b"*" else url, read)

    def _check_read(self, url: bytes | None, read: Sequence[tuple[bytes, bytes]]) -> None:
        given = [(name, value.strip().decode("latin-1").lower()) for name, value in read]
        named = {host_name(value) for name, value in given if name == b"host"}
        if url is not None:
            named.add(_host_in(url))
        if not all(map(self._is_served, named)):
            raise ForeignHostError
        origins = {value for name, value in given if name == b"origin"}
        if not all(self._is_welcome(origin, named) for origin in origins):
            raise CrossSiteError
        listed = ANY in self._origins or (origins and origins <= self._origins)
        if (b"sec-fetch-site", "cross-site") in given and not listed:
            raise CrossSiteError

    def _is_served(self, host: str) -> bool:
        known = is_local(host) or host == self._own or ANY in self._hosts or host in self._hosts
        return known or (not self._on_loopback and _is_private(host))

    def _is_welcome(self, origin: str, named: set[str]) -> bool:
        """Return whether a page may send requests: one of this service, a local name, or an allowed origin."""
        if ANY in self._origins or origin in self._origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        host = "" if found is None else host_name(found["host"])
        return is_local(host) or (host != "" and host in named)


def check_origin(settings: Settings) -> Callable[[bytes, Iterable[tuple[bytes, bytes]]], None]:
    """Return ``LocalRequests.check`` for a service without API keys, and for another one what refuses nothing."""
    return (lambda _url, _headers: None) if needs_keys(settings) else LocalRequests(settings).check


_READ = frozenset({b"host", b"origin", b"sec-fetch-site"})


def _listed(setting: str) -> list[str]:
    return [each.strip().lower() for each in setting.split(",") if each.strip()]


@lru_cache(maxsize=64)
def host_name(text: str) -> str:
    """Return the host of a host and a port: names without their last dot, addresses in one form.

    Parameters
    ----------
    text : as ``Host`` has it: IPv6 in brackets, the port after a colon, or none
    """
    text = text.lower()
    host = text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0].removesuffix(".")
    address = _address(host.strip("[]"))
    return host if address is None else str(address)


def _plain_host(text: str) -> str:
    """Return what ``host_name`` does, of a host without a port: IPv6 may lack its brackets."""
    return host_name(f"[{text}]" if ":" in text and not text.startswith("[") else text)


@lru_cache(maxsize=64)
def is_local(host: str) -> bool:
    """Return whether a host, as ``host_name`` returns it, is this machine whoever looks it up."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_private(host: str) -> bool:
    return host != "" and ("." not in host or _address(host) is not None or host.endswith(_PRIVATE))


def _host_in(url: bytes) -> str:
    """Return the host in a request's address that is neither a path nor ``*``."""
    authority = re.split(rb"[/?#]", url.partition(b"://")[2], maxsplit=1)[0]
    return host_name(authority.decode("latin-1"))
