"""Exported sessions with a number or some bits changed, and all checksums repaired."""

import hashlib
import json
import random
import re
import struct
import zlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from service.sessions.transfer import _pack, _parts, _unpack

PARTS = ("state", "state", "state", "records", "segments", "counts", "event_ids", "created_at", "specification")
"""Those that are changed, the state most often."""
FLOATS = (1e300, -1e300, 1e12, 1e-300, -1.0, 0.0, 1.5, 5e-324, 1.7e308, float("inf"), float("-inf"), float("nan"))
INTEGERS = (-1, 0, 1, 7, 2**31, 2**53, 2**62, 2**63 - 1, -(2**63))
ODD = [struct.pack("<d", number) for number in FLOATS] + [struct.pack("<q", number) for number in INTEGERS]
KEYS = (b"b" + b"7" * 40, b"b" + b"9" * 400, b"b-1", b"-1", b"9" * 18, b"b0", b"r0", b"", b"b01", b"0", b"x")
"""Of records."""
POSTED = ("0", "-1", "1e300", str(2**53), str(2**64), "9" * 399, "0.5", "true", "1e-300", "2")


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document with the digest of what is in it."""
    fields = {name: value for name, value in document.items() if name != "sha256"}
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return fields | {"sha256": hashlib.sha256(canonical.encode()).hexdigest()}


def joined(parts: list[dict[str, str]]) -> bytes:
    return b"".join(b64decode(part["part"]) for part in parts)


def with_checksum(state: bytes) -> bytes:
    """A state with both checksums, of its head and of the whole."""
    head = state[: max(int.from_bytes(state[1:3], "little") - 2, 0)]
    body = head + (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") + state[len(head) + 2 : -4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def changed(document: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """A document that differs in one place or a few."""
    name = rng.choice([part for part in PARTS if document.get(part)])
    if name == "created_at":
        return sealed({**document, name: rng.choice([0, 1e300, -1, 253_402_300_799, 253_402_300_800, 2**70])})
    if name == "specification":
        text = json.dumps(document[name])
        found = rng.choice(list(re.finditer(r"(?<=[ \[])-?[0-9][0-9.e+-]*", text)))
        text = text[: found.start()] + rng.choice(POSTED) + text[found.end() :]
        return sealed({**document, name: json.loads(text)})
    data = joined(document[name])
    if name == "state":
        data = with_checksum(_bent(data[:-4], rng, 5) + bytes(4))
    elif name in ("records", "segments"):
        items, first = _unpack(data), 8 if name == "segments" else 0
        key = rng.choice(sorted(items))
        value = items.pop(key)
        if rng.random() < 0.2:
            key = rng.choice(KEYS)
        else:
            value = _bent(value[:-4], rng) + bytes(4)
        crc = zlib.crc32(key + b":" + value[first:-4]).to_bytes(4, "little")
        data = _pack({**items, key: value[:-4] + crc})
    else:
        data = _bent(data, rng)
    return sealed({**document, name: _parts(data)})


def _bent(data: bytes, rng: random.Random, first: int = 0) -> bytes:
    """Bytes of which a bit is another, or a number: one whose place is a multiple of eight from either end."""
    bent, size = bytearray(data), len(data)
    for _ in range(rng.choice([1, 1, 1, 2])):
        at = rng.randrange(first, rng.choice([size, min(size, 120)]))
        if rng.random() < 0.4 or size < first + 8:
            bent[at] ^= 1 << rng.randrange(8)
        else:
            at = rng.choice([at, first + (at - first) // 8 * 8, (size - 8) - (size - 8 - at) // 8 * 8])
            bent[at : at + 8] = rng.choice(ODD)
            del bent[size:]
    return bytes(bent)
