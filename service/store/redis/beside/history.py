"""Histories of sessions in a Redis server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .. import scripts
from ..connection.pipeline import RedisArgument
from ..keys import SAMPLE, Keys
from ..script_runner import ScriptRunner


class RedisHistory:
    """Samples in fields of the session's hash: they end with the session, whatever ends it.

    ``History`` says what each call does.

    Parameters
    ----------
    runner : of the store
    keys : names of the keys of sessions
    """

    def __init__(self, runner: ScriptRunner, keys: Keys) -> None:
        self._run = runner.run
        self._keys = keys

    async def record(self, session_id: str, created_at: float, place: int, sample: bytes) -> int | None:
        args = (repr(created_at), _field(place), sample)
        reply = await self._run(scripts.RECORD_SAMPLE, self._held_in(session_id), args)
        return int(reply[1]) if reply[0] == b"OK" else None

    async def read(self, session_id: str) -> Mapping[int, bytes] | None:
        reply = await self._run(scripts.READ_SAMPLES, self._held_in(session_id), (SAMPLE + b"*",))
        if reply[0] != b"OK":
            return None
        fields = reply[1]
        found = zip(fields[::2], fields[1::2], strict=True)
        return {int(name[1:]): sample for name, sample in found if name[1:].isdigit()}

    async def thin(self, session_id: str, dropped: Iterable[int], left: int) -> None:
        args: list[RedisArgument] = [left, *map(_field, dropped)]
        await self._run(scripts.THIN_SAMPLES, self._held_in(session_id), args)

    def _held_in(self, session_id: str) -> Sequence[str]:
        return (self._keys.session(session_id), self._keys.probe(session_id))


def _field(place: int) -> bytes:
    return SAMPLE + b"%d" % place
