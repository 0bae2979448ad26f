"""Which fields of a session go together: each check raises ValueError where they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...errors import FieldValueError
from ...learners.base import InitialArm
from ...learners.specs import ArmsSpec
from ..options import MAX_INITIAL_ACTS, InitialArmSpec, Word
from .fields import SessionFields


def initial_means_fit(session: SessionFields) -> None:
    """Check means of arms to begin with."""
    if session.initial is None:
        return
    if not session.learner.takes_initial:
        raise FieldValueError("initial", f"not with {session.learner.kind}; only the Tsallis learners take it")
    if not session.normalize_losses:
        raise FieldValueError("initial", "needs normalize_losses")
    arms = initial_arms(session)
    if len({arm.position for arm in arms}) != len(arms):
        raise FieldValueError("initial", "each arm once")
    if sum(arm.acts for arm in arms) > MAX_INITIAL_ACTS:
        raise FieldValueError("initial", f"at most {MAX_INITIAL_ACTS} acts in all")


def initial_arms(session: SessionFields) -> Sequence[InitialArm]:
    """Read what the learner begins with.

    Raises
    ------
    ValueError
        naming the entry of ``initial`` that does not fit.
    """
    if session.initial is None:
        return []
    labels = {label: place for place, label in enumerate(getattr(session.learner, "arms", None) or ())}
    found = []
    for number, entry in enumerate(session.initial):
        try:
            found.append(_initial_arm(session, entry, labels))
        except ValueError as error:
            field = f".{error.field}" if isinstance(error, FieldValueError) else ""
            raise FieldValueError(f"initial.{number}{field}", str(error)) from error
    return found


def _initial_arm(session: SessionFields, entry: InitialArmSpec, labels: Mapping[str, int]) -> InitialArm:
    if (entry.arm is None) == (entry.label is None):
        raise FieldValueError("arm" if entry.arm is None else "label", "give either arm or label")
    place = entry.arm if entry.label is None else labels.get(entry.label)
    if place is None or not isinstance(session.learner, ArmsSpec) or place >= session.learner.arm_count:
        raise FieldValueError("arm" if entry.label is None else "label", "there is no such arm")
    means = {"loss": entry.mean_loss, "reward": entry.mean_reward}
    mean = means.pop(session.word)
    if mean is None or any(other is not None for other in means.values()):
        raise FieldValueError(
            f"mean_{session.word}",
            f"give mean_{session.word}, as the session has {session.word}_range{_for_rewards(session)}",
        )
    return InitialArm(place, entry.acts, session.losses.learned(mean))


def _for_rewards(session: SessionFields) -> str:
    """Say how a session of losses would be one of rewards."""
    return "; for rewards give reward_range" if session.word == "loss" else ""


def segments_fit(session: SessionFields) -> None:
    """Check that the learner takes segments, with the default that it has."""
    if session.segments is None:
        return
    if not session.learner.takes_segments:
        raise ValueError(
            f"segments: not with {session.learner.kind}; only multiscale_tsallis and centred_tsallis take them"
        )
    waits = session.expiry is not None and session.expiry.provisional is False
    if session.default_loss is not None and (waits or not session.may_be_provisional):
        raise ValueError(
            f"expiry.default_{session.word}: with segments it must be null, or provisional with multiscale_tsallis"
        )


def log_is_of_arms(session: SessionFields) -> None:
    """Check that a decision log is of arms."""
    if session.decision_log is not None and not isinstance(session.learner, ArmsSpec):
        raise FieldValueError("decision_log", "decision_log is for learners over arms")


def range_has_two_ends(session: SessionFields) -> None:
    """Check the range of losses or rewards."""
    best, worst, name = session.losses.best, session.losses.worst, f"{session.word}_range"
    if best == worst:
        raise FieldValueError(name, f"{name} needs two different numbers")
    if not abs(worst - best) < float("inf"):
        raise FieldValueError(name, f"{name} is too wide")


def rewards_are_normalised_and_of_arms(session: SessionFields) -> None:
    """Check what comes with rewards."""
    if session.reward_range is None:
        return
    if not isinstance(session.learner, ArmsSpec):
        raise FieldValueError("reward_range", "reward_range is for learners over arms")
    if not session.normalize_losses:
        raise FieldValueError("normalize_losses", "reward_range needs normalize_losses")


def default_is_one(session: SessionFields) -> None:
    """Check that a default is a loss, or reward, of the session."""
    if session.expiry is None:
        return
    other: Word = "reward" if session.word == "loss" else "loss"
    if session.expiry.default(other) is not None:
        message = f"a session with {session.word}_range takes default_{session.word}{_for_rewards(session)}"
        raise FieldValueError(f"expiry.default_{other}", message)
    if session.default_loss is None:
        return
    if not isinstance(session.learner, ArmsSpec):
        raise FieldValueError("expiry.default_loss", "must be null for learners over points")
    try:
        session.losses.learned(session.default_loss)
    except ValueError as error:
        raise FieldValueError(f"expiry.default_{session.word}", str(error)) from error


def provisional_default_has_its_learner(session: SessionFields) -> None:
    """Check that the learner takes a provisional default."""
    if session.expiry is None or not session.expiry.provisional or session.may_be_provisional:
        return
    if session.default_loss is None:
        raise FieldValueError("expiry.provisional", "a default_loss that is null cannot be provisional")
    raise FieldValueError(
        "expiry.provisional", f"not with {session.learner.kind}; only multiscale_tsallis takes it"
    )


CHECKS: tuple[Callable[[SessionFields], None], ...] = (
    initial_means_fit,
    segments_fit,
    log_is_of_arms,
    range_has_two_ends,
    rewards_are_normalised_and_of_arms,
    default_is_one,
    provisional_default_has_its_learner,
)
"""In the order in which errors are reported."""
