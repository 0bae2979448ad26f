"""Random acts, clicks, expiries, changes of arms and window, crashes and reloads of two workers, and a model."""

import asyncio
import copy
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from service.commit.batch import Journal, Operation, expire_due
from service.commit.cache import CachedSession
from service.engine.run import Run
from service.errors import InvalidRequestError, NoEligibleArmError, StoreUnavailableError, SurplusFeedbackError
from service.learners import REGISTRY
from service.models.events import ArmEvent, Choice, Idempotency, OneArmEvent, RewardEvent
from service.models.specification import DecisionLogSpec, ExpirySpec, Specification, Word
from service.sessions.act import Act
from service.sessions.changes import NextDue
from service.sessions.feedback import SettleFeedback
from service.store import open_store
from tests.support.crashing import Fault, Worker
from tests.support.machines import ANY_LABEL, FIELDS, NAMES, TAKES_ELIGIBLE
from tests.support.runs import by_index
from tests.support.sessions import digest

BUCKETS = 64


WINDOW = float(BUCKETS)
"""A bucket is a second."""


class Model:
    """Every decision, by arm, oldest first, as slot and bucket of its act."""

    def __init__(self, *, by_slot: bool) -> None:
        self.window: float | None = WINDOW
        self.by_slot = by_slot
        self.open: dict[int, list[tuple[int, int]]] = {}
        self.ended = {what: Counter[int]() for what in ("feedbacks", "expired", "removed", "voided")}
        self.acts = Counter[int]()
        self.labels = dict(zip(NAMES, range(3), strict=True))
        self.paused: set[str] = set()
        self.arms = 3

    def pass_time(self, now: float) -> None:
        """Give up what has had its window and a bucket."""
        if self.window is None:
            return
        for arm, acts in self.open.items():
            kept = [act for act in acts if (act[1] + 1 + BUCKETS) * self.width > now]
            self.ended["expired"][arm] += len(acts) - len(kept)
            self.open[arm] = kept

    def act(self, arm: int, slot: int, now: float) -> None:
        self.acts[arm] += 1
        bucket = 0 if self.window is None else int(now // self.width)
        self.open.setdefault(arm, []).append((slot, bucket))

    @property
    def width(self) -> float:
        """Seconds of a bucket."""
        assert self.window is not None
        return self.window / BUCKETS

    def change_window(self, window: float | None, now: float) -> None:
        """Let open decisions have a window from their act on, or from now where they had none."""
        before, self.window = self.window, window
        if window is None or before == window:
            return
        for arm, acts in self.open.items():
            ends = (now if before is None else (bucket + 1) * before / BUCKETS for _, bucket in acts)
            moved = (int(min(end, now) // self.width) for end in ends)
            self.open[arm] = [(slot, bucket) for (slot, _), bucket in zip(acts, moved, strict=True)]
        self.pass_time(now)

    def outcome(self, arm: int, slot: int, *, is_void: bool) -> str:
        """What becomes of an event with a new id."""
        if arm not in self.labels.values():
            return "removed"
        return "surplus" if self.place(arm, slot) is None else "voided" if is_void else "applied"

    def place(self, arm: int, slot: int) -> int | None:
        """Which of the arm's decisions the event settles."""
        acts = self.open.get(arm, [])
        places = [place for place, act in enumerate(acts) if act[0] == slot or not self.by_slot]
        return places[0] if places else None

    def settle(self, arm: int, slot: int, what: str) -> None:
        place = self.place(arm, slot)
        assert place is not None
        del self.open[arm][place]
        self.ended[what][arm] += 1

    def remove(self, labels: Iterable[str]) -> None:
        for label in set(labels) & self.labels.keys():
            arm = self.labels.pop(label)
            self.ended["removed"][arm] += len(self.open.pop(arm, []))
            self.paused.discard(label)

    def add(self, labels: Iterable[str]) -> None:
        for label in dict.fromkeys(labels):
            if label not in self.labels:
                self.labels[label] = self.arms
                self.arms += 1

    def pause(self, resume: Iterable[str], pause: Iterable[str]) -> None:
        self.paused = (self.paused - set(resume)) | (set(pause) & self.labels.keys())

    @property
    def drawable(self) -> set[str]:
        return self.labels.keys() - self.paused


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
        assert stored.ledger.by_arm.min() >= 0
        run = stored.copy()
        run.advance(self.time)
        self.runner.run(expire_due(run, Journal()))
        left = [len(self.model.open.get(arm, [])) for arm in range(self.model.arms)]
        assert by_index(run, run.ledger.by_arm).tolist() == left
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
        p, drawable = by_index(run, run.probabilities), [self.model.labels[label] for label in self.model.drawable]
        assert abs(p.sum() - 1) < 1e-9
        assert not np.delete(p, drawable).any()
        assert p[drawable].min() >= run.params.floor / len(drawable)

    def counts_and_log_agree(self) -> None:
        """What is kept beside the state counts the same decisions, each once."""
        run = self.runner.run(self.stored())
        ledger, left = run.ledger, by_index(run, run.ledger.by_arm)
        store = self.workers[0].store
        counts = self.runner.run(store.read_counts(self.name, range(self.model.arms))).rows
        for name in ("feedbacks", "expired", "removed", "voided"):
            assert sum(getattr(row, name) for row in counts) == getattr(ledger, name)
        for arm, row in enumerate(counts):
            ended = row.feedbacks + row.expired + row.removed + row.voided
            assert ended + left[arm] == self.model.acts[arm]
        log = self.runner.run(store.read_log(self.name, 0, 10**6))
        assert [entry.position for entry in log.entries] == list(range(1, ledger.logged + 1))
        entries = [json.loads(entry.data) for entry in log.entries]
        assert [entry["slot"] for entry in entries if entry["kind"] == "act"] == list(range(1, ledger.slot + 1))
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
        return CachedSession.of(await store.load(self.name)).with_records(await store.read_records(self.name)).run


async def opened(url: str) -> Any:
    return open_store(url)


WINDOWS = (WINDOW / 4, WINDOW, 2 * WINDOW)
"""Windows that a session may get; buckets of a quarter of a second, of one, and of two."""


FAULTS = st.sampled_from([None, None, "not sent", "reply lost"])


WORKERS = st.integers(0, 1)


NEW_LABEL = st.sampled_from(["a", "b", "x", "y"])


GAPS = st.sampled_from([0.0, 0.0, 0.0, 0.3, 1.0, 20.0, WINDOW + 1])
"""Seconds since the call before."""


class SessionMachine(CheckedSession):
    """All that clients do to a session; crashes strike where a rule has a fault."""

    @rule(gap=GAPS, at=WORKERS, count=st.integers(1, 8), fault=FAULTS, dies=st.booleans())
    def act(self, gap: float, at: int, count: int, fault: Fault | None, dies: bool) -> None:
        self.time += gap
        self.take(self.call(at, acts(count), fault, dies=dies)["actions"])

    @precondition(lambda self: self.takes_eligible)
    @rule(
        gap=GAPS,
        at=WORKERS,
        count=st.integers(1, 4),
        names=st.lists(ANY_LABEL, min_size=1, max_size=4),
        field=st.sampled_from(["eligible", "exclude"]),
        distinct=st.booleans(),
        fault=FAULTS,
        dies=st.booleans(),
    )
    def act_of_some(
        self,
        gap: float,
        at: int,
        count: int,
        names: list[str],
        field: str,
        distinct: bool,
        fault: Fault | None,
        dies: bool,
    ) -> None:
        self.time += gap
        named, drawable = set(names), self.model.drawable
        may = drawable & named if field == "eligible" else drawable - named
        operation = acts(count, choice=Choice(field, names), distinct=distinct)
        if not may:
            with pytest.raises(NoEligibleArmError):
                self.call(at, operation)
            self.model.pass_time(self.time)
            return
        answer = self.call(at, operation, fault, dies=dies)
        drawn = [action["label"] for action in answer["actions"]]
        self.take(answer["actions"])
        assert {*drawn} <= may
        assert len(drawn) == (min(count, len(may)) if distinct else count)
        assert not distinct or len({*drawn}) == len(drawn)
        assert answer.get("skipped", 0) == len(named - drawable)

    @rule(gap=GAPS, counts=st.tuples(st.integers(1, 4), st.integers(1, 4)))
    def act_on_both(self, gap: float, counts: tuple[int, int]) -> None:
        self.time += gap

        async def together() -> list[Any]:
            pairs = zip(self.workers, counts, strict=True)
            return await asyncio.gather(*(each.sessions.submit(self.name, acts(count)) for each, count in pairs))

        found = [json.loads(answer.body)["actions"] for answer in self.runner.run(together())]
        self.model.pass_time(self.time)
        self.take(sorted(itertools.chain(*found), key=lambda action: action["slot"]))

    @precondition(lambda self: self.given)
    @rule(gap=GAPS, at=WORKERS, data=st.data(), loss=st.none() | st.floats(0, 1), fault=FAULTS, dies=st.booleans())
    def click(self, gap: float, at: int, data: Any, loss: float | None, fault: Fault | None, dies: bool) -> None:
        self.time += gap
        arm, slot = self.given.pop(data.draw(st.integers(0, len(self.given) - 1)))
        event = self.event(loss, arm=arm, slot=slot)
        self.model.pass_time(self.time)
        expected = self.model.outcome(arm, slot, is_void=loss is None)
        # The second event fits no session of these arms.
        settling = SettleFeedback([event, self.event(loss, arm=10**6)], None, skips_invalid=True)
        if expected == "surplus" and self.model.window is None:
            with pytest.raises(SurplusFeedbackError):
                self.call(at, settling)
            return
        answer = self.call(at, settling, fault, dies=dies)
        assert answer["invalid_indexes"] == [1]
        counts = {name: answer.get(name, 0) for name in ("applied", "duplicates", "removed", "voided", "surplus")}
        took_unseen = fault == "reply lost" and expected != "surplus" and counts["duplicates"] == 1
        assert counts == dict.fromkeys(counts, 0) | {"duplicates" if took_unseen else expected: 1}
        if expected != "surplus":
            self.sent.append(event)
        if expected in ("applied", "voided"):
            self.model.settle(arm, slot, "feedbacks" if expected == "applied" else "voided")

    @precondition(lambda self: self.sent)
    @rule(gap=GAPS, at=WORKERS, data=st.data(), fault=FAULTS)
    def send_again(self, gap: float, at: int, data: st.DataObject, fault: Fault | None) -> None:
        self.time += gap
        event = data.draw(st.sampled_from(self.sent))
        answer = self.call(at, SettleFeedback([event.model_copy(update={self.word: 0.5})], None), fault)
        if event.arm in self.model.labels.values() or self.kind in NEEDS_SLOT:
            assert (answer["applied"], answer["duplicates"]) == (0, 1)

    @rule(gap=GAPS, at=WORKERS, fault=FAULTS, dies=st.booleans())
    def sweep(self, gap: float, at: int, fault: Fault | None, dies: bool) -> None:
        self.time += gap
        self.call(at, NextDue(), fault, dies=dies)

    @rule(
        gap=GAPS,
        at=WORKERS,
        data=st.data(),
        add=st.lists(NEW_LABEL, max_size=3),
        resume=st.lists(ANY_LABEL, max_size=2),
        pause=st.lists(ANY_LABEL, max_size=2),
    )
    def change_arms(
        self, gap: float, at: int, data: st.DataObject, add: list[str], resume: list[str], pause: list[str]
    ) -> None:
        self.time += gap
        labels = sorted(self.model.labels)
        remove = data.draw(st.lists(st.sampled_from(labels), unique=True, max_size=len(labels) - 1))
        if not self.takes_eligible:
            resume = pause = []
        then = copy.deepcopy(self.model)
        then.pass_time(self.time)
        then.remove(remove)
        then.add(add)
        then.pause(resume, pause)
        labels = {"add": add, "remove": [*remove, "nobody"], "resume": resume, "pause": pause}
        self.change(at, then, labels)

    @rule(gap=GAPS, at=WORKERS, arms=st.lists(NEW_LABEL, min_size=1, max_size=3))
    def replace_arms(self, gap: float, at: int, arms: list[str]) -> None:
        self.time += gap
        then = copy.deepcopy(self.model)
        then.pass_time(self.time)
        then.add(arms)
        then.remove(then.labels.keys() - set(arms))
        self.change(at, then, {"catalogue": arms})

    def change(self, at: int, then: Model, labels: dict[str, list[str]]) -> None:
        """Change the arms; refused, and nothing changes, where none would be left to draw."""
        changing = self.workers[at].sessions.change_arms(self.name, labels, None)
        if not then.drawable:
            with pytest.raises(InvalidRequestError):
                self.runner.run(changing)
            self.model.pass_time(self.time)
            return
        view = json.loads(self.runner.run(changing).body)
        before, self.model = self.model.labels, then
        shown = view["learner"]["arms"]
        indexes = view["learner"].get("arm_indexes", range(len(shown)))
        assert dict(zip(shown, indexes, strict=True)) == self.model.labels
        gone = [label for label in labels.get("remove", ()) if label not in before]
        gone += [label for name in ("pause", "resume") for label in labels.get(name, ()) if label not in shown]
        assert view.get("unknown", []) == list(dict.fromkeys(gone))
        assert set(view["paused"]) == self.model.paused

    @rule(gap=GAPS, at=WORKERS, window=st.sampled_from([*WINDOWS, None]))
    def change_window(self, gap: float, at: int, window: float | None) -> None:
        self.time += gap
        fields = {"expiry": None if window is None else self.expiry(window)}
        changing = self.workers[at].sessions.change(self.name, fields, None)
        if window is None and self.is_provisional:
            with pytest.raises(InvalidRequestError):
                self.runner.run(changing)
            self.model.pass_time(self.time)
            return
        view = json.loads(self.runner.run(changing).body)
        self.model.pass_time(self.time)
        self.model.change_window(window, self.time)
        assert (view["expiry"] or {"after_seconds": None})["after_seconds"] == window
        assert view["expired"] == self.model.ended["expired"].total()

    @rule(at=WORKERS)
    def reload(self, at: int) -> None:
        self.workers[at].reborn()


def acts(count: int, **fields: Any) -> Act:
    return Act(count, 10**6, idempotency=Idempotency(digest(f"key {next(numbers)}"), digest("body")), **fields)
