"""Options of a session beside its learner, as clients post them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from ..learners.base import Posted
from ..learners.specs import MAX_COUNT, LabelText, Whole

Word = Literal["loss", "reward"]
TEN_YEARS = 315_360_000
MAX_INITIAL_ACTS = 10**9
MAX_LOG_ENTRIES = 10_000_000


class ExpirySpec(Posted):
    """When a decision without feedback expires, and the loss that it is settled at."""

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
            "corrects it. Default: true for ``multiscale_tsallis`` with a default loss, else false.",
        ),
    ] = None

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
    acts: Annotated[Whole, Field(ge=1, le=MAX_INITIAL_ACTS, description="Number of acts in the mean.")]
    mean_loss: Annotated[float | None, Field(allow_inf_nan=False)] = None
    mean_reward: Annotated[float | None, Field(allow_inf_nan=False, description="With ``reward_range``.")] = None


class DecisionLogSpec(Posted):
    """A log of every decision and event, kept with the session."""

    max_entries: Annotated[
        Whole,
        Field(
            ge=1,
            le=MAX_LOG_ENTRIES,
            description="Number of entries that are kept, and at most a hundred more; the oldest are dropped.",
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
        description="Share of the draws that is uniform over the arms that may be drawn. Only some learners over "
        "arms accept a floor above 0.",
    ),
]
