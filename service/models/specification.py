"""What a session is created with, as clients post it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Field, model_validator

from ..engine.loss_range import LossRange
from ..engine.params import Expiry, Params
from ..errors import FieldValueError
from ..learners import REGISTRY
from ..learners.base import Spec
from ..learners.posted import Posted
from ..learners.specs import ArmsSpec, Finite, NullIs, Whole
from ..learners.warm_start import InitialArm
from .options import MAX_INITIAL_ACTS, DecisionLogSpec, ExpirySpec, Floor, IdleTtl, InitialArmSpec, Word
from .segment import SegmentsSpec

if TYPE_CHECKING:
    LearnerSpec = Spec
else:
    LearnerSpec = Annotated[Union[tuple(REGISTRY.values())], Field(discriminator="kind")]  # noqa: UP007

SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
FIELDS_OF_0_1 = {"learner", "loss_range", "normalize_losses", "seed", "idle_ttl_seconds", "expiry"}
KINDS_OF_0_1 = {"dexp3", "dbgd", "centred_tsallis", "exp3", "exp3_current", "bold", "clw", "ogd", "solid"}
KINDS_OF_0_1 |= {"mbco", "clw_mbco"}


class Specification(Posted):
    """A session's learner and how its losses are read."""

    learner: LearnerSpec
    loss_range: Annotated[
        list[Finite],
        Field(
            min_length=2,
            max_length=2,
            description="Best and worst loss of an arm: two different numbers, in either order. Learners over "
            "points accept any finite losses and ignore it.",
        ),
        NullIs([0.0, 1.0]),
    ] = [0.0, 1.0]
    reward_range: Annotated[
        list[Finite] | None,
        Field(
            min_length=2,
            max_length=2,
            description="Worst and best reward of an arm, instead of ``loss_range``: events then carry ``reward``.",
        ),
    ] = None
    normalize_losses: Annotated[
        bool,
        Field(description="Learn from (loss - best)/(worst - best) of an arm; false: from the loss as it is."),
        NullIs(True),
    ] = True
    seed: Annotated[
        Whole | None,
        Field(
            ge=0,
            lt=2**63,
            description="Seed of the draws. Keep it secret; without one the service draws 128 random bits.",
        ),
    ] = None
    idle_ttl_seconds: IdleTtl | None = None

    expiry: Annotated[
        ExpirySpec | None,
        Field(description="Settles decisions without feedback after a time; null: they stay outstanding."),
    ] = None

    floor: Annotated[Floor, NullIs(0.0)] = 0.0

    initial: Annotated[
        list[InitialArmSpec] | None,
        Field(
            min_length=1,
            fail_fast=True,
            description="Means of arms to begin with, for the Tsallis learners. No count of the view has them.",
        ),
    ] = None

    @model_validator(mode="after")
    def _initial_means_fit(self) -> Specification:
        if self.initial is None:
            return self
        if not self.learner.takes_initial:
            raise FieldValueError("initial", f"not with {self.learner.kind}; only the Tsallis learners take it")
        if not self.normalize_losses:
            raise FieldValueError("initial", "needs normalize_losses")
        arms = self._initial_arms()
        if len({arm.position for arm in arms}) != len(arms):
            raise FieldValueError("initial", "each arm once")
        if sum(arm.acts for arm in arms) > MAX_INITIAL_ACTS:
            raise FieldValueError("initial", f"at most {MAX_INITIAL_ACTS} acts in all")
        return self

    def _initial_arms(self) -> Sequence[InitialArm]:
        """Read what the learner begins with.

        Raises
        ------
        ValueError
            naming the entry of ``initial`` that does not fit.
        """
        labels = {label: place for place, label in enumerate(getattr(self.learner, "arms", None) or ())}
        found = []
        for number, entry in enumerate(self.initial or ()):
            try:
                found.append(self._initial_arm(entry, labels))
            except ValueError as error:
                field = f".{error.field}" if isinstance(error, FieldValueError) else ""
                raise FieldValueError(f"initial.{number}{field}", str(error)) from error
        return found

    def _initial_arm(self, entry: InitialArmSpec, labels: Mapping[str, int]) -> InitialArm:
        if (entry.arm is None) == (entry.label is None):
            raise FieldValueError("arm" if entry.arm is None else "label", "give either arm or label")
        place = entry.arm if entry.label is None else labels.get(entry.label)
        if place is None or not isinstance(self.learner, ArmsSpec) or place >= self.learner.arm_count:
            raise FieldValueError("arm" if entry.label is None else "label", "there is no such arm")
        means = {"loss": entry.mean_loss, "reward": entry.mean_reward}
        mean = means.pop(self.word)
        if mean is None or any(other is not None for other in means.values()):
            raise FieldValueError(
                f"mean_{self.word}", f"give mean_{self.word}, as the session has {self.word}_range"
            )
        return InitialArm(place, entry.acts, self.losses.learned(mean))

    decision_log: Annotated[
        DecisionLogSpec | None, Field(description="Keeps a log of decisions and events; null: none is kept.")
    ] = None

    segments: Annotated[
        SegmentsSpec | None,
        Field(description="Acts and events name segments, for ``multiscale_tsallis`` and ``centred_tsallis``."),
    ] = None

    @model_validator(mode="after")
    def _segments_fit(self) -> Specification:
        if self.segments is None:
            return self
        if not self.learner.takes_segments:
            raise ValueError(
                f"segments: not with {self.learner.kind}; only multiscale_tsallis and centred_tsallis take them"
            )
        waits = self.expiry is not None and self.expiry.provisional is False
        if self.default_loss is not None and (waits or not self.may_be_provisional):
            raise ValueError(
                f"expiry.default_{self.word}: with segments it must be null, or provisional with multiscale_tsallis"
            )
        return self

    @model_validator(mode="after")
    def _log_is_of_arms(self) -> Specification:
        if self.decision_log is not None and not isinstance(self.learner, ArmsSpec):
            raise FieldValueError("decision_log", "decision_log is for learners over arms")
        return self

    @model_validator(mode="after")
    def _range_has_two_ends(self) -> Specification:
        best, worst, name = self.losses.best, self.losses.worst, f"{self.word}_range"
        if best == worst:
            raise FieldValueError(name, f"{name} needs two different numbers")
        if not abs(worst - best) < float("inf"):
            raise FieldValueError(name, f"{name} is too wide")
        return self

    @model_validator(mode="after")
    def _rewards_are_normalised_and_of_arms(self) -> Specification:
        if self.reward_range is None:
            return self
        if not isinstance(self.learner, ArmsSpec):
            raise FieldValueError("reward_range", "reward_range is for learners over arms")
        if "loss_range" in self.model_fields_set and self.loss_range != [0.0, 1.0]:
            raise FieldValueError("loss_range", "give either loss_range or reward_range")
        if not self.normalize_losses:
            raise FieldValueError("normalize_losses", "reward_range needs normalize_losses")
        return self

    @model_validator(mode="after")
    def _default_is_one(self) -> Specification:
        if self.expiry is None:
            return self
        other: Word = "reward" if self.word == "loss" else "loss"
        if self.expiry.default(other) is not None:
            message = f"a session with {self.word}_range takes default_{self.word}"
            raise FieldValueError(f"expiry.default_{other}", message)
        if self.default_loss is None:
            return self
        if not isinstance(self.learner, ArmsSpec):
            raise FieldValueError("expiry.default_loss", "must be null for learners over points")
        try:
            self.losses.learned(self.default_loss)
        except ValueError as error:
            raise FieldValueError(f"expiry.default_{self.word}", str(error)) from error
        return self

    @model_validator(mode="after")
    def _provisional_default_has_its_learner(self) -> Specification:
        if self.expiry is None or not self.expiry.provisional or self.may_be_provisional:
            return self
        if self.default_loss is None:
            raise FieldValueError("expiry.provisional", "a default_loss that is null cannot be provisional")
        raise FieldValueError(
            "expiry.provisional", f"not with {self.learner.kind}; only multiscale_tsallis takes it"
        )

    @property
    def may_be_provisional(self) -> bool:
        """Whether the session has a default loss that its learner can take as provisional."""
        return self.default_loss is not None and self.learner.takes_provisional

    def decided(self) -> Specification:
        """Return the same, with ``provisional`` true or false where a default may be provisional, else None."""
        if self.expiry is None:
            return self
        provisional = self.expiry.provisional is not False if self.may_be_provisional else None
        expiry = self.expiry.model_copy(update={"provisional": provisional})
        return self.model_copy(update={"expiry": expiry})

    @property
    def word(self) -> Word:
        """Whether clients post losses or rewards."""
        return "loss" if self.reward_range is None else "reward"

    @property
    def losses(self) -> LossRange:
        """How losses, or rewards, are read."""
        best, worst = self.loss_range if self.reward_range is None else reversed(self.reward_range)
        return LossRange(best, worst, self.normalize_losses, self.word)

    def chosen(self) -> dict[str, Any]:
        """Return the fields beside learner and seed by name, as views show them."""
        return {
            f"{self.word}_range": self.loss_range if self.reward_range is None else self.reward_range,
            "normalize_losses": self.normalize_losses,
            "idle_ttl_seconds": self.idle_ttl_seconds,
            "expiry": None if self.expiry is None else self.expiry.shown(self.word),
            "floor": self.floor,
            **({} if self.decision_log is None else {"decision_log": self.decision_log.model_dump()}),
        }

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
        return None if self.idle_ttl_ms is None else used_at + self.idle_ttl_ms / 1000

    @property
    def new_fields(self) -> set[str]:
        """The fields that version 0.1 does not know and that say something else than their defaults."""
        fields = type(self).model_fields
        return {name for name in fields.keys() - FIELDS_OF_0_1 if getattr(self, name) != fields[name].default}

    @property
    def beyond_0_1(self) -> str | None:
        """A field for which version 0.1 could not read this session, None where it could."""
        return "learner.kind" if self.learner.kind not in KINDS_OF_0_1 else min(self.new_fields, default=None)

    def params(self, seed: int) -> Params:
        """Return what a run is started with."""
        expiry = None
        if self.expiry is not None:
            loss = self.default_loss
            learned = None if loss is None else self.losses.learned(loss)
            is_provisional = self.may_be_provisional and bool(self.expiry.provisional)
            expiry = Expiry(self.expiry.after_seconds, learned, is_provisional)
        most = 0 if self.segments is None else self.segments.max
        return Params(self.learner, seed, self.losses, expiry, self.floor, self._initial_arms(), most)
