"""The view of a session: what clients see of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..commit.batch import VERSION
from ..commit.cache import CachedSession
from ..cooperative import COMPACT, Body, answer_body, floats_text, json_chunks
from ..engine.arm_run import ArmRun
from ..engine.run import Run
from ..serialization import summary as listed
from ..serialization.summary import effective_arms, time_text
from ..store.base import Snapshot

SHORT_ARMS = 500
"""Most arms, without labels, of a view made at once: it takes a quarter of a millisecond, and is sent whole."""


class ShortView(NamedTuple):
    """The JSON of a short view as texts, without what the store alone knows of the session."""

    fields: str
    """From the learner to the hints."""
    numbers: str
    """What comes last: the probabilities, for the most part."""

    @classmethod
    def of(cls, cached: CachedSession) -> ShortView | None:
        """Make the texts; None for a view that may be long, or is of points."""
        run = cached.run
        if not isinstance(run, ArmRun) or run.arms.names is not None or run.arms.size > SHORT_ARMS:
            return None
        p = run.probabilities
        numbers = f'"paused":[],"probabilities":[{floats_text(p, COMPACT)}],"effective_arms":{effective_arms(p)!r}'
        return cls(COMPACT.encode(_of_run(cached))[1:-1], numbers)

    def view(self, session_id: str, snapshot: Snapshot) -> bytes:
        """Return the whole view.

        Parameters
        ----------
        session_id : shown in the view
        snapshot : gives version and times
        """
        first, last = (COMPACT.encode(each)[1:-1] for each in ({"session_id": session_id}, _of_store(snapshot)))
        return f"{{{first},{self.fields},{last},{self.numbers}}}".encode()


def session_view(session_id: str, snapshot: Snapshot, cached: CachedSession) -> Body:
    """Return the JSON of a session's view.

    Parameters
    ----------
    session_id : shown in the view; neither of the others knows it
    snapshot : gives version and times
    cached : gives the rest; its run may be ahead of the snapshot
    """
    if (short := ShortView.of(cached)) is not None:
        return short.view(session_id, snapshot)
    return answer_body(json_chunks(fields_of(session_id, snapshot, cached)))


def fields_of(session_id: str, snapshot: Snapshot, cached: CachedSession) -> dict[str, Any]:
    """Return the fields of a session's view.

    Parameters
    ----------
    session_id : shown in the view; neither of the others knows it
    snapshot : gives version and times
    cached : gives the rest; its run may be ahead of the snapshot
    """
    run = cached.run
    view = summary(session_id, snapshot, cached)
    if isinstance(run, ArmRun):
        names = run.arms.names or ()
        view["paused"] = list(map(names.__getitem__, sorted(run.arms.paused)))
        view["probabilities"] = p = run.probabilities
        view["effective_arms"] = effective_arms(p)
    else:
        view["x"] = run.learner.x(run.state)
    return view


def summary(session_id: str, snapshot: Snapshot, cached: CachedSession) -> dict[str, Any]:
    """Return the fields of a session's view except ``probabilities`` or ``x``, which may be long.

    Parameters
    ----------
    session_id : shown in the view; neither of the others knows it
    snapshot : gives version and times
    cached : gives the rest; its run may be ahead of the snapshot
    """
    return {"session_id": session_id, **_of_run(cached), **_of_store(snapshot)}


def _of_run(cached: CachedSession) -> dict[str, Any]:
    run, chosen = cached.run, cached.stored.specification.chosen()
    return listed.joined(listed.about(chosen, run), listed.counted(run, mostly_surplus=cached.mostly_surplus))


def _of_store(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "version": snapshot.version,
        "created_at": time_text(snapshot.created_at),
        "expires_at": None if snapshot.expires_at is None else time_text(snapshot.expires_at),
    }


def viewer(session_id: str, snapshot: Snapshot, cached: CachedSession) -> Callable[[Run, bool], Body]:
    """Make a function for the view that a commit answers with: of its run, and whether it is a use.

    A use extends the idle deadline. The version is not known before the commit: ``VERSION`` stands for it.

    Parameters
    ----------
    session_id : shown in the view
    snapshot : gives the time of creation, and the idle deadline where the commit is no use
    cached : gives the specification; its run is replaced by the commit's
    """

    def view(run: Run, extends_deadline: bool) -> Body:
        extended = cached.stored.specification.expires_at(run.ledger.time)
        then = snapshot._replace(version=VERSION, expires_at=extended if extends_deadline else snapshot.expires_at)
        return session_view(session_id, then, cached._replace(run=run))

    return view
