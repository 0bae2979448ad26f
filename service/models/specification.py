"""What a session is created with, as clients post it and as the store keeps it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..engine.loss_range import LossRange
from ..engine.params import Expiry, Params
from ..engine.run import Run, start_run
from ..learners import REGISTRY
from ..learners.base import Spec
from ..learners.specs import MAX_COUNT, ArmsSpec, Finite, LabelText, Whole
from ..learners.warm_start import InitialArm

if TYPE_CHECKING:
    LearnerSpec = Spec
else:
    LearnerSpec = Annotated[Union[tuple(REGISTRY.values())], Field(discriminator="kind")]  # noqa: UP007

SESSION_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
Word = Literal["loss", "reward"]
TEN_YEARS = 315_360_000
MAX_INITIAL_ACTS = 10**9
MAX_LOG_ENTRIES = 10_000_000
LARGE_SPEC_BYTES = 2048
"""Encoded specifications from this size on are large in memory: labels take ten times their bytes."""
FIELDS_OF_0_1 = {"learner", "loss_range", "normalize_losses", "seed", "idle_ttl_seconds", "expiry"}
KINDS_OF_0_1 = {"dexp3", "dbgd", "centred_tsallis", "exp3", "exp3_current", "bold", "clw", "ogd", "solid"}
KINDS_OF_0_1 |= {"mbco", "clw_mbco"}
SEED_BITS = 128
"""Random bits of a seed that the client did not choose."""


class ExpirySpec(BaseModel):
    """When a decision without feedback expires, and the loss that it is settled at."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    after_seconds: Annotated[
        float,
        Field(
            ge=0.1,
            le=TEN_YEARS,
            description="Time from act to expiry. A decision may expire later, by up to 1/64 of this time.",
        ),
    ]
    default_loss: Annotated[
        float | None,
        Field(
            allow_inf_nan=False,
            description="Loss of an expired decision, in the unit of ``loss_range``; null: nothing is learned.",
        ),
    ] = None
    default_reward: Annotated[
        float | None,
        Field(allow_inf_nan=False, description="The same in a session with ``reward_range``, in its unit."),
    ] = None
    provisional: Annotated[
        bool | None,
        Field(
            description="Whether every act counts as the default loss at once, and an event within the time "
            "corrects it: for ``multiscale_tsallis`` with a default loss, and true there unless it is posted.",
        ),
    ] = None

    def default(self, word: Word) -> float | None:
        """Return the default that is given by this word."""
        return self.default_loss if word == "loss" else self.default_reward

    def shown(self, word: Word) -> dict[str, Any]:
        """Return the fields as views show them, without the other word, and what only other learners have."""
        hidden = {"default_reward" if word == "loss" else "default_loss"}
        return self.model_dump(exclude=hidden | ({"provisional"} if self.provisional is None else set()))


class InitialArmSpec(BaseModel):
    """What is known of an arm before the first slot."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    arm: Annotated[Whole | None, Field(ge=0, le=MAX_COUNT)] = None
    label: LabelText | None = None
    acts: Annotated[Whole, Field(ge=1, le=MAX_INITIAL_ACTS, description="Acts that the mean is over.")]
    mean_loss: Annotated[float | None, Field(allow_inf_nan=False)] = None
    mean_reward: Annotated[float | None, Field(allow_inf_nan=False, description="With ``reward_range``.")] = None


class DecisionLogSpec(BaseModel):
    """A log of every decision and event, kept with the session."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    max_entries: Annotated[
        Whole,
        Field(
            ge=1,
            le=MAX_LOG_ENTRIES,
            description="About how many entries are kept: at most a hundred more; the oldest are dropped.",
        ),
    ]


IdleTtl = Annotated[
    float,
    Field(ge=0.001, le=TEN_YEARS, description="The session is deleted after this time without act or feedback."),
]
Floor = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="Share of the draws that is uniform over the arms that may be drawn. Above 0 for learners "
        "over arms that define it alone.",
    ),
]


class Specification(BaseModel):
    """A session's learner and how its losses are read."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    learner: LearnerSpec
    loss_range: Annotated[
        list[Finite],
        Field(
            min_length=2,
            max_length=2,
            description="Best and worst loss of an arm: two different numbers, in either order. Learners over "
            "points accept any finite losses and ignore it.",
        ),
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

    floor: Floor = 0.0

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
            raise ValueError(f"initial: not with {self.learner.kind}; only the Tsallis learners take it")
        if not self.normalize_losses:
            raise ValueError("initial needs normalize_losses")
        arms = self._initial_arms()
        if len({arm.position for arm in arms}) != len(arms):
            raise ValueError("initial: each arm once")
        if sum(arm.acts for arm in arms) > MAX_INITIAL_ACTS:
            raise ValueError(f"initial: at most {MAX_INITIAL_ACTS} acts in all")
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
                raise ValueError(f"initial.{number}: {error}") from error
        return found

    def _initial_arm(self, entry: InitialArmSpec, labels: Mapping[str, int]) -> InitialArm:
        if (entry.arm is None) == (entry.label is None):
            raise ValueError("give either arm or label")
        place = entry.arm if entry.label is None else labels.get(entry.label)
        if place is None or not isinstance(self.learner, ArmsSpec) or place >= self.learner.arm_count:
            raise ValueError("there is no such arm")
        means = {"loss": entry.mean_loss, "reward": entry.mean_reward}
        mean = means.pop(self.word)
        if mean is None or any(other is not None for other in means.values()):
            raise ValueError(f"give mean_{self.word}, as the session has {self.word}_range")
        return InitialArm(place, entry.acts, self.losses.learned(mean))

    decision_log: Annotated[
        DecisionLogSpec | None, Field(description="Keeps a log of decisions and events; null: none is kept.")
    ] = None

    @model_validator(mode="after")
    def _log_is_of_arms(self) -> Specification:
        if self.decision_log is not None and not isinstance(self.learner, ArmsSpec):
            raise ValueError("decision_log is for learners over arms")
        return self

    @model_validator(mode="after")
    def _range_has_two_ends(self) -> Specification:
        best, worst, name = self.losses.best, self.losses.worst, f"{self.word}_range"
        if best == worst:
            raise ValueError(f"{name} needs two different numbers")
        if not abs(worst - best) < float("inf"):
            raise ValueError(f"{name} is too wide")
        return self

    @model_validator(mode="after")
    def _rewards_are_normalised_and_of_arms(self) -> Specification:
        if self.reward_range is None:
            return self
        if not isinstance(self.learner, ArmsSpec):
            raise ValueError("reward_range is for learners over arms")
        if "loss_range" in self.model_fields_set and self.loss_range != [0.0, 1.0]:
            raise ValueError("give either loss_range or reward_range")
        if not self.normalize_losses:
            raise ValueError("reward_range needs normalize_losses")
        return self

    @model_validator(mode="after")
    def _default_is_one(self) -> Specification:
        if self.expiry is None:
            return self
        other: Word = "reward" if self.word == "loss" else "loss"
        if self.expiry.default(other) is not None:
            name, range_name = f"expiry.default_{other}", f"{self.word}_range"
            raise ValueError(f"{name}: a session with {range_name} takes default_{self.word}")
        if self.default_loss is None:
            return self
        if not isinstance(self.learner, ArmsSpec):
            raise ValueError("expiry.default_loss must be null for learners over points")
        try:
            self.losses.learned(self.default_loss)
        except ValueError as error:
            raise ValueError(f"expiry.default_{self.word}: {error}") from error
        return self

    @model_validator(mode="after")
    def _provisional_default_has_its_learner(self) -> Specification:
        if self.expiry is None or not self.expiry.provisional or self.may_be_provisional:
            return self
        if self.default_loss is None:
            raise ValueError("expiry.provisional: a default_loss that is null cannot be provisional")
        raise ValueError(f"expiry.provisional: not with {self.learner.kind}; only multiscale_tsallis takes it")

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
        return Params(self.learner, seed, self.losses, expiry, self.floor, self._initial_arms())


class Stored(NamedTuple):
    """A specification with the seed in use."""

    specification: Specification
    seed: int

    @classmethod
    def of(cls, specification: Specification) -> Stored:
        """Choose a random seed where the client gave none, and decide whether a default is provisional."""
        given = specification.seed
        return cls(specification.decided(), secrets.randbits(SEED_BITS) if given is None else given)

    def encode(self) -> bytes:
        """Return the bytes that the store keeps."""
        known = FIELDS_OF_0_1 - {"seed"} | self.specification.new_fields
        fields = self.specification.model_dump(mode="json", include=known, exclude_none=True)
        return json.dumps({"specification": fields, "seed": self.seed}, separators=(",", ":")).encode()

    def matches(self, posted: Specification) -> bool:
        """Return whether posting these fields again means this session; an omitted seed matches any."""
        return not self.differing(posted)

    def differing(self, posted: Specification) -> dict[str, str]:
        """Return what differs from a specification posted again, by field; an omitted seed matches any."""
        posted = posted.decided()
        own, others, word = _fields(self.specification), _fields(posted), self.specification.word
        found = {name: "is another in the session" for name, value in own.items() if value != others[name]}
        if word != posted.word:
            found = {name: text for name, text in found.items() if name not in ("loss_range", "reward_range")}
            found[f"{posted.word}_range"] = f"the session was created with {word}_range"
        if posted.seed not in (None, self.seed):
            found["seed"] = "is another in the session"
        return found

    def start(self) -> Run:
        """Start the run before its first slot."""
        return start_run(self.specification.params(self.seed))


class _StoredFields(BaseModel):
    """What ``Stored.encode`` writes."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    specification: Specification
    seed: Annotated[int, Field(ge=0, lt=2**SEED_BITS)]


def decode(spec: bytes) -> Stored:
    """Read what ``Stored.encode`` wrote; recent results are cached, fewer of the large ones.

    Raises
    ------
    ValueError
        for anything else.
    """
    return _small(spec) if len(spec) < LARGE_SPEC_BYTES else _large(spec)


def _decode(spec: bytes) -> Stored:
    try:
        kept = _StoredFields.model_validate(json.loads(spec))
    except (ValueError, RecursionError) as error:
        raise ValueError("not a session's specification") from error
    return Stored(kept.specification, kept.seed)


_small, _large = lru_cache(1024)(_decode), lru_cache(4)(_decode)


def _fields(specification: Specification) -> dict[str, Any]:
    """Return all that a client may post but the seed, with defaults filled in."""
    return specification.model_dump(exclude={"seed", "learner"}) | {"learner": specification.learner.resolved()}


Surplus = Literal["refuse", "skip"]
