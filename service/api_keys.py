"""API keys: their roles and limits, read from the settings. Only the SHA-256 of a key is kept: docs/security.md."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal

from jiter import from_json
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from .errors import RateLimitedError
from .settings import Count, SecretText, Settings, SettingsError, file_state, named, read_secret

MIN_KEY, MAX_KEY = 16, 512
WATCH_SECONDS = 1.0
"""Time between two looks at the file of the keys."""
MAX_KEYS = 1000
"""Every request's key is compared with all of them."""
_ROUNDING = 1e-6
"""Seconds by which sums of times may be wrong."""

Role = Literal["reader", "client", "admin"]
Clock = Callable[[], float]
"""Returns seconds."""


log = logging.getLogger(__name__)


class ApiKey(BaseModel):
    """One key: its name, what it may call, and its limits."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    role: Role
    session_prefix: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$")] = ""
    max_sessions: Count | None = None
    max_arms: Count | None = None
    max_body_bytes: Count | None = None
    requests_per_second: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _only_the_hash(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "key" not in given:
            return given
        if "sha256" in given:
            raise ValueError("give key or sha256, not both")
        key = given["key"]
        if not (isinstance(key, str) and MIN_KEY <= len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
            raise ValueError(f"a key has {MIN_KEY} to {MAX_KEY} printable ASCII characters")
        if " " in key:
            raise ValueError("a key has no space")
        others = {field: value for field, value in given.items() if field != "key"}
        return others | {"sha256": hashlib.sha256(key.encode()).hexdigest()}


_KEYS = TypeAdapter(Annotated[list[ApiKey], Field(max_length=MAX_KEYS)], config=ConfigDict(defer_build=True))
"""Compiled when keys are read: many services have none."""


def read_keys(settings: Settings) -> Sequence[ApiKey]:
    """Read the keys that the settings give; none where they give none.

    Raises
    ------
    SettingsError
        for a file or text that can't be read, without showing any of it.
    """
    text, file, where = _inline(settings), settings.api_keys_file, named("api_keys_file")
    if text and file is not None:
        raise SettingsError(f"{named('api_keys')}, {where}: give one of them")
    if file is None:
        return _parse(text, named("api_keys")) if text else ()
    try:
        return _parse(read_secret(file), where)
    except ValueError as error:
        raise SettingsError(f"{where}: {error}") from None


def needs_keys(settings: Settings) -> bool:
    """Return whether the service has API keys."""
    return settings.api_keys_file is not None or _inline(settings) != ""


def _inline(settings: Settings) -> str:
    return "" if settings.api_keys is None else settings.api_keys.get_secret_value()


def _parse(text: str, where: str) -> Sequence[ApiKey]:
    try:
        keys = _KEYS.validate_python(from_json(text.encode(), catch_duplicate_keys=True), strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(f"{where}: {place or 'list'}: {first['msg']}") from None
    except ValueError as error:  # Its text may have names of fields.
        is_twice = "duplicate key" in str(error)
        reason = "a field is named twice in one object" if is_twice else "not valid JSON"
        raise SettingsError(f"{where}: list: {reason}") from None
    for field in ("name", "sha256"):
        if len({getattr(key, field) for key in keys}) < len(keys):
            raise SettingsError(f"{where}: two keys have the same {'name' if field == 'name' else 'secret'}")
    if not keys:
        raise SettingsError(f"{where}: no keys; leave the setting out to serve everybody")
    return keys


def hashed(settings: Settings, keys: Sequence[ApiKey]) -> Settings:
    """Return the settings as workers get them: with the hashes of the keys in place of keys given as text.

    Parameters
    ----------
    settings : as they were read
    keys : as ``read_keys`` returns them
    """
    if settings.api_keys_file is not None or not keys:
        return settings
    text = json.dumps([key.model_dump(exclude_defaults=True) for key in keys])
    return settings.model_copy(update={"api_keys": SecretText(text)})


class KeyRing:
    """The API keys of one process; those of a file are read again when it changes.

    A file that can't be read later changes nothing. Where it can't be read at the start no key is accepted: it may
    have lost the keys that the service began with.

    Parameters
    ----------
    settings : have the keys, or name their file
    full_at : of each key, by its place, when its bucket of requests is full again, in seconds of the clock; shared
        by the workers. None for a process that has no others
    clock : seconds, the same for all processes of the machine
    """

    def __init__(
        self, settings: Settings, full_at: memoryview[float] | None = None, clock: Clock = time.monotonic
    ) -> None:
        self._settings, self._clock = settings, clock
        self._full_at = memoryview(bytearray(8 * MAX_KEYS)).cast("d") if full_at is None else full_at
        self._file = settings.api_keys_file
        self._read_at: tuple[int, ...] = ()
        self.keys: Sequence[ApiKey] = ()
        if self._file is None:
            self.keys = read_keys(settings)
        else:
            self.read_again()

    def read_again(self) -> None:
        """Read the file, and take its keys unless it can't be read."""
        if self._file is None:
            return
        self._read_at = file_state(self._file)
        try:
            keys = read_keys(self._settings)
        except SettingsError as error:
            log.error("the API keys stay as they were: %s", error)
            return
        if self.keys and keys != self.keys:
            log.info("the API keys have changed: %s", ", ".join(key.name for key in keys))
        self.keys = keys

    def take(self, key: ApiKey) -> None:
        """Take a request out of the bucket of a key, which holds those of a second.

        No lock is held: if two workers take one at the same moment, it may count once. A file that puts a key at
        another place gives it the bucket of that place, a second's worth at most.

        Raises
        ------
        RateLimitedError
            if the bucket is empty.
        """
        if (rate := key.requests_per_second) is None:
            return
        place = next(place for place, each in enumerate(self.keys) if each is key)
        now = self._clock()
        full_at = max(self._full_at[place], now) + 1 / rate
        if full_at > now + 1 + _ROUNDING:
            raise RateLimitedError(f"This API key may send {rate} requests per second")
        self._full_at[place] = full_at

    async def watch(self) -> None:
        """Read the file again whenever it has changed; return at once where the settings name no file."""
        while self._file is not None:
            await asyncio.sleep(WATCH_SECONDS)
            if await asyncio.to_thread(file_state, self._file) != self._read_at:
                self.read_again()


def find(secret: bytes, keys: Iterable[ApiKey]) -> ApiKey | None:
    """Find the key with a secret, in the same time whether and where it is among them.

    Parameters
    ----------
    secret : as the request has it, not hashed
    keys : of the service, with their hashes
    """
    digest = hashlib.sha256(secret).hexdigest()
    found = None
    for key in keys:
        if hmac.compare_digest(key.sha256, digest):
            found = key
    return found
