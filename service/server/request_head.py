"""What a request's line and headers must be, beyond what the parser asks of them.

These checks are made by the connection, before the body is parsed, and not by middleware. The version, the
Transfer-Encoding and the lengths decide where a request ends: where a proxy in front of this server may understand
them otherwise, nothing behind them may be taken for a request. The address as it was sent, with its host and
fragment, is not handed on to applications. And a wrong Host gets the same end as all of these: an answer, then
nothing more is read as a request.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadRequestError, HeadTooLargeError
from .host_header import is_host, named_in

MAX_URL_BYTES = 16_384
"""Room for the longest cursor of a list of sessions, with the path and the limit."""


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
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):
        raise BadRequestError("A request has one Host")
    if not all(is_host(value) for name, value in headers if name == b"host"):
        raise BadRequestError("The Host is no host and port")
    if not is_host(named_in(url)):
        raise BadRequestError("The address has no valid host and port")
    # Two lengths, a length that is no number and a length beside chunks are refused by the parser.
    if b"transfer-encoding" in names:
        codings = [value.lower() for name, value in headers if name == b"transfer-encoding"]
        if codings != [b"chunked"] or version == "1.0":
            raise BadRequestError("The only Transfer-Encoding is chunked")
