"""What session a replay asks for: the learner's fields, their rates, and what its events must say."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from loadtest.errors import LoadTestError
from loadtest.replay.worlds import NO_CLICK, World, log_normal_delays, strict_delays
from service.engine.act_times import PER_WINDOW
from service.learners import REGISTRY
from service.learners.base import FloatArray, Information, IntArray, Spec

IDLE_TTL_SECONDS = 86_400
"""A replay's session can be looked at for a day and then goes by itself."""

SIZES = {"n_arms", "dim"}
"""Fields of a learner that the stream decides."""


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
    world: World, kind: str, rates: RateChoice, seed: int, options: dict[str, Any], late: IntArray | None = None
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
    for name in SIZES & base.keys() & options.keys():
        if options[name] != base[name]:
            raise LoadTestError(f"{name} is {base[name]} in this stream, it can't be {options[name]!r}")
    late = strict_delays(world.slots) if late is None else late
    stream = {"horizon": world.slots, "max_delay": int(late.max(initial=0)), "total_delay": int(late.sum())}
    theorem = base | {name: value for name, value in stream.items() if name in spec_type.model_fields} | options
    chosen = theorem if rates is RateChoice.THEOREM else base | options
    if rates is RateChoice.THEOREM and theorem == base | options:
        raise LoadTestError(f"{kind} takes no horizon and no delays: it has no theorem's rates")
    try:
        spec = _validated(spec_type, chosen)
    except LoadTestError:
        if rates is not RateChoice.AUTO or theorem == chosen:
            raise
        chosen = theorem
        spec = _validated(spec_type, chosen)
    information = spec.build().information
    if information not in world.informations:
        raise LoadTestError(f"{kind} can't play {world.name}")
    return Plan(chosen, world.session_fields(), seed, spec, information)


def plays_points(kind: str) -> bool:
    """Whether ``kind`` names a learner over points."""
    return kind in REGISTRY and "dim" in REGISTRY[kind].model_fields


def _validated(spec_type: type[Spec], fields: dict[str, Any]) -> Spec:
    try:
        return spec_type.model_validate(fields)
    except ValidationError as error:
        texts = [": ".join((*map(str, item["loc"]), item["msg"])) for item in error.errors(include_url=False)]
        raise LoadTestError(f"{fields['kind']}: {'; '.join(texts)}") from error


SLACK = 1 + 1 / PER_WINDOW
"""A decision is given up at most this many windows after it was taken."""


class ClickStream(NamedTuple):
    """The times of a stream of impressions."""

    window: float = 600.0
    """Seconds after which an impression without a click is taken for one that has none."""
    interval: float = 2.0
    """Seconds between impressions."""
    delay_median: float = 30.0
    delay_sigma: float = 1.5
    """Of the delay's logarithm: with 1.5 one click in 44 comes after 20 medians."""
    delay_seed: int = 0
    speed: float = 1.0
    """Everything happens this many times as fast, the session's window included."""

    @property
    def after_seconds(self) -> float:
        """The session's ``after_seconds``: the window at this speed."""
        return self.window / self.speed

    @property
    def slots_per_second(self) -> float:
        """Impressions a second."""
        return self.speed / self.interval

    def session_fields(self) -> dict[str, Any]:
        """Return the session's expiry: an impression without a click within the window counts as no click."""
        return {"expiry": {"after_seconds": self.after_seconds, "default_loss": NO_CLICK}}

    def click_delays(self, slots: int) -> FloatArray:
        """Seconds from each slot's impression to its click, as played."""
        seconds = log_normal_delays(slots, self.delay_median, self.delay_sigma, self.delay_seed)
        return seconds / self.speed

    def settled_after(self, slots: int) -> IntArray:
        """Return a bound on each slot's delay in slots, for learners that need one: the window."""
        window = math.ceil(SLACK * self.window / self.interval)
        return np.minimum(window, np.arange(slots - 1, -1, -1))


def plan_clicks(
    world: World, stream: ClickStream, kind: str, rates: RateChoice, seed: int, options: dict[str, Any]
) -> Plan:
    """Choose the fields of a session that learns from clicks alone: ``plan_session``, with the stream's window."""
    plan = plan_session(world, kind, rates, seed, options, stream.settled_after(world.slots))
    return replace(plan, session=plan.session | stream.session_fields())
