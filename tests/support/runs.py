"""Runs as tests of the arithmetic start and step them."""

from typing import Any

import numpy as np

from service.engine.ledger import ArmAction, Params
from service.engine.run import Run, start_run
from service.learners import REGISTRY
from service.learners.base import Log
from service.models.specification import Specification
from service.models.stored import Stored


def start(spec: dict[str, Any], seed: int = 5) -> Run:
    """A run of the learner with these fields."""
    return start_run(Params(REGISTRY[spec["kind"]].model_validate(spec), seed))


def act(run: Run) -> ArmAction:
    """The next action of a learner over arms."""
    action = run.act()
    assert isinstance(action, ArmAction)
    return action


def stored(run: Any) -> Stored:
    """The specification and, with labels, the arms that the store has of a run's session."""
    arms = getattr(run, "arms", None)
    arms = None if arms is None or arms.labels is None else arms
    return Stored(Specification(learner=run.params.learner), run.params.seed, arms)


def by_index(run: Any, numbers: Any) -> Any:
    """Numbers of live arms, shape (live,), by index over all arms that there ever were, 0 for removed ones."""
    spread = np.zeros(run.arms.size, np.asarray(numbers).dtype)
    spread[list(run.arms.live)] = numbers
    return spread


def bits_of(part: Any) -> Any:
    """A state, or a part of one, as what is equal only where every bit is; a log only says how it became so."""
    if isinstance(part, Log):
        return None
    if isinstance(part, np.ndarray):
        return part.tobytes()
    return [bits_of(each) for each in part] if isinstance(part, tuple) else part
