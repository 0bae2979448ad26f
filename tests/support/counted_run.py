"""A run whose acts, and what became of them, are counted beside it, by arm."""

from collections import Counter

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from service.engine.ledger import ArmAction, Expiry, Params
from service.engine.run import start_run
from service.learners import REGISTRY
from service.learners.base import IntArray
from tests.support.machines import FIELDS, NAMES, TAKES_ELIGIBLE
from tests.support.runs import by_index

WINDOW = 64.0


class CountedRun(RuleBasedStateMachine):
    """One run; whatever rules do to it, each act is one of five things."""

    kind = "dexp3"

    @initialize(
        loss=st.sampled_from([None, 0.0, 1.0]), seed=st.integers(0, 2**32), floor=st.sampled_from([0.0, 0.3])
    )
    def start(self, loss: float | None, seed: int, floor: float) -> None:
        spec = REGISTRY[self.kind].model_validate({"kind": self.kind, "arms": NAMES} | FIELDS[self.kind])
        self.params = Params(spec, seed, expiry=Expiry(WINDOW, loss), floor=floor if self.takes_eligible else 0.0)
        self.run = start_run(self.params)
        self.now = 1e6
        self.run.advance(self.now)
        self.kept: dict[bytes, bytes] = {}
        self.acts, self.settled, self.voided = Counter[int](), Counter[int](), Counter[int]()
        self.expired, self.removed = Counter[int](), Counter[int]()
        self.open: list[ArmAction] = []
        """Actions that may still get feedback."""
        self.labels = list(NAMES)
        self.paused: set[str] = set()

    @property
    def takes_eligible(self) -> bool:
        return self.kind in TAKES_ELIGIBLE

    def outstanding(self) -> list[int]:
        counts: list[int] = by_index(self.run, self.run.ledger.by_arm).tolist()
        return counts

    def draw(self, eligible: IntArray | None) -> str:
        """Act, and return the label that was drawn."""
        before, floor = self.outstanding(), self.params.floor
        action = self.run.act(eligible)
        assert isinstance(action, ArmAction)
        assert self.run.arms.is_live(action.arm)
        assert action.eligible == (len(self.labels) - len(self.paused) if eligible is None else eligible.size)
        assert floor / action.eligible <= action.probability <= 1 + 1e-9
        self.acts[action.arm] += 1
        self.open.append(action)
        before[action.arm] += 1
        self.count(before, self.expired)
        assert self.run.arms.names is not None
        return self.run.arms.names[action.arm]

    def count(self, before: list[int], what: Counter[int]) -> None:
        """What is missing from the outstanding decisions has become ``what``."""
        for arm, (then, now) in enumerate(zip(before, self.outstanding(), strict=False)):
            assert now <= then
            what[arm] += then - now

    @invariant()
    def every_act_is_one_of_five_things(self) -> None:
        ledger, left = self.run.ledger, self.outstanding()
        for arm, count in enumerate(left):
            assert count >= 0
            ended = self.settled[arm] + self.expired[arm] + self.removed[arm] + self.voided[arm]
            assert self.acts[arm] == ended + count
        totals = (ledger.feedbacks, ledger.expired, ledger.removed, ledger.voided, ledger.outstanding)
        assert min(totals) >= 0
        counted = (self.settled, self.expired, self.removed, self.voided)
        assert totals == (*(each.total() for each in counted), sum(left))
        assert ledger.slot == sum(totals)

    @invariant()
    def probabilities_are_those_of_the_arms_there_are(self) -> None:
        p, arms = self.run.probabilities, self.run.arms
        assert p.size == len(arms.live) == self.run.ledger.by_arm.size
        assert abs(p.sum() - 1) < 1e-9
        assert (p >= 0).all()
        names = arms.names or ()
        assert {names[arm] for arm in arms.paused} == self.paused
        may = [position for position, arm in enumerate(arms.live) if names[arm] not in self.paused]
        assert not np.delete(p, may).any()
        assert (p[may] >= self.params.floor / len(may)).all()
