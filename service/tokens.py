"""Tokens: what an act hands to a page, so that the visitor's browser can report the click itself.

A token is two parts in base64url with a dot between them: what it says, and 128 bits of the HMAC-SHA256 of that
under a key of the service. It is signed, not encrypted. Nothing is stored for it. What it says, in this order:

====================  =====================================================================================
bytes                 are
====================  =====================================================================================
1                     format (4 bits) and group (4 bits)
2                     id of the key: the first bytes of its SHA-256
5                     making of the session: the first bytes of the SHA-256 of the time of its creation
5                     time of the act, in 1/64 seconds since 1970
1, 1                  lengths of session id and segment
1                     lengths of slot (4 bits) and arm (4 bits)
as long as they are   session id, segment, slot, arm
0, or 2 and more      tail: its length, and as many bytes, which later formats may give a meaning
====================  =====================================================================================
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import logging
import re
import secrets
import struct
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from .errors import StoreUnavailableError
from .settings import SettingsError, file_state, read_secret

WATCH_SECONDS = 1.0
"""Time between two looks at the file of the keys, or two offers to the store."""
KEPT = 8
"""Keys of the store that a worker knows at most: it has had another one only if it lost that."""
MIN_KEY = 32
MAX_TOKEN = 1000
"""Characters of a token: none that is made is so long."""
FORMAT = 1
PER_SECOND = 64
"""Units of time in a second: the window of a decision may have a tenth of one."""
_HEAD = struct.Struct(">B2s5s5sBBB")
_TAIL = struct.Struct(">H")
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_TIME_BYTES, _MAC_BYTES = 5, 16
_LATEST = 2 ** (8 * _TIME_BYTES) - 1

log = logging.getLogger(__name__)


class Token(NamedTuple):
    """What a token says; nobody knows who wrote it before ``TokenKeys.is_genuine`` has looked at it."""

    session_id: str
    making: bytes
    slot: int
    arm: int
    """Index."""
    segment: str
    """Empty without one."""
    at: float
    """Unix seconds of the act, at most 1/64 s too early."""
    group: int
    """0 in sessions without groups."""
    tail: bytes
    key_id: bytes
    said: bytes
    """What is signed."""
    mac: bytes


@lru_cache(maxsize=256)  # A click asks several times.
def read(text: str) -> Token | None:
    """Read what a token says, whoever wrote it; None for what is none."""
    said_text, _, mac_text = text.partition(".")
    try:
        said, mac = _decoded(said_text), _decoded(mac_text)
        first, key_id, making, at, *lengths, both = _HEAD.unpack_from(said)
        ends = list(itertools.accumulate([*lengths, both >> 4, both & 15], initial=_HEAD.size))
        parts = [said[one:other] for one, other in itertools.pairwise(ends)]
        session_id, segment, tail = parts[0].decode("ascii"), parts[1].decode(), said[ends[-1] :]
        tail_is_whole = not tail or _TAIL.unpack_from(tail)[0] == len(tail) - _TAIL.size > 0
    except (ValueError, struct.error):
        return None
    if first >> 4 != FORMAT or len(said) < ends[-1] or not tail_is_whole or len(mac) != _MAC_BYTES:
        return None
    slot, arm = map(int.from_bytes, parts[2:])
    seconds = int.from_bytes(at) / PER_SECOND
    return Token(session_id, making, slot, arm, segment, seconds, first & 15, tail[_TAIL.size :], key_id, said, mac)


def _decoded(text: str) -> bytes:
    """Decode base64url in its one right spelling: another token is never taken for this one."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if b2a_base64(data, newline=False).translate(_URL_SAFE, b"=").decode("ascii") != text:
        raise ValueError("another spelling")
    return data


class SessionTokens:
    """Makes and knows the tokens of one session, of this making."""

    def __init__(self, keys: TokenKeys, session_id: str, created_at: float) -> None:
        self._keys, self._session_id, self._id = keys, session_id, session_id.encode("ascii")
        # To the microsecond, as some stores write it.
        self._making = hashlib.sha256(b"%d" % round(created_at * 1e6)).digest()[:5]

    def sign(self, slot: int, arm: int, segment: str, at: float, group: int = 0, tail: bytes = b"") -> str:
        """Make the token of an act.

        Parameters
        ----------
        slot, arm : its slot, and the arm's index
        segment : that it named, else empty
        at : Unix seconds
        group : 0 in sessions without groups
        tail : further bytes, fewer than 65,536
        """
        key = self._keys.all[0]
        name, of_act = segment.encode(), min(int(at * PER_SECOND), _LATEST).to_bytes(_TIME_BYTES)
        slot_bytes, arm_bytes = (slot.bit_length() + 7) // 8, (arm.bit_length() + 7) // 8
        lengths = (len(self._id), len(name), slot_bytes << 4 | arm_bytes)
        head = _HEAD.pack(FORMAT << 4 | group, key.id, self._making, of_act, *lengths)
        named = self._id + name + slot.to_bytes(slot_bytes) + arm.to_bytes(arm_bytes)
        said = head + named + (_TAIL.pack(len(tail)) + tail if tail else b"")
        return (b2a_base64(said) + b"." + b2a_base64(key.mac(said))).translate(_URL_SAFE, b"=\n").decode("ascii")

    def opened(self, text: str) -> Token | None:
        """Return what a token of this session says; None for any other text."""
        if (token := read(text)) is None or (token.session_id, token.making) != (self._session_id, self._making):
            return None
        return token if self._keys.is_genuine(token) else None


# -- The keys: of a file, which is read again when it changes, or one that the store keeps for all workers.


def read_token_keys(file: Path) -> Sequence[bytes]:
    """Read a file of keys: one a line, each once, the first signs.

    Raises
    ------
    SettingsError
        for a file that can't be read, without showing any of it.
    """
    try:
        lines = [line.removesuffix("\r") for line in read_secret(file).split("\n")]
        keys = list(dict.fromkeys(line.encode() for line in lines if line.strip()))
        if not keys or not all(re.fullmatch(rb"[\x20-\x7e]{%d,}" % MIN_KEY, key) for key in keys):
            raise ValueError(f"a key is a line of {MIN_KEY} or more printable ASCII characters")
    except ValueError as error:
        raise SettingsError(f"--token-keys-file (BANDIT_TOKEN_KEYS_FILE): {error}") from None
    return keys


class TokenKey:
    """A key that signs: HMAC-SHA256 with what depends on the key alone computed once."""

    def __init__(self, key: bytes) -> None:
        self.key, self.id, self._begun = key, hashlib.sha256(key).digest()[:2], hmac.new(key, digestmod="sha256")

    def mac(self, said: bytes) -> bytes:
        """Return the first 128 bits."""
        mac = self._begun.copy()
        mac.update(said)
        return mac.digest()[:_MAC_BYTES]


class TokenKeys:
    """The keys that sign tokens, the same in all workers.

    A file that can't be read changes nothing. If it can't be read at the start no token is made or accepted.

    Parameters
    ----------
    file : of the settings, of one or more keys; None: the store has the only one
    kept : returns the store's key; the one that it is given, if it has none
    """

    def __init__(self, file: Path | None, kept: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._file, self._kept = file, kept
        self._read_at: tuple[int, ...] = ()
        self.all: Sequence[TokenKey] = ()
        """The first signs."""
        self.read_again()

    def is_genuine(self, token: Token) -> bool:
        """Return whether one of the keys has signed it."""
        return any(
            hmac.compare_digest(key.mac(token.said), token.mac) for key in self.all if key.id == token.key_id
        )

    async def ready(self) -> None:
        """Have a key, of the store if there is no file.

        Raises
        ------
        StoreUnavailableError
            if the store can't be reached, or the file could not be read since the start.
        """
        if self.all:
            return
        if self._file is not None:
            raise StoreUnavailableError("the keys of tokens can't be read")
        self._take([await self._kept(secrets.token_urlsafe(MIN_KEY).encode())])

    async def of(self, session_id: str, created_at: float) -> SessionTokens:
        """Return what makes and knows the tokens of a session, created at these Unix seconds."""
        await self.ready()
        return SessionTokens(self, session_id, created_at)

    def read_again(self) -> None:
        """Read the file, and take its keys unless it can't be read."""
        if self._file is None:
            return
        self._read_at = file_state(self._file)
        try:
            self._take(read_token_keys(self._file))
        except SettingsError as error:
            log.error("the keys of tokens stay as they were: %s", error)

    def _take(self, keys: Sequence[bytes]) -> None:
        self.all = list(map(TokenKey, keys))

    async def watch(self) -> None:
        """Read the file again whenever it has changed; without one, offer the store its key in case it lost it."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if self._file is not None:
                if await asyncio.to_thread(file_state, self._file) != self._read_at:
                    self.read_again()
            elif self.all:
                with suppress(StoreUnavailableError):  # It is asked again.
                    kept = await self._kept(self.all[0].key)
                    if kept != self.all[0].key:  # Of another worker; what this one has signed stays good.
                        self._take([kept, *(key.key for key in self.all[: KEPT - 1] if key.key != kept)])
