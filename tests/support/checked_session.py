"""A session of two workers on a real store, compared with a model of its decisions after each step."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from service.commit.batch import Journal, Operation, expire_due
from service.commit.cache import CachedSession
from service.engine.run import Run
from service.errors import StoreUnavailableError
from service.learners import REGISTRY
from service.models.events import ArmEvent, OneArmEvent, RewardEvent
from service.models.specification import DecisionLogSpec, ExpirySpec, Specification, Word
from service.store import open_store
from tests.support.crashing import Fault, Worker
from tests.support.decision_model import WINDOW, Model
from tests.support.machines import FIELDS, NAMES, TAKES_ELIGIBLE

NEEDS_SLOT = {kind for kind in FIELDS if "max_open_slots" in REGISTRY[kind].model_fields}
numbers = itertools.count()


class CheckedSession(RuleBasedStateMachine):
    """Calls of two workers on one session; what fails is sent again, with the same ids, to the other one."""

    kind = "dexp3"
    url = ""

    @initialize(
        loss=st.sampled_from([None, 0.0, 1.0]), seed=st.integers(0, 2**32), word=st.sampled_from(["loss", "reward"])
    )
    def start(self, loss: float | None, seed: int, word: Word) -> None:
        self.runner = asyncio.Runner()
        self.time = float(int(time.time()))
        stores = [self.runner.run(opened(self.url)) for _ in range(2)]
        self.workers = [Worker(store, lambda: self.time) for store in stores]
        self.name = f"m{next(numbers)}"
        self.model = Model(by_slot=self.kind in NEEDS_SLOT)
        self.given: list[tuple[int, int]] = []
        """Arm and slot of decisions not yet answered."""
        self.sent: list[OneArmEvent] = []
        """Events whose ids count."""
        fields = FIELDS[self.kind] | ({"max_open_slots": 1000} if self.kind in NEEDS_SLOT else {})
        spec = REGISTRY[self.kind].model_validate({"kind": self.kind, "arms": NAMES} | fields)
        self.word, self.default = word, loss
        self.is_provisional = self.kind == "multiscale_tsallis" and loss is not None
        specification = self.specification(spec, seed)
        self.runner.run(self.workers[0].sessions.create(self.name, specification, None))

    def specification(self, learner: Any, seed: int) -> Specification:
        fields: dict[str, Any] = {"decision_log": DecisionLogSpec(max_entries=10**6), "expiry": self.expiry(WINDOW)}
        if self.word == "reward":
            fields["reward_range"] = [0.0, 1.0]
        floor = 0.2 if self.takes_eligible and seed % 2 else 0.0
        return Specification(learner=learner, seed=seed, floor=floor, **fields).decided()

    def expiry(self, window: float) -> ExpirySpec:
        return ExpirySpec.model_validate({"after_seconds": window, f"default_{self.word}": self.default})

    def event(self, value: float | None, **fields: Any) -> OneArmEvent:
        kind = ArmEvent if self.word == "loss" else RewardEvent
        return kind.model_validate({self.word: value, "event_id": f"e{next(numbers)}"} | fields)

    @property
    def takes_eligible(self) -> bool:
        return self.kind in TAKES_ELIGIBLE

    def teardown(self) -> None:
        if not hasattr(self, "workers"):
            return
        self.counts_and_log_agree()
        self.runner.run(self.workers[0].sessions.delete(self.name))
        for worker in self.workers:
            self.runner.run(worker.store.close())
        self.runner.close()

    def call(self, at: int, operation: Operation, fault: Fault | None = None, *, dies: bool = False) -> Any:
        """The answer, from the other worker where the first one failed."""
        worker = self.workers[at]
        worker.store.fault = fault
        try:
            answer = self.runner.run(worker.sessions.submit(self.name, operation))
        except StoreUnavailableError:
            assert fault is not None
            if dies:
                worker.reborn()
            answer = self.runner.run(self.workers[1 - at].sessions.submit(self.name, operation))
        self.model.pass_time(self.time)
        return json.loads(answer.body) if answer.body else None

    def take(self, actions: list[dict[str, Any]]) -> None:
        """Note decisions, which must be the next ones."""
        for action in actions:
            assert action["slot"] == self.model.acts.total() + 1
            assert self.model.labels[action["label"]] == action["arm"]
            assert action["label"] in self.model.drawable
            self.model.act(action["arm"], action["slot"], self.time)
            self.given.append((action["arm"], action["slot"]))

    @invariant()
    def the_store_holds_what_the_model_says(self) -> None:
        if not hasattr(self, "workers"):
            return
        self.model.pass_time(self.time)
        stored = self.runner.run(self.stored())
        assert stored.ledger.by_arm is not None
        assert stored.ledger.by_arm.min() >= 0
        run = stored.copy()
        run.advance(self.time)
        self.runner.run(expire_due(run, Journal()))
        assert run.ledger.by_arm is not None
        left = [len(self.model.open.get(arm, [])) for arm in range(self.model.arms)]
        assert run.ledger.by_arm.tolist() == left
        assert all(
            self.model.acts[arm] == sum(ended[arm] for ended in self.model.ended.values()) + count
            for arm, count in enumerate(left)
        )
        for what, ended in self.model.ended.items():
            assert getattr(run.ledger, what) == ended.total()
        for ledger in (stored.ledger, run.ledger):
            parts = (ledger.feedbacks, ledger.expired, ledger.removed, ledger.voided, ledger.outstanding)
            assert min(parts) >= 0
            assert ledger.slot == sum(parts) == self.model.acts.total()
        p, drawable = run.probabilities, [self.model.labels[label] for label in self.model.drawable]
        assert abs(p.sum() - 1) < 1e-9
        assert not np.delete(p, drawable).any()
        assert p[drawable].min() >= run.params.floor / len(drawable)

    def counts_and_log_agree(self) -> None:
        """What is kept beside the state counts the same decisions, each once."""
        ledger = self.runner.run(self.stored()).ledger
        store = self.workers[0].store
        counts = self.runner.run(store.read_counts(self.name, range(self.model.arms))).rows
        for name in ("feedbacks", "expired", "removed", "voided"):
            assert sum(getattr(row, name) for row in counts) == getattr(ledger, name)
        for arm, row in enumerate(counts):
            ended = row.feedbacks + row.expired + row.removed + row.voided
            assert ended + ledger.by_arm[arm] == self.model.acts[arm]
        log = self.runner.run(store.read_log(self.name, None, 10**6))
        entries = [json.loads(entry.data) for entry in log.entries]
        slots = [entry["slot"] for entry in entries if entry["kind"] == "act"]
        assert slots == list(range(1, ledger.slot + 1))
        ended = Counter[str]()
        for entry in entries:
            if entry["kind"] == "event":
                ended[entry["outcome"]] += entry.get("count", 1)
        seen = (ended["applied"], ended["expired"], ended["voided"])
        assert seen == (ledger.feedbacks, ledger.expired, ledger.voided)
        ids = [entry["event_id"] for entry in entries if entry.get("event_id")]
        assert len(ids) == len(set(ids))

    async def stored(self) -> Run:
        """What a worker without a past reads."""
        store = self.workers[0].store
        snapshot = await store.load(self.name)
        return CachedSession.of(snapshot).with_records(await store.read_records(self.name)).run


async def opened(url: str) -> Any:
    return open_store(url)
