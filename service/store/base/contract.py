"""What can be asked of a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from .commits import Commit, NewSession, Outcome
from .reads import Counts, Log, Page, ReadSegments, Snapshot, WholeSession


class Reminders(Protocol):
    """When sessions have decisions that fall due, for the one worker that settles them when nobody calls.

    Reminders are hints: losing one, or sweeping a session twice, harms nothing. Any request to a session first
    settles what is due, and the version check keeps it from being settled twice.
    """

    async def remind(self, session_id: str, at: float) -> None:
        """Note that a session has decisions due at ``at``, unless an earlier time is noted.

        Parameters
        ----------
        session_id : of the session; whether it exists is not looked up
        at : Unix seconds by the store's clock
        """

    async def due(self, limit: int) -> Sequence[str]:
        """Return ids of sessions with decisions due, at most ``limit`` of each shard."""

    async def reschedule(self, session_id: str, again_at: float | None) -> None:
        """Replace a note that is due by the next one, or drop it; a later note stays.

        Parameters
        ----------
        session_id : of the session; whether it exists is not looked up
        again_at : Unix seconds by the store's clock at which its next decisions fall due; None for none
        """

    async def forget(self, session_id: str) -> None:
        """Drop the note of a session that no longer exists."""

    async def acquire_lease(self, worker: str, seconds: float) -> bool:
        """Try to become, or stay, the worker that sweeps for the next ``seconds``; False if another one is.

        Parameters
        ----------
        worker : a name that no other worker has
        seconds : how long the lease lasts from now on, by the store's clock
        """


class History(Protocol):
    """Samples of sessions over time, each at a place: best effort, and never part of a commit.

    They belong to their session: they are deleted and expire with it, and are in no export.
    """

    async def record(self, session_id: str, created_at: float, place: int, sample: bytes) -> int | None:
        """Keep a sample, in place of one that is there.

        Parameters
        ----------
        session_id : of the session
        created_at : of the session that the sample is of, as its snapshots have it
        place : number of the sample's period since 1970: one sample is kept for each
        sample : opaque

        Returns
        -------
        How many samples the session has now, about; None where it does not exist any more.
        """

    async def read(self, session_id: str) -> Mapping[int, bytes] | None:
        """Read all samples of a session, by place; None where there is no session."""

    async def thin(self, session_id: str, dropped: Iterable[int], left: int) -> None:
        """Drop the samples at these places, after which ``left`` stay.

        Parameters
        ----------
        session_id : of the session; where it does not exist nothing happens
        dropped : places of samples
        left : how many samples the session then has, for ``record`` to count on
        """


class Store(Protocol):
    """A store of sessions.

    Every method raises ``StoreUnavailableError`` where the store can't be used, and those about one session
    ``StateCorruptError`` where a key of that session is of another type than they make it.
    """

    @property
    def reminders(self) -> Reminders:
        """When sessions have decisions that fall due."""

    @property
    def history(self) -> History:
        """Samples of sessions over time."""

    async def create(self, session: NewSession) -> Snapshot:
        """Create a session, unless there is one with this id.

        Returns
        -------
        The session that has this id; it is the new one, created by this sending or an earlier one, if the versions
        are the same.
        """

    async def load(self, session_id: str) -> Snapshot | None:
        """Read a session as it is now; None where there is none. The idle deadline stays."""

    async def recall(self, session_id: str, digest: bytes) -> bytes | None:
        """Read the answer stored under an idempotency key of a session; None where there is none.

        Parameters
        ----------
        session_id : of the session; one that does not exist has no answers
        digest : of the key, ``DIGEST_BYTES`` long
        """

    async def commit(self, commit: Commit) -> Outcome:
        """Try to commit. Checked in this order: NotFound, Committed before, Conflict, Known; else Committed."""

    async def read_records(self, session_id: str) -> Mapping[bytes, bytes]:
        """Read all records beside a session's state, by key; one that a commit changes meanwhile is old or new."""

    async def read_counts(self, session_id: str, arms: Sequence[int], *, as_texts: bool = False) -> Counts | None:
        """Read the counts of arms beside a session's state; None where there is no session.

        Parameters
        ----------
        session_id : of the session
        arms : their indexes
        as_texts : whether the session's commits have ``counts_as_texts``
        """

    async def read_segments(self, session_id: str, names: Sequence[bytes], oldest: int = 0) -> ReadSegments | None:
        """Read segments by name, and which ``oldest`` were played least recently; None without such a session.

        Parameters
        ----------
        session_id : of the session
        names : as commits have them
        oldest : how many of the segments played least recently to name; 0 for none
        """

    async def segment_names(
        self, session_id: str, after: bytes | None, limit: int, *, backwards: bool = False
    ) -> Sequence[bytes]:
        """Return the first ``limit`` names of segments behind ``after``, in the order of their bytes.

        A segment that is kept all along is not left out.

        Parameters
        ----------
        session_id : of the session; one that does not exist has no segments
        after : a name, which need not exist and is left out; None to begin with the first
        limit : most names returned
        backwards : whether the order is turned round
        """

    async def read_log(self, session_id: str, after: str | None, limit: int) -> Log | None:
        """Read at most ``limit`` entries of a session's log; None where there is no session.

        Parameters
        ----------
        session_id : of the session
        after : position of the entry before the first; None to begin with the oldest
        limit : most entries returned
        """

    async def delete(self, session_id: str) -> bool:
        """Delete a session with all that belongs to it; False where there was none.

        Where a reply is lost nobody knows whether the session was deleted: the store is then unavailable.
        """

    async def list(self, cursor: str | None, limit: int, prefix: str = "") -> Page:
        """List at most ``limit`` sessions; a session that exists all along is listed at least once.

        Parameters
        ----------
        cursor : ``next_cursor`` of the page before, with the same prefix; None for the first
        limit : most sessions returned; a page with fewer need not be the last
        prefix : what their ids begin with, '' for all; lists by prefix are in the order of ids, and a session that
            a program without an index of ids created is missing for some minutes at most

        Raises
        ------
        ValueError
            for a cursor this store never gave.
        """

    async def export(self, session_id: str) -> WholeSession | None:
        """Read a session whole, at one version, without its log and stored answers; None where there is none."""

    async def restore(self, session_id: str, whole: WholeSession, new: NewSession) -> Snapshot | None:
        """Create a session from one that was exported, here or elsewhere; its ``created_at`` stays.

        Parameters
        ----------
        session_id : of the session to create
        whole : as ``export`` gave it
        new : its version, idle time to live, answer and what lists show of it; the rest is that of ``whole``

        Returns
        -------
        None if it was created, by an earlier sending too; else the session that has this id.
        """

    async def count(self, prefix: str, most: int) -> int:
        """Return how many sessions have ids with a prefix, or ``most`` where there are as many or more.

        Parameters
        ----------
        prefix : what their ids begin with, '' for all
        most : the largest number that is of interest: counting stops there
        """

    async def ping(self) -> None:
        """Return if the store can commit now."""

    def now(self) -> float:
        """Return Unix seconds by the store's clock, as of its latest reply; they decrease if it was set back."""

    async def close(self) -> None:
        """Close all connections."""
