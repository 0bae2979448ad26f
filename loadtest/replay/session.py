"""What session a replay asks for, and what drives it, over HTTP or in process: the same calls, the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from loadtest.client import CallLog, Client
from loadtest.errors import LoadTestError, ServiceError
from loadtest.replay.worlds import NO_CLICK, World, log_normal_delays, strict_delays
from service.engine.ledger import (
    PER_WINDOW,
    Action,
    ArmAction,
    ArmFeedback,
    Expiry,
    LossRange,
    Params,
    PointAction,
    PointFeedback,
)
from service.engine.run import Run, expire_oldest, start_run
from service.learners import REGISTRY
from service.learners.base import ArmLearner, FloatArray, Information, IntArray, Spec

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
    world: World, kind: str, rates: RateChoice, seed: int, options: dict[str, Any], times: ClickStream | None = None
) -> Plan:
    """Choose the fields of a session of ``kind`` for ``world``; ``options`` are further learner fields.

    A session that learns from clicks alone has the window of ``times``, and learners with ``max_delay`` or
    ``total_delay`` are told the window too; the others have the paper's delays.

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
    late = strict_delays(world.slots) if times is None else times.settled_after(world.slots)
    told = {"horizon": world.slots, "max_delay": int(late.max(initial=0)), "total_delay": int(late.sum())}
    theorem = base | {name: value for name, value in told.items() if name in spec_type.model_fields} | options
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
    session = world.session_fields() | ({} if times is None else times.session_fields())
    return Plan(chosen, session, seed, spec, information)


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


class SimulatedTime:
    """A clock that advances only by ``sleep``, in seconds."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def now(self) -> float:
        """Return the time in seconds."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += seconds


def pass_time(run: Run, now: float) -> None:
    """Advance a run to ``now``, in seconds, and settle the decisions that have expired."""
    run.advance(now)
    while run.due:
        for _ in expire_oldest(run):
            pass


class Event(NamedTuple):
    """One slot's feedback on its way."""

    slot: int
    arm: int | None
    posted: Any


class Receipt(NamedTuple):
    """How many events of a call are in the state, and how many of them were there before."""

    acknowledged: int
    duplicates: int
    surplus: int = 0
    """Events no outstanding decision can have caused, skipped: late clicks of decisions given up."""


class Counts(NamedTuple):
    """The session's own counts."""

    slot: int
    feedbacks: int
    outstanding: int
    expired: int = 0


class HttpDriver:
    """Drives a session of the service: one client, one call at a time.

    Every event carries an ``event_id`` and every act an ``Idempotency-Key``, so that a call may be
    made again after a lost answer without counting twice.
    """

    def __init__(self, client: Client, plan: Plan, session_id: str) -> None:
        self.log, self._client, self._information = client.log, client, plan.information
        self._session_id, self._path = session_id, f"/v1/sessions/{session_id}"
        request = {"session_id": session_id, "learner": plan.learner, "seed": plan.seed, **plan.session}
        client.call("create", "POST", "/v1/sessions", request | {"idle_ttl_seconds": IDLE_TTL_SECONDS})

    def act(self) -> Action:
        """Open the next slot."""
        # The key need only differ from act to act: its scope is this session's route.
        key = f"act-{len(self.log.seconds['act']) + 1}"
        answer = self._client.call("act", "POST", f"{self._path}/act", key=key)
        with _understood("act"):
            if "arm" in answer:
                return ArmAction(answer["slot"], answer["arm"], answer["probability"])
            points = answer.get("query_points")
            query_points = None if points is None else np.array(points, dtype=float)
            return PointAction(answer["slot"], np.array(answer["x"], dtype=float), query_points)

    def look(self, slot: int) -> FloatArray | None:
        """p_t of the open slot ``slot``; None for points."""
        if self._information not in (Information.ARM, Information.SLOT):
            return None
        view = self._view()
        with _understood("view"):
            if view["slot"] != slot:
                raise ServiceError(
                    f"slot {slot} is open, but the session shows {view['slot']}: is someone else in it?"
                )
            return np.array(view["probabilities"], dtype=float)

    def deliver(self, events: Sequence[Event]) -> Receipt:
        """Hand over feedback, in this order."""
        body = {"events": [self._body(event) for event in events]}
        answer = self._client.call("feedbacks", "POST", f"{self._path}/feedbacks", body)
        with _understood("feedbacks"):
            known = answer["applied"] + answer["duplicates"]
            receipt = Receipt(known, answer["duplicates"], answer.get("surplus", 0))
        if receipt.acknowledged + receipt.surplus != len(events):
            raise ServiceError(f"{len(events)} events sent, {receipt.acknowledged} acknowledged")
        return receipt

    def counts(self) -> Counts:
        """Return what the session has counted."""
        view = self._view()
        with _understood("view"):
            return Counts(*(int(view[name]) for name in Counts._fields))

    def describe(self) -> dict[str, Any]:
        """How the session was driven, and its learner's parameters as resolved."""
        return {"driver": "http", "session_id": self._session_id, "parameters": self._view().get("learner")}

    def _view(self) -> Any:
        return self._client.call("view", "GET", self._path)

    def _body(self, event: Event) -> dict[str, Any]:
        body = {"event_id": f"slot-{event.slot}"}
        if event.arm is None:
            return body | {self._information.value: event.posted.tolist()}
        slot = {"slot": event.slot} if self._information is Information.SLOT else {}
        return body | slot | {"arm": event.arm, "loss": event.posted}


@contextmanager
def _understood(call: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServiceError(f"{call}: the service's answer is not understood ({error!r})") from error


class InProcessDriver:
    """Drives the same arithmetic without the service, by the same calls.

    Parameters
    ----------
    plan : the session
    clock : the time in seconds, for sessions whose decisions expire
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.log, self._spec, self._clock = CallLog(), plan.spec, clock
        self._knows_slots = plan.information is Information.SLOT
        best, worst = plan.session.get("loss_range", (0.0, 1.0))
        self._range = LossRange(best, worst, plan.session.get("normalize_losses", True))
        self._expiry: Expiry | None = None
        if fields := plan.session.get("expiry"):
            default = fields["default_loss"]
            is_provisional = plan.spec.takes_provisional and fields.get("provisional") is not False
            learned = (None,) if default is None else (self._range.learned(default), is_provisional)
            self._expiry = Expiry(fields["after_seconds"], *learned)
        self._run = start_run(Params(plan.spec, plan.seed, self._range, self._expiry))

    def act(self) -> Action:
        with self.log.timed("act"):
            pass_time(self._run, self._clock())
            return self._run.act()

    def look(self, slot: int) -> FloatArray | None:  # noqa: ARG002 - nobody else can be in this session
        if not isinstance(self._run.learner, ArmLearner):
            return None
        with self.log.timed("view"):
            return self._run.probabilities

    def deliver(self, events: Sequence[Event]) -> Receipt:
        with self.log.timed("feedbacks"):
            pass_time(self._run, self._clock())
            feedbacks = [self._feedback(event) for event in events]
            surplus = set(self._run.surplus(feedbacks))
            if surplus and self._expiry is None:
                raise LoadTestError("an event answers no outstanding decision")
            for index, feedback in enumerate(feedbacks):
                if index not in surplus:
                    self._run.settle(feedback)
        return Receipt(len(events) - len(surplus), 0, len(surplus))

    def counts(self) -> Counts:
        pass_time(self._run, self._clock())
        ledger = self._run.ledger
        return Counts(ledger.slot, ledger.feedbacks, ledger.outstanding, ledger.expired)

    def describe(self) -> dict[str, Any]:
        parameters = self._spec.model_dump(mode="json") | self._run.learner.rates(self._run.state)
        return {"driver": "in_process", "session_id": None, "parameters": parameters}

    def _feedback(self, event: Event) -> Any:
        """Make of an event what a run of the plan's learner takes."""
        if event.arm is None:
            return PointFeedback(np.asarray(event.posted))
        slot = event.slot if self._knows_slots else None
        return ArmFeedback(event.arm, self._range.learned(event.posted), slot)


Driver = HttpDriver | InProcessDriver
