"""What requests name of a session: the arms that an act may draw, and segments."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...engine.arm_run import ArmRun
from ...engine.run import Run
from ...engine.segment_run import SegmentRun
from ...errors import InvalidRequestError
from ...learners.base import ArmLearner, IntArray, Learner
from ...models.events import Choice


class Found(NamedTuple):
    """What the names of an act mean in its session."""

    eligible: IntArray | None = None
    """Positions of the arms that may be drawn, ascending; None: all that are not paused."""
    skipped: int = 0
    """Number of different names of arms that can't be drawn anyway."""


ANY = Found()
"""What an act means that names no arms."""


def takes_eligible(learner: Learner[Any]) -> bool:
    """Return whether slots of this learner may name their eligible arms and have a floor."""
    return isinstance(learner, ArmLearner) and learner.takes_eligible


def check_defined(field: str, learner: Learner[Any]) -> None:
    """Refuse a field that makes sense for learners with eligible arms only.

    Parameters
    ----------
    field : of the request, named in the error
    learner : the session's

    Raises
    ------
    InvalidRequestError
        naming the field.
    """
    if not takes_eligible(learner):
        raise InvalidRequestError.of(field, "this session's learner does not define eligible arms")


def find(run: Run, choice: Choice) -> Found:
    """Find the arms that an act names.

    Parameters
    ----------
    run : the session's, in which they are looked up
    choice : the arms that may be drawn, or those that may not

    Raises
    ------
    InvalidRequestError
        where the learner does not define eligible arms, or labels are named in a session without.
    """
    check_defined(choice.field, run.learner)
    if not isinstance(run, ArmRun):
        raise TypeError(f"{run.learner!r} is over points")
    if run.arms.labels is None and any(isinstance(name, str) for name in choice.names[:1]):
        raise InvalidRequestError.of(choice.field, "this session's arms have no labels; name their indexes")
    positions, skipped = run.arms.find(choice.names)
    return Found(positions if choice.field == "eligible" else run.arms.without(positions), skipped)


def check_segments(run: Run) -> SegmentRun:
    """Refuse to name a segment in a session without.

    Raises
    ------
    InvalidRequestError
        naming the field.
    """
    if not isinstance(run, SegmentRun):
        raise InvalidRequestError.of("segment", "this session has no segments: create one with `segments`")
    return run
