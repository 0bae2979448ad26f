"""What is restored of an exported session, where everything in it can be read."""

from __future__ import annotations

from ...commit.cache import CachedSession
from ...commit.loading import check_segments, decoded, with_records
from ...cooperative import run_in_thread_if_large
from ...errors import InvalidRequestError, StateCorruptError
from ...models import stored as stored_specification
from ...serialization import state as codec
from ...serialization import summary
from ...store.base import NewSession, WholeSession
from ..limits import Limits, Rights, label_bytes


async def restorable(whole: WholeSession, limits: Limits, rights: Rights) -> CachedSession:
    """Read an exported session, with all that goes on with it.

    Parameters
    ----------
    whole : of ``document.read``, and not trusted
    limits : of this service, for the session's size
    rights : how many arms the caller's sessions may have

    Raises
    ------
    InvalidRequestError
        for what this version can't read, or what is beyond the limits.
    """
    try:
        # Before memory of the session's size is taken, which its specification alone says.
        data = whole.snapshot.spec
        read = await run_in_thread_if_large(len(data), stored_specification.decode, data)
    except ValueError as error:
        raise InvalidRequestError.of("specification", "is not one that this version can read") from error
    spec = read.specification
    await run_in_thread_if_large(label_bytes(spec), limits.check, spec, rights)
    try:
        return await read_whole(whole)
    except StateCorruptError as error:
        raise InvalidRequestError.of("state", "is not one that this version can read") from error


async def read_whole(whole: WholeSession) -> CachedSession:
    """Decode all that a session goes on with.

    Raises
    ------
    StateCorruptError
        where anything of it is not what this version writes.
    """
    cached = await decoded(whole.snapshot)
    if cached.needs_records:
        cached = await with_records(cached, whole.records)
    await check_segments(cached, whole.segments)
    return cached


def restored(session_id: str, version: str, whole: WholeSession, cached: CachedSession) -> NewSession:
    """Return the session to create of an exported one.

    Parameters
    ----------
    session_id : which it had, and has again
    version : its first one here
    whole : gives specification and state, byte for byte
    cached : the same session decoded, as ``restorable`` returns it
    """
    spec, run, schema = cached.stored.specification, cached.run, whole.snapshot.state[codec.SCHEMA_BYTE]
    return NewSession(
        session_id,
        version,
        whole.snapshot.spec,
        whole.snapshot.state,
        spec.idle_ttl_ms,
        about=summary.encode_about(spec.chosen(), run, schema),
        summary=summary.encode_summary(run, version, schema, effective=summary.effective_arms_of(run)),
        counts_as_texts=not cached.has_packed_counts,
    )
