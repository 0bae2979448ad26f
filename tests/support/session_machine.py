"""Random acts, clicks, expiries, duplicates, changes of arms and window, crashes and reloads of two workers."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from service.errors import InvalidRequestError, NoEligibleArmError, SurplusFeedbackError
from service.models.events import Choice, Idempotency
from service.sessions.act import Act
from service.sessions.changes import ChangeArms, NextDue, ReplaceArms
from service.sessions.feedback import SettleFeedback
from service.sessions.service import ArmsRequest
from tests.support.checked_session import NEEDS_SLOT, CheckedSession, numbers
from tests.support.crashing import Fault
from tests.support.decision_model import WINDOW, Model
from tests.support.machines import ANY_LABEL
from tests.support.sessions import digest

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
    def click(
        self, gap: float, at: int, data: st.DataObject, loss: float | None, fault: Fault | None, dies: bool
    ) -> None:
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
        fields = {"add": add, "remove": [*remove, "nobody"], "resume": resume, "pause": pause}
        self.change(at, then, partial(ChangeArms, **fields))

    @rule(gap=GAPS, at=WORKERS, arms=st.lists(NEW_LABEL, min_size=1, max_size=3))
    def replace_arms(self, gap: float, at: int, arms: list[str]) -> None:
        self.time += gap
        then = copy.deepcopy(self.model)
        then.pass_time(self.time)
        then.add(arms)
        then.remove(then.labels.keys() - set(arms))
        self.change(at, then, partial(ReplaceArms, arms=arms))

    def change(self, at: int, then: Model, change: ArmsRequest) -> None:
        """Change the arms; refused, and nothing changes, where none would be left to draw."""
        changing = self.workers[at].sessions.change_arms(self.name, change, None)
        if not then.drawable:
            with pytest.raises(InvalidRequestError):
                self.runner.run(changing)
            self.model.pass_time(self.time)
            return
        view = json.loads(self.runner.run(changing).body)
        self.model = then
        shown = {label: arm for arm, label in enumerate(view["learner"]["arms"]) if label is not None}
        assert shown == self.model.labels
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
    key = digest(f"key {next(numbers)}")
    return Act(count, 10**6, idempotency=Idempotency(key, digest("body")), **fields)
