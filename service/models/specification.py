"""What a session is created with, as clients post it: its fields, which of them go together, what they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import AfterValidator, Field, model_validator

from ..engine.ledger import ControlParams, Expiry, LossRange, Params
from ..errors import FieldValueError, InvalidRequestError
from ..learners import REGISTRY
from ..learners.base import InitialArm, Posted, Spec
from ..learners.features import Encoder, Features, columns_of
from ..learners.fixed import Probabilities
from ..learners.specs import MAX_COUNT, NOT_IN_LABELS, ArmsSpec, Finite, LabelText, NullIs, Whole, named
from ..store.base import LAST_SECOND as LAST_SECOND
from .events import MAX_GOAL, SegmentsSpec

# -- Options of a session beside its learner, as clients post them.

Word = Literal["loss", "reward"]
TEN_YEARS = 315_360_000
MAX_INITIAL_ACTS = 10**9
MAX_LOG_ENTRIES = 10_000_000
MAX_UPDATE_SECONDS = 31_536_000
MAX_GOALS = 32


class ExpirySpec(Posted):
    """When a decision without feedback expires, and the loss that it is settled at."""

    after_seconds: Annotated[float, Field(ge=0.1, le=TEN_YEARS)]
    """Time from act to expiry. A decision may expire later, by up to 1/64 of this time."""
    default_loss: Annotated[float | None, Field(allow_inf_nan=False)] = None
    """Loss of an expired decision, in the unit of ``loss_range``; null: nothing is learned. Sessions over arms need
    it, or null."""
    default_reward: Annotated[float | None, Field(allow_inf_nan=False)] = None
    """The same in a session with ``reward_range``, in its unit."""
    provisional: bool | None = None
    """Whether every act counts as the default loss at once, and an event within the time corrects it. Default: true
    for ``multiscale_tsallis`` with a default loss, else false."""

    def default(self, word: Word) -> float | None:
        """Return the default that is given by this word."""
        return self.default_loss if word == "loss" else self.default_reward

    def shown(self, word: Word) -> dict[str, Any]:
        """Return the fields as views show them, without the other word, and what only other learners have."""
        hidden = {"default_reward" if word == "loss" else "default_loss"}
        return self.model_dump(exclude=hidden | ({"provisional"} if self.provisional is None else set()))


class InitialArmSpec(Posted):
    """The mean of an arm before the first slot."""

    arm: Annotated[Whole | None, Field(ge=0, le=MAX_COUNT)] = None
    label: LabelText | None = None
    acts: Annotated[Whole, Field(ge=1, le=MAX_INITIAL_ACTS)]
    """Number of acts in the mean."""
    mean_loss: Annotated[float | None, Field(allow_inf_nan=False)] = None
    mean_reward: Annotated[float | None, Field(allow_inf_nan=False)] = None
    """With ``reward_range``."""


class DecisionLogSpec(Posted):
    """A log of every decision and event, kept with the session."""

    max_entries: Annotated[Whole, Field(ge=1, le=MAX_LOG_ENTRIES)]
    """Number of entries that are kept, and at most a hundred more; the oldest are dropped."""
    features: Annotated[bool | None, AfterValidator(lambda given: given or None)] = None
    """Whether entries have the visitor's columns, of acts and as events say them; these may be personal data."""


class UpdatesSpec(Posted):
    """An applied event may come again with a better outcome, and the session learns the difference."""

    within_seconds: Annotated[Whole, Field(ge=1, le=MAX_UPDATE_SECONDS)]
    """Counted from when the event was applied first. Ids of events are kept so long."""


class ControlSpec(Posted):
    """Some acts are of a control group, which the learner knows nothing of, to compare it with."""

    share: Annotated[float, Field(gt=0, le=0.5)]
    """The chance that an act is of the control group."""
    probabilities: Probabilities | None = None
    """From which its arms are drawn, of every arm, by label or in the order of the arms; they sum to 1. Null: all
    alike."""


class GuardSpec(Posted):
    """When the session stops by itself."""

    tolerance: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    """By how much the learner may be worse than the control group, in the unit that is posted: once it is worse by
    more for sure, all acts are of the control group. Null: it goes on."""
    silence: Annotated[bool, NullIs(True)] = True
    """Whether nothing is learned of missing events while no event comes at all."""


def _are_goals(goals: dict[str, float]) -> dict[str, float]:
    for name in goals:
        if not 0 < len(name) <= MAX_GOAL or not NOT_IN_LABELS.isdisjoint(name):
            raise ValueError(f"a goal has 1 to {MAX_GOAL} characters that labels may have: {named(name)}")
    # Counts stand in this order, and an export does not keep that of names.
    return dict(sorted(goals.items(), key=lambda goal: (goal[1], goal[0])))


_NAMED = "Names of 1 to 64 characters, and the loss, or reward, that each stands for."
Goals = Annotated[
    dict[str, Finite], Field(min_length=1, max_length=MAX_GOALS, description=_NAMED), AfterValidator(_are_goals)
]
_IDLE = "The session is deleted after this time without act or feedback."
IdleTtl = Annotated[float, Field(ge=0.001, le=TEN_YEARS, description=_IDLE)]
_UNIFORM = (
    "Share of the draws that is uniform over the arms that may be drawn. Only some learners over arms accept a "
    "floor above 0."
)
Floor = Annotated[float, Field(ge=0, lt=1, description=_UNIFORM)]


# -- The fields of a session, as clients post them, and what follows from them.

if TYPE_CHECKING:
    LearnerSpec = Spec
else:
    LearnerSpec = Annotated[Union[tuple(REGISTRY.values())], Field(discriminator="kind")]  # noqa: UP007

SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
is_id = re.compile(SESSION_ID_PATTERN).fullmatch
"""Match what can be the id of a session."""


_SHOWN = {"decision_log", "updates", "goals", "tokens", "control", "guard", "features"}
"""Options that views show if they are given, in the order of the fields."""


class Specification(Posted):
    """A session's learner and how its losses are read."""

    learner: LearnerSpec
    loss_range: Annotated[list[Finite], Field(min_length=2, max_length=2), NullIs([0.0, 1.0])] = [0.0, 1.0]
    """Best and worst loss of an arm: two different numbers, in either order. Learners over points accept any finite
    losses and ignore it."""
    reward_range: Annotated[list[Finite] | None, Field(min_length=2, max_length=2)] = None
    """Worst and best reward of an arm, instead of ``loss_range``: events then carry ``reward``."""
    normalize_losses: Annotated[bool, NullIs(True)] = True
    """Learn from (loss - best)/(worst - best) of an arm; false: from the loss as it is."""
    seed: Annotated[Whole | None, Field(ge=0, lt=2**63)] = None
    """Seed of the draws. Keep it secret; without one the service draws 128 random bits."""
    idle_ttl_seconds: IdleTtl | None = None
    expiry: ExpirySpec | None = None
    """Settles decisions without feedback after a time; null: they stay outstanding."""
    floor: Annotated[Floor, NullIs(0.0)] = 0.0
    initial: Annotated[list[InitialArmSpec] | None, Field(min_length=1, fail_fast=True)] = None
    """Means of arms to begin with, for the Tsallis learners. The counts of the view do not include them."""
    decision_log: DecisionLogSpec | None = None
    """Keeps a log of decisions and events; null: none is kept."""
    segments: SegmentsSpec | None = None
    """Acts and events name segments, for ``multiscale_tsallis`` and ``centred_tsallis``."""
    updates: UpdatesSpec | None = None
    """Events can be improved, for ``multiscale_tsallis``, ``centred_tsallis`` and ``fixed``."""
    goals: Goals | None = None
    """What events may name in place of a loss or reward, for learners over arms."""
    tokens: Annotated[bool, NullIs(False)] = False
    """Whether each action has a ``token``, by which browsers report clicks themselves. For learners over arms."""
    control: ControlSpec | None = None
    """Draws some acts without the learner, and compares. For the same learners as ``eligible``."""
    guard: GuardSpec | None = None
    """When the session stops by itself, for learners over arms."""
    features: Features | None = None
    """What acts may say of the visitor, for ``multiscale_tsallis``; actions have tokens then."""

    @model_validator(mode="after")
    def _fields_go_together(self) -> Specification:
        initial_means_fit(self)
        segments_fit(self)
        ranges_fit(self)
        defaults_fit(self)
        updates_and_goals_fit(self)
        features_fit(self)
        return self

    @property
    def may_be_provisional(self) -> bool:
        """Whether the session has a default loss that its learner can take as provisional."""
        return self.default_loss is not None and self.learner.takes_provisional

    @property
    def word(self) -> Word:
        """Whether clients post losses or rewards."""
        return "loss" if self.reward_range is None else "reward"

    @property
    def losses(self) -> LossRange:
        """How losses, or rewards, are read."""
        best, worst = self.loss_range if self.reward_range is None else reversed(self.reward_range)
        return LossRange(best, worst, self.normalize_losses, self.word)

    @property
    def default_loss(self) -> float | None:
        """The loss or reward of expired decisions as posted; None where they teach nothing, or never expire."""
        return None if self.expiry is None else self.expiry.default(self.word)

    @property
    def idle_ttl_ms(self) -> int | None:
        """The idle time to live in milliseconds, the store's unit."""
        return None if self.idle_ttl_seconds is None else max(1, round(self.idle_ttl_seconds * 1000))

    def expires_at(self, used_at: float) -> float | None:
        """Return the idle deadline after a use at ``used_at``, in Unix seconds; None without one."""
        return None if self.idle_ttl_ms is None else min(used_at + self.idle_ttl_ms / 1000, LAST_SECOND)

    def decided(self) -> Specification:
        """Return the same, with ``provisional`` true or false where a default may be provisional, else None.

        With features it has tokens.
        """
        if self.features is not None and not self.tokens:
            return self.model_copy(update={"tokens": True}).decided()
        if self.expiry is None:
            return self
        provisional = self.expiry.provisional is not False if self.may_be_provisional else None
        expiry = self.expiry.model_copy(update={"provisional": provisional})
        return self.model_copy(update={"expiry": expiry})

    def chosen(self) -> dict[str, Any]:
        """Return the fields beside learner and seed by name, as views show them."""
        return {
            f"{self.word}_range": self.reward_range or self.loss_range,
            "normalize_losses": self.normalize_losses,
            "idle_ttl_seconds": self.idle_ttl_seconds,
            "expiry": self.told["expiry"],
            "floor": self.floor,
            **self.model_dump(include=_SHOWN if self.tokens else _SHOWN - {"tokens"}, exclude_none=True),
            **({} if self.features is None else {"columns": columns_of(self.features)}),
        }

    @property
    def told(self) -> dict[str, Any]:
        """What a decision log says of the session: how its events are read."""
        expiry = None if self.expiry is None else self.expiry.shown(self.word)
        return {"expiry": expiry, f"{self.word}_range": self.reward_range or self.loss_range}

    def params(self, seed: int) -> Params:
        """Return what a run is started with."""
        expiry, loss = None, self.default_loss
        if self.expiry is not None:
            learned = None if loss is None else self.losses.learned(loss)
            is_provisional = self.may_be_provisional and bool(self.expiry.provisional)
            expiry = Expiry(self.expiry.after_seconds, learned, is_provisional)
        most = 0 if self.segments is None else self.segments.max
        kept = remember_seconds(self, tokens=self.tokens)
        options = (self.losses, expiry, self.floor, initial_arms(self), most, kept)
        within = 0 if self.updates is None else self.updates.within_seconds
        control = None if self.control is None else ControlParams(self.control.share, self.control.probabilities)
        hears = loss is not None and (self.guard is None or self.guard.silence)
        encoder = None if self.features is None else Encoder(self.features)
        return Params(self.learner, seed, *options, within, self.goals or {}, control, hears, encoder)


TOKEN_SECONDS = 30 * 24 * 3600
"""How long a token is good in a session without a window."""


def remember_seconds(session: Specification, *, tokens: bool = False) -> float:
    """Return for how many seconds ids of events are kept at least; 0: for the dedupe window of the service.

    They are kept while an event may still be improved, and with ``tokens`` as long as a token is good.
    """
    life = token_seconds(session) if tokens else 0
    return max(life, 0 if session.updates is None else session.updates.within_seconds)


def token_seconds(session: Specification) -> float:
    """Return for how long a token is good: until the window of its decision ends."""
    return TOKEN_SECONDS if session.expiry is None else session.expiry.after_seconds


# -- Which fields of a session go together: each check raises ValueError where they do not.


def _refuse(field: str, message: str, *, wrong: bool) -> None:
    if wrong:
        raise FieldValueError(field, message)


def initial_means_fit(session: Specification) -> None:
    """Check means of arms to begin with."""
    if session.initial is None:
        return
    refusal = f"not with {session.learner.kind}; only the Tsallis learners take it"
    _refuse("initial", refusal, wrong=not session.learner.takes_initial)
    _refuse("initial", "needs normalize_losses", wrong=not session.normalize_losses)
    arms = initial_arms(session)
    _refuse("initial", "each arm once", wrong=len({arm.position for arm in arms}) != len(arms))
    most = f"at most {MAX_INITIAL_ACTS} acts in all"
    _refuse("initial", most, wrong=sum(arm.acts for arm in arms) > MAX_INITIAL_ACTS)


def initial_arms(session: Specification) -> Sequence[InitialArm]:
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


def _initial_arm(session: Specification, entry: InitialArmSpec, labels: Mapping[str, int]) -> InitialArm:
    if (entry.arm is None) == (entry.label is None):
        raise FieldValueError("arm" if entry.arm is None else "label", "give either arm or label")
    place = entry.arm if entry.label is None else labels.get(entry.label)
    if place is None or not isinstance(session.learner, ArmsSpec) or place >= session.learner.arm_count:
        raise FieldValueError("arm" if entry.label is None else "label", "there is no such arm")
    means = {"loss": entry.mean_loss, "reward": entry.mean_reward}
    if (mean := means.pop(session.word)) is None or any(other is not None for other in means.values()):
        text = f"give mean_{session.word}, as the session has {session.word}_range{_for_rewards(session)}"
        raise FieldValueError(f"mean_{session.word}", text)
    return InitialArm(place, entry.acts, session.losses.learned(mean))


def _for_rewards(session: Specification) -> str:
    """Say how a session of losses would be one of rewards."""
    return "; for rewards give reward_range" if session.word == "loss" else ""


def segments_fit(session: Specification) -> None:
    """Check that the learner takes segments, with the default that it has."""
    if session.segments is None:
        return
    if not session.learner.takes_segments:
        text = f"segments: not with {session.learner.kind}; only multiscale_tsallis and centred_tsallis take them"
        raise ValueError(text)
    waits = session.expiry is not None and session.expiry.provisional is False
    if session.default_loss is not None and (waits or not session.may_be_provisional):
        text = "with segments it must be null, or provisional with multiscale_tsallis"
        raise ValueError(f"expiry.default_{session.word}: {text}")


def ranges_fit(session: Specification) -> None:
    """Check that log and tokens are of arms, and the range of losses or of rewards, with what comes with these."""
    is_of_points, has_rewards = not isinstance(session.learner, ArmsSpec), session.reward_range is not None
    best, worst, name = session.losses.best, session.losses.worst, f"{session.word}_range"
    of_arms, is_raw = "for learners over arms", not session.normalize_losses
    for field, verb in (("control", "is"), ("decision_log", "is"), ("tokens", "are"), ("guard", "is")):
        _refuse(field, f"{field} {verb} {of_arms}", wrong=is_of_points and bool(getattr(session, field)))
    has_tolerance = session.guard is not None and session.guard.tolerance is not None
    _refuse("guard.tolerance", "needs control", wrong=has_tolerance and session.control is None)
    _refuse(name, f"{name} needs two different numbers", wrong=best == worst)
    _refuse(name, f"{name} is too wide", wrong=not abs(worst - best) < float("inf"))
    _refuse(name, f"{name} is {of_arms}", wrong=is_of_points and has_rewards)
    _refuse("normalize_losses", "reward_range needs normalize_losses", wrong=has_rewards and is_raw)


def updates_and_goals_fit(session: Specification) -> None:
    """Check that the learner can replace a loss, and that goals are losses, or rewards, of the session."""
    if session.updates is not None and not session.learner.takes_updates:
        takers = " and ".join(kind for kind, spec in REGISTRY.items() if spec.takes_updates)
        raise FieldValueError("updates", f"not with {session.learner.kind}; only {takers} take them")
    if session.goals is None:
        return
    _refuse("goals", "goals are for learners over arms", wrong=not isinstance(session.learner, ArmsSpec))
    for name, value in session.goals.items():
        try:
            session.losses.learned(value)
        except ValueError as error:
            raise FieldValueError("goals", f"{named(name)}: {error}") from error
    are_same = len(session.goals) > 1 and len(set(session.goals.values())) == 1
    _refuse("goals", "at least two goals must have different values", wrong=are_same)


def check_default_is_given(session: Specification, expiry: ExpirySpec | None) -> None:
    """Refuse an expiry of a session over arms that says nothing of its default: none has to be chosen."""
    name = f"default_{session.word}"
    if expiry is None or name in expiry.model_fields_set or not isinstance(session.learner, ArmsSpec):
        return
    if expiry.default_loss is None and expiry.default_reward is None:  # That of the other word is refused as such.
        text = f"give the {session.word} that no event within the window stands for, or null: nothing is learned"
        raise InvalidRequestError.of(f"expiry.{name}", text)


def features_fit(session: Specification) -> None:
    """Check that the learner takes features, with a default that is learned at the act; there are tokens."""
    if session.features is None:
        is_logged = session.decision_log is not None and session.decision_log.features is not None
        _refuse("decision_log.features", "needs a session with features", wrong=is_logged)
        return
    learner, expiry, has_none = session.learner, session.expiry, "tokens" in session.model_fields_set
    text = f"not with {learner.kind}; only multiscale_tsallis takes them"
    _refuse("features", text, wrong=not learner.takes_features)
    _refuse("features", "not with segments: a group is a category", wrong=session.segments is not None)
    _refuse("normalize_losses", "features need normalize_losses", wrong=not session.normalize_losses)
    waits = session.default_loss is not None and expiry is not None and expiry.provisional is False
    _refuse("expiry.provisional", "with features a default must be null or provisional", wrong=waits)
    _refuse("tokens", "with features actions have tokens", wrong=has_none and not session.tokens)


def defaults_fit(session: Specification) -> None:
    """Check that a default is a loss, or reward, of the session, and that its learner takes a provisional one."""
    if session.expiry is None:
        return
    other: Word = "reward" if session.word == "loss" else "loss"
    message = f"a session with {session.word}_range takes default_{session.word}{_for_rewards(session)}"
    _refuse(f"expiry.default_{other}", message, wrong=session.expiry.default(other) is not None)
    if session.default_loss is not None:
        is_of_points = not isinstance(session.learner, ArmsSpec)
        _refuse("expiry.default_loss", "must be null for learners over points", wrong=is_of_points)
        try:
            session.losses.learned(session.default_loss)
        except ValueError as error:
            raise FieldValueError(f"expiry.default_{session.word}", str(error)) from error
    if session.expiry.provisional and not session.may_be_provisional:
        message = "a default_loss that is null cannot be provisional"
        if session.default_loss is not None:
            message = f"not with {session.learner.kind}; only multiscale_tsallis takes it"
        raise FieldValueError("expiry.provisional", message)
