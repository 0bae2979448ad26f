"""Acting: open slots, and answer with their actions, as JSON in texts of bounded size."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..commit.batch import Acted, Applied, Draft, Ended, Operation
from ..cooperative import CHUNK_SCALARS
from ..engine.arm_run import ArmRun, Names
from ..engine.control import GROUPS, Group
from ..engine.ledger import ArmActions
from ..engine.run import FeatureRun, Run
from ..engine.segment_run import SegmentRun
from ..errors import InvalidRequestError, NoEligibleArmError
from ..learners.base import ArmLearner, FloatArray, IntArray, Learner, PointLearner, Visit
from ..learners.features import Encoded, tail_of
from ..learners.fixed import SUM_TOLERANCE
from ..models.events import Choice
from ..models.specification import ControlSpec

# -- What requests name of a session: the arms that an act may draw, and segments.


class Found(NamedTuple):
    """What the names of an act mean in its session."""

    eligible: IntArray | None = None
    """Positions of the arms that may be drawn, ascending; None: all that are not paused."""
    skipped: int = 0
    """Number of different names of arms that can't be drawn anyway."""
    encoded: Encoded | None = None
    """The visitor's columns, in sessions with features."""


ANY = Found()
"""What an act means that names no arms."""
SIGNED_AT_ONCE = 100
"""Tokens made between two pauses; each takes 5 us."""


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
    if not (isinstance(learner, ArmLearner) and learner.takes_eligible):
        raise InvalidRequestError.of(field, "this session's learner does not define eligible arms")


def check_control(
    control: ControlSpec, learner: Learner[Any], n_arms: int | None, names: Sequence[str] | None
) -> None:
    """Refuse a control group beside a learner, or with probabilities of other arms than these; None: any.

    Raises
    ------
    InvalidRequestError
        naming the field.
    """
    check_defined("control", learner)
    given, field = control.probabilities, "control.probabilities"
    if given is None or n_arms is None:
        return
    if isinstance(given, dict) and given.keys() != set(names or ()):
        raise InvalidRequestError.of(field, "must name every label of the session, and no other")
    if len(given) != n_arms:
        raise InvalidRequestError.of(field, "must have one number for each arm")
    if not abs(math.fsum(given.values() if isinstance(given, dict) else given) - 1) <= SUM_TOLERANCE:
        raise InvalidRequestError.of(field, "must sum to 1")


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


R = TypeVar("R", SegmentRun, FeatureRun)


def of_kind(run: Run, kind: type[R]) -> R:
    """Refuse to name a segment, or features, in a session that has none.

    Raises
    ------
    InvalidRequestError
        naming the field.
    """
    if not isinstance(run, kind):
        field, option = ("segment", "segments") if kind is SegmentRun else ("features", "features")
        raise InvalidRequestError.of(field, f"this session has no {option}: create one with `{option}`")
    return run


@dataclass(slots=True)
class Act(Operation):
    """Open ``count`` slots in a row; ``single`` answers with one action instead of a list."""

    plays = True

    count: int
    max_cells: int
    """Largest count * n_arms (or count * dim * dim) in one request."""
    single: bool = False
    choice: Choice | None = None
    """The arms that may be drawn; None: all that are not paused."""
    distinct: bool = False
    """Whether each arm is drawn once at most; fewer arms are fewer actions."""
    segment: str | None = None
    """Who asks, in sessions with segments."""
    visitor: str | None = None
    """Who asks, in sessions with a control group: all acts are of one group then."""
    features: Mapping[str, Any] | None = None
    """What is known of the visitor, in sessions with features."""

    @property
    def weight(self) -> int:
        return self.count

    @property
    def segments(self) -> Sequence[str]:
        return (self.segment or "",)

    async def check(self, draft: Draft) -> Found:
        """Find the arms that may be drawn, or refuse the request."""
        if self.segment is not None:
            of_kind(draft.run, SegmentRun)
        if self.count > 1 and self.count * (cells := _cells(draft.run)) > self.max_cells:
            text = f"count times the learner's size ({cells}) must not exceed {self.max_cells}"
            raise InvalidRequestError.of("count", text)
        if self.distinct:
            check_defined("distinct", draft.run.learner)
        found = ANY if self.choice is None else find(draft.run, self.choice)
        if self.features is None and not isinstance(draft.run, FeatureRun):
            return found
        return found._replace(encoded=of_kind(draft.run, FeatureRun).encoder.encode(self.features))

    async def apply(self, draft: Draft, found: Found) -> Applied:
        run = draft.run
        if isinstance(run, ArmRun):
            drawn = await self._draw(draft, run, found)
            tokens: list[str] = []
            if draft.tokens is not None:
                segment, at = self.segment or "", run.ledger.time
                for group, visit, slot, arm in [
                    (each.group, each.visit, *pair) for each in drawn for pair in enumerate(each.arms, each.slot)
                ]:
                    tail = b"" if visit is None or visit.ratios is None else tail_of(visit)
                    tokens.append(draft.tokens.sign(slot, arm, segment, at, GROUPS.index(group), tail))
                    if not len(tokens) % SIGNED_AT_ONCE:
                        await draft.fair_yield()
            options = (found.skipped, tokens, run.params.control is not None)
            return Applied(arms_json(drawn, run.arms.names, *options, single=self.single).encode())
        points = []
        for _ in range(self.count):
            points.append(point_json(run.open_slot(), run.learner, run.state))
            await draft.fair_yield()
        body = points[0] if self.single else points_json(points)
        return Applied("".join(body).encode() if self.count * _cells(run) <= CHUNK_SCALARS else body)

    async def _draw(self, draft: Draft, run: ArmRun, found: Found) -> Sequence[ArmActions]:
        """Open slots of a session over arms, and note them; with ``distinct``, while an arm is left.

        Raises
        ------
        NoEligibleArmError
            where no arm can be drawn; no slot has been opened.
        """
        eligible = run.arms.unpaused if found.eligible is None else found.eligible
        drawn: list[ArmActions] = []
        left, log = self.count, draft.stored.specification.decision_log
        control, is_one_group, is_control = run.control, self.distinct or self.visitor is not None, False
        if is_one_group:
            is_control = run.is_control(run.slot + 1, self.visitor)
        if eligible is not None and not run.can_draw(eligible):
            slots = range(run.slot + 1, run.slot + 1 + (0 if is_one_group else self.count))
            if not eligible.size or not (is_control or (slots and all(map(run.is_control, slots)))):
                raise NoEligibleArmError
        if self.distinct and eligible is None:
            eligible = run.arms.without(np.empty(0, dtype=np.int64))
        while left:
            count, dropped = 1 if self.distinct else left, None
            if run.params.control is not None and not is_one_group:
                is_control, count = run.stretch(count)
            if is_control and control is not None:
                actions = control.act(run, eligible, count)
                if found.encoded is not None:
                    actions = actions._replace(visit=Visit(found.encoded.x))
            elif count > 1 and type(run) is ArmRun:
                actions = run.act_all(count, eligible)
            else:
                if isinstance(run, SegmentRun):
                    one = run.act(eligible, self.segment or "")
                elif isinstance(run, FeatureRun):
                    while run.merge_some():
                        await draft.fair_yield()
                    one = run.act(eligible, found.encoded)
                else:
                    one = run.act(eligible)
                dropped = one.dropped
                actions = ArmActions(one.slot, (one.arm,), (one.probability,), one.eligible, visit=one.visit)
            own: Group | None = None if control is None else "learner"
            if dropped is not None:
                draft.journal.append(Ended(dropped, "expired", group=own))
            if log is not None:
                noted = actions if log.features else actions._replace(visit=None)
                draft.journal.append(Acted(noted, run.arms.names, self.segment, own and actions.group))
            drawn.append(actions)
            left -= len(actions.arms)
            if left:
                await draft.fair_yield()
            if self.distinct and eligible is not None:
                eligible = eligible[eligible != run.arms.positions[actions.arms[0]]]
                if not (eligible.size if is_control else run.can_draw(eligible)):
                    break
        return drawn


def _cells(run: Run) -> int:
    """Return how many numbers an act computes: one for each arm, or for each coordinate of each query point."""
    return len(run.arms.live) if isinstance(run, ArmRun) else run.learner.dim**2


def arms_json(
    drawn: Iterable[ArmActions],
    names: Names,
    skipped: int,
    tokens: Sequence[str] = (),
    has_groups: bool = False,
    *,
    single: bool,
) -> str:
    """Return the JSON of drawn arms.

    An arm has one probability in all slots of an ``ArmActions``, so its part of the text is made once.

    Parameters
    ----------
    drawn : what was drawn, in the order of the slots
    names : labels by index of the arm; None in a session without
    skipped : how many names in the request were of arms that can't be drawn; shown unless it is 0
    tokens : of each action, in the same order; none in a session without
    has_groups : whether actions say their group
    single : whether the answer is one action in place of a list
    """
    more = f',"skipped":{skipped}' if skipped else ""
    if single:
        (slot, arms, probabilities, *_, group), *_ = drawn
        more = f',"token":"{tokens[0]}"{more}' if tokens else more
        more = f',"group":"{group}"{more}' if has_groups else more
        return f'{{"slot":{slot}{_arm_json(arms[0], probabilities[0], names)}{more}}}'
    texts: list[str] = []
    arm_json = _arm_json if names is not None else _unnamed_arm_json
    for slot_of_first, arms, probabilities, *_, group in drawn:
        different = dict(zip(arms, probabilities, strict=True))
        named = f',"group":"{group}"' if has_groups else ""
        parts = {arm: arm_json(arm, p, names) + named for arm, p in different.items()}
        texts += [f'{{"slot":{slot}{parts[arm]}' for slot, arm in enumerate(arms, slot_of_first)]
    if tokens:
        texts = [f'{text},"token":"{token}"' for text, token in zip(texts, tokens, strict=True)]
    return f'{{"actions":[{"},".join(texts)}}}]{more}}}'


def _arm_json(arm: int, p: float, names: Names) -> str:
    label = "" if names is None else f',"label":{json.dumps(names[arm])}'
    return f',"arm":{arm},"probability":{p!r}{label}'


@lru_cache(maxsize=4096)
def _unnamed_arm_json(arm: int, p: float, names: None) -> str:
    """Return the same without labels; p stays as it is until an event comes, for all acts of a batch, say."""
    return _arm_json(arm, p, names)


def points_json(points: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the JSON of a list of points, each given as ``point_json`` yields it."""
    start = '{"actions":['
    for point in points:
        yield start
        yield from point
        start = ","
    yield "]}"


def point_json(slot: int, learner: PointLearner[Any], state: Any) -> Iterator[str]:
    """Yield the JSON of a point and its query points.

    It is made when it is sent, from the state, which is much smaller.

    Parameters
    ----------
    slot : in which the point was played
    learner : the session's, which finds the points in a state
    state : the learner's, as it was in this slot
    """
    x = learner.x(state)
    numbers = [repr(number) for number in x.tolist()]
    yield f'{{"slot":{slot},"x":[{",".join(numbers)}]'
    if (changes := _changes(x, learner.query_points(state))) is None:
        yield "}"
        return
    start = ',"query_points":['
    for changed in changes:
        point = list(numbers)
        for place, number in changed:
            point[place] = repr(number)
        yield f"{start}[{','.join(point)}]"
        start = ","
    yield "]}"


def _changes(x: FloatArray, points: FloatArray | None) -> Sequence[Sequence[tuple[int, float]]] | None:
    """Return for each query point the places, mostly few, where it differs from ``x``, and its numbers there."""
    if points is None:
        return None
    changes: list[list[tuple[int, float]]] = [[] for _ in points]
    rows, places = np.nonzero(points.view(np.int64) != x.view(np.int64))
    for row, place, number in zip(*(each.tolist() for each in (rows, places, points[rows, places])), strict=True):
        changes[row].append((place, number))
    return changes
