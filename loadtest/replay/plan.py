"""What session a replay asks for: the learner's fields, their rates, and what its events must say."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import ValidationError

from loadtest.errors import LoadTestError
from loadtest.replay import delays
from loadtest.replay.arm_worlds import Baseline, BestFixed, Outcome
from service.engine.ledger import Action
from service.learners import REGISTRY
from service.learners.base import FloatArray, Information, IntArray, Spec

IDLE_TTL_SECONDS = 86_400
"""A replay's session can be looked at for a day and then goes by itself."""

SIZES = {"n_arms", "dim"}
"""Fields of a learner that the stream decides."""


class Player(Protocol):
    """Plays a world."""

    def play(self, action: Action, p: FloatArray | None) -> Outcome:
        """Return the outcome of ``action``, which was drawn from ``p``."""


class World(Protocol):
    """A scenario of known losses (``scenarios``, ``point_worlds``)."""

    @property
    def name(self) -> str:
        """The scenario's name."""

    @property
    def informations(self) -> tuple[Information, ...]:
        """The information models its learners may have."""

    @property
    def slots(self) -> int:
        """T."""

    def head(self, slots: int) -> World:
        """Return the same world, ended after ``slots`` slots."""

    def learner_fields(self) -> dict[str, Any]:
        """Return the learner's fields that the world decides."""

    def session_fields(self) -> dict[str, Any]:
        """Return the session's fields that the losses decide."""

    def player(self) -> Player:
        """Return a player of this world."""

    def best_fixed(self) -> BestFixed:
        """Return the best fixed action in hindsight."""

    def baseline(self) -> Baseline:
        """Return the expected losses of a player who never learns."""


class RateChoice(StrEnum):
    """Which rates the learner gets."""

    AUTO = "auto"
    """Anytime where the learner has them, else the theorem's."""
    ANYTIME = "anytime"
    THEOREM = "theorem"


@dataclass(frozen=True)
class Plan:
    """A session to be played."""

    learner: dict[str, Any]
    """As posted."""
    session: dict[str, Any]
    seed: int
    spec: Spec
    information: Information


def plan_session(
    world: World,
    kind: str,
    rates: RateChoice,
    seed: int,
    options: dict[str, Any],
    late: IntArray | None = None,
) -> Plan:
    """Choose the fields of a session of ``kind`` for ``world``; ``options`` are further learner fields.

    ``late`` are the slots' delays, for learners with ``max_delay`` or ``total_delay``; by default the paper's.

    Raises
    ------
    LoadTestError
        where there is no such learner, it can't play this world, or its fields make no sense.
    """
    if kind not in REGISTRY:
        raise LoadTestError(f"no learner {kind!r}; there are {', '.join(sorted(REGISTRY))}")
    spec_type = REGISTRY[kind]
    base = {"kind": kind} | world.learner_fields()
    _refuse_other_sizes(base, options)
    fields, theorem = base | options, base | _theorem_fields(world, spec_type, late) | options
    if rates is RateChoice.AUTO:
        rates = RateChoice.ANYTIME if _is_valid(spec_type, fields) else RateChoice.THEOREM
    if rates is RateChoice.THEOREM and theorem == fields:
        raise LoadTestError(f"{kind} takes no horizon and no delays: it has no theorem's rates")
    chosen = theorem if rates is RateChoice.THEOREM else fields
    spec = _validated(spec_type, chosen)
    information = spec.build().information
    if information not in world.informations:
        raise LoadTestError(f"{kind} can't play {world.name}")
    return Plan(chosen, world.session_fields(), seed, spec, information)


def _refuse_other_sizes(given: dict[str, Any], options: dict[str, Any]) -> None:
    for name in SIZES & given.keys() & options.keys():
        if options[name] != given[name]:
            raise LoadTestError(f"{name} is {given[name]} in this stream, it can't be {options[name]!r}")


def plays_points(kind: str) -> bool:
    """Whether ``kind`` names a learner over points."""
    return kind in REGISTRY and "dim" in REGISTRY[kind].model_fields


def _theorem_fields(world: World, spec_type: type[Spec], late: IntArray | None) -> dict[str, int]:
    """``horizon`` and what of the stream's delays the learner's theorem needs."""
    late = delays.strict(world.slots) if late is None else late
    stream = {
        "horizon": world.slots,
        "max_delay": int(late.max(initial=0)),
        "total_delay": int(late.sum()),
    }
    return {name: value for name, value in stream.items() if name in spec_type.model_fields}


def _is_valid(spec_type: type[Spec], fields: dict[str, Any]) -> bool:
    try:
        spec_type.model_validate(fields)
    except ValidationError:
        return False
    return True


def _validated(spec_type: type[Spec], fields: dict[str, Any]) -> Spec:
    try:
        return spec_type.model_validate(fields)
    except ValidationError as error:
        texts = [": ".join((*map(str, item["loc"]), item["msg"])) for item in error.errors(include_url=False)]
        raise LoadTestError(f"{fields['kind']}: {'; '.join(texts)}") from error
