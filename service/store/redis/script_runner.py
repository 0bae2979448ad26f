"""Scripts run with what one call learns for the next: the store's clock, its room, and the buckets of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import StateCorruptError
from ..base import StoreFullError, StoreUnavailableError, WrongTypeError
from ..clock import StoreClock
from ..options import StoreOptions
from . import messages
from .connection.client import RedisClient
from .connection.pipeline import RedisArgument
from .keys import Keys
from .room import Room, size_of
from .scripts import Script

MAX_KEY_CORRECTIONS = 5
"""Attempts to send the keys of all buckets of a session before the store counts as unavailable."""
MAX_LISTED = 10_000
"""Sessions whose other buckets a worker remembers."""


class ScriptRunner:
    """Runs the scripts of one store.

    Parameters
    ----------
    client : sends them
    keys : names of the keys of sessions
    options : of the store: timeouts for replicas and replies, the data folder, and who hears of steps of the clock

    Attributes
    ----------
    clock : the store's, set by every reply
    room : what the store has room for, as calls have found it
    """

    def __init__(self, client: RedisClient, keys: Keys, options: StoreOptions) -> None:
        self.clock = StoreClock(on_step_back=options.on_clock_step_back)
        self.room = Room(options.data_folder)
        self._client = client
        self._keys = keys
        self._listed: dict[str, Sequence[int]] = {}
        """Session to the numbers of its buckets, where they were other than the time suggests."""
        # A reply that waits for replicas must come before the connection is given up.
        self._replica_seconds = min(options.replica_seconds, options.reply_seconds / 2)

    async def run_on_session(
        self, script: Script, session_id: str, tail: Sequence[RedisArgument], others: Sequence[str] = ()
    ) -> Sequence[Any]:
        """Run a script on all keys of a session.

        Which buckets they are depends on the time, and on what other workers have written. Where keys were missing
        it writes nothing; its reply names the buckets and corrects this worker's clock, and it is run again.

        Parameters
        ----------
        script : takes the keys of ``Keys.at``
        session_id : of the session
        tail : arguments behind the numbers and the width of the buckets
        others : keys that are not the session's; they come before the last one

        Returns
        -------
        The reply from the outcome on.

        Raises
        ------
        StoreUnavailableError
            for any failure of the store.
        StateCorruptError
            where a key of the session is of another type than any call makes it.
        """
        for _ in range(MAX_KEY_CORRECTIONS):
            keys = self._keys.at(session_id, self.clock.now(), self._listed.get(session_id, ()))
            args = (keys.numbers, self._keys.bucket_ms, *tail)
            every = (*keys.all[:-1], *others, keys.all[-1]) if others else keys.all
            reply = await self.run(script, every, args, replica_seconds=self._replica_seconds)
            if reply[0] != b"KEYS":
                return reply
            if len(self._listed) >= MAX_LISTED:
                self._listed.clear()
            self._listed[session_id] = messages.bucket_numbers(reply[1])
        raise StoreUnavailableError("the store's clock jumps")

    async def run(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[RedisArgument] = (),
        *,
        replica_seconds: float = 0.0,
    ) -> Sequence[Any]:
        """Run a script on these keys.

        Parameters
        ----------
        script : to run
        keys : KEYS of the script, one or more
        args : ARGV of the script
        replica_seconds : as ``RedisClient.script`` has it

        Returns
        -------
        The reply from the outcome on.

        Raises
        ------
        StoreUnavailableError
            for any failure of the store.
        StateCorruptError
            where the first key is a session's, and one of the keys is of another type than any call makes it.
        """
        sent, room = self.clock.monotonic(), self.room
        try:
            if script.writes and room.folder is not None:
                room.check(size_of(args))
            reply: Sequence[Any] = await self._client.script(script, keys, args, replica_seconds=replica_seconds)
        except StoreFullError:
            room.on_refused(size_of(args) if script.writes else 0)
            raise
        except WrongTypeError as error:
            if keys[0].startswith(self._keys.before_id):
                raise StateCorruptError from error
            raise
        if script.writes and room.refused:
            room.on_written(size_of(args))
        self.clock.observe(int(reply[0]) + int(reply[1]) / 1e6, sent)
        return reply[2:]
