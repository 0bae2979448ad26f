"""What a session is created with."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from ...engine.ledger import Expiry, Params
from .checks import CHECKS, initial_arms
from .fields import SessionFields

FIELDS_OF_0_1 = {"learner", "loss_range", "normalize_losses", "seed", "idle_ttl_seconds", "expiry"}
KINDS_OF_0_1 = {"dexp3", "dbgd", "centred_tsallis", "exp3", "exp3_current", "bold", "clw", "ogd", "solid"}
KINDS_OF_0_1 |= {"mbco", "clw_mbco"}


class Specification(SessionFields, defer_build=False):
    """A session's learner and how its losses are read."""

    @model_validator(mode="after")
    def _fields_go_together(self) -> Specification:
        for check in CHECKS:
            check(self)
        return self

    def decided(self) -> Specification:
        """Return the same, with ``provisional`` true or false where a default may be provisional, else None."""
        if self.expiry is None:
            return self
        provisional = self.expiry.provisional is not False if self.may_be_provisional else None
        expiry = self.expiry.model_copy(update={"provisional": provisional})
        return self.model_copy(update={"expiry": expiry})

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
        return Params(self.learner, seed, self.losses, expiry, self.floor, initial_arms(self), most)
