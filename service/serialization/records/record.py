"""One record: its numbers, and a CRC-32 of its key, a colon and them."""

from __future__ import annotations

from ..binary import CHECKSUM_BYTES, CodecError, checksum


def record_of(key: bytes, body: bytes) -> bytes:
    """Return a record with its checksum.

    Parameters
    ----------
    key : of the record, in the store
    body : its numbers
    """
    return body + checksum(key + b":" + body)


def body_of(key: bytes, data: bytes) -> bytes:
    """Invert ``record_of``.

    Parameters
    ----------
    key : of the record, in the store
    data : as it is stored

    Raises
    ------
    CodecError
        where the checksum is that of another record.
    """
    body = data[:-CHECKSUM_BYTES]
    if checksum(key + b":" + body) != data[-CHECKSUM_BYTES:]:
        raise CodecError("not a record of a session")
    return body
