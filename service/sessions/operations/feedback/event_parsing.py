"""Events read as the run of a session takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....engine.arm_run import ArmRun
from ....engine.ledger import ArmFeedback, PointFeedback
from ....engine.run import PointRun, SlotRun
from ....errors import InvalidRequestError
from ....learners.base import Information
from ....learners.specs import MAX_NAMED
from ....models.events import Event, GradientEvent, LossesEvent, OneArmEvent
from ..eligible import check_segments

Parser = Callable[[Event, Any], Any]
"""Makes feedback for a run of an event; the kinds of both depend on the learner's information.

It raises ``InvalidRequestError`` where the event does not fit.
"""


_OTHER_WORD = {
    "loss": "this session takes rewards: post reward, or create a session with loss_range",
    "reward": "this session takes losses: post loss, or create a session with reward_range",
}


def _arm_feedback(event: Event, run: ArmRun) -> ArmFeedback:
    losses = run.params.losses
    if not isinstance(event, OneArmEvent):
        raise InvalidRequestError.of(losses.word, f"this session's learner takes one {losses.word} of one arm")
    if event.word != losses.word:
        raise InvalidRequestError.of(event.word, _OTHER_WORD[event.word])
    if event.segment is not None:
        check_segments(run)
    arm, segment = _arm(event, run), event.segment or ""
    if event.value is None:
        return ArmFeedback(arm, 0.0, event.slot, is_void=True, segment=segment)
    try:
        loss = losses.learned(event.value)
    except ValueError as error:
        raise InvalidRequestError.of(event.word, str(error)) from error
    return ArmFeedback(arm, loss, event.slot, segment=segment)


def _slot_feedback(event: Event, run: SlotRun) -> ArmFeedback:
    feedback = _arm_feedback(event, run)
    if isinstance(event, OneArmEvent) and event.slot is None:
        raise InvalidRequestError.of("slot", "this learner needs the slot that was acted; dexp3 does not")
    try:
        run.check_slot(feedback)
    except ValueError as error:
        raise InvalidRequestError.of("slot", str(error)) from error
    return feedback


def _arm(event: OneArmEvent, run: ArmRun) -> int:
    labels, n_arms = run.arms.labels, run.arms.size
    if event.label is not None:
        if event.arm is not None:
            raise InvalidRequestError.of("label", "give either arm or label")
        if labels is None:
            raise InvalidRequestError.of("label", "this session's arms have no labels")
        if (arm := labels.get(event.label)) is None:
            raise _unknown_label(event.label)
        return arm
    if event.arm is None or event.arm >= n_arms:
        otherwise = "" if labels is None else ", or use label"
        raise InvalidRequestError.of("arm", f"must be the index of an arm, 0 to {n_arms - 1}{otherwise}")
    return event.arm


def _unknown_label(label: str) -> InvalidRequestError:
    text = "the session has no arm with this label (GET /v1/sessions/{session_id}/arms lists them)"
    return InvalidRequestError.of("label", f"{text}: {label[:MAX_NAMED]!a}", logged_message=text)


def _losses_feedback(event: Event, run: PointRun) -> PointFeedback:
    dim = run.learner.dim
    if not isinstance(event, LossesEvent):
        raise InvalidRequestError.of("losses", f"this session's learner takes {dim + 1} losses of one slot")
    return _values("losses", event.losses, dim + 1)


def _gradient_feedback(event: Event, run: PointRun) -> PointFeedback:
    dim = run.learner.dim
    if not isinstance(event, GradientEvent):
        raise InvalidRequestError.of("gradient", f"this session's learner takes a gradient of length {dim}")
    return _values("gradient", event.gradient, dim)


def _values(name: str, values: Sequence[float] | None, length: int) -> PointFeedback:
    if values is None:
        return PointFeedback(np.empty(0), is_void=True)
    if len(values) != length:
        raise InvalidRequestError.of(name, f"must have {length} numbers, has {len(values)}")
    return PointFeedback(np.asarray(values, dtype=np.float64))


PARSERS: dict[Information, Parser] = {
    Information.ARM: _arm_feedback,
    Information.SLOT: _slot_feedback,
    Information.LOSSES: _losses_feedback,
    Information.GRADIENT: _gradient_feedback,
}
"""By what the learner learns from."""
