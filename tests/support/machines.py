"""Running a state machine once for each kind of learner over arms, the same way every time."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.support import vectors
from tests.support.examples import examples

MORE: dict[str, dict[str, Any]] = {
    "exp3": {"learning_rate": 0.5, "max_open_slots": 20},
    "exp3_current": {"learning_rate": 0.5},
    "bold": {"learning_rate": 0.5, "max_open_slots": 20},
    "clw": {"learning_rate": 0.5, "max_delay": 2, "schedule": "random"},
}
"""Rates at which few events matter, and few open slots."""
FIELDS = {kind: fields | MORE.get(kind, {}) for kind, fields in vectors.over_arms().items()}
TAKES_ELIGIBLE = vectors.with_eligible_arms()
NAMES = ["a", "b", "c"]
"""The arms that sessions start with."""
ANY_LABEL = st.sampled_from(["a", "b", "c", "x", "y", "nobody"])

CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def run_machine(
    machine: type[RuleBasedStateMachine], attributes: dict[str, Any], max_examples: int, **more: Any
) -> None:
    """Run a machine with these class attributes; its steps are the same in every run of as many examples."""
    run_state_machine_as_test(
        type(f"{machine.__name__}_{attributes['kind']}", (machine,), attributes),
        settings=settings(
            max_examples=examples(max_examples),
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=CHECKS,
            **more,
        ),
    )
