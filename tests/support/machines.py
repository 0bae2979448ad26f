"""Running a state machine once for each kind of learner, the same way every time."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.support.examples import examples

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
