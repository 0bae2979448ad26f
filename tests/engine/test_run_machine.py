"""Random acts, events, voids, expiries, changes of arms and reloads: what becomes of every act, by arm."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from service.commit.cache import CachedSession
from service.engine.arm_run import Change
from service.engine.ledger import ArmFeedback
from service.engine.run import SlotRun, expire_oldest, start_run
from service.models.stored import decode
from service.serialization import records
from service.serialization import state as codec
from service.serialization.binary import CHECKSUM_BYTES
from tests.support import runs
from tests.support.counted_run import WINDOW, CountedRun
from tests.support.machines import ANY_LABEL, FIELDS, run_machine


class SessionMachine(CountedRun):
    """All that a session does to its run."""

    @rule(count=st.integers(1, 8))
    def act(self, count: int) -> None:
        for _ in range(count):
            assert self.draw(None) in set(self.labels) - self.paused

    @precondition(lambda self: self.takes_eligible)
    @rule(
        names=st.lists(ANY_LABEL, max_size=6), count=st.integers(1, 4), bars=st.booleans(), by_index=st.booleans()
    )
    def act_of_some(self, names: list[str], count: int, bars: bool, by_index: bool) -> None:
        """Different arms, of those named or of the others."""
        known = self.run.arms.labels or {}
        listed = [known.get(name, 1000) for name in names] if by_index else names
        positions, skipped = self.run.arms.find(listed)
        may = [label for label in self.labels if label not in self.paused and (label in names) != bars]
        assert skipped == len({*listed}) - len({*names} & ({*self.labels} - self.paused))
        left = self.run.arms.without(positions) if bars else positions
        drawn: list[str] = []
        while len(drawn) < count and self.run.can_draw(left):
            drawn.append(self.draw(left))
            left = left[left != self.run.arms.positions[self.open[-1].arm]]
        assert len(drawn) == len({*drawn} & {*may}) == min(count, len(may))

    @precondition(lambda self: self.takes_eligible)
    @rule(pause=st.lists(ANY_LABEL, max_size=3), resume=st.lists(ANY_LABEL, max_size=3))
    def pause(self, pause: list[str], resume: list[str]) -> None:
        after = (self.paused - set(resume)) | (set(pause) & set(self.labels))
        if after < set(self.labels):
            self.run.change_arms(Change([], []), self.run.arms.with_pauses(resume, pause))
            self.paused = after

    @rule(arms=st.lists(st.sampled_from(["a", "b", "c", "x", "y"]), min_size=1, max_size=4, unique=True))
    def replace_arms(self, arms: list[str]) -> None:
        """As ``PUT`` does: the new ones come before the others go."""
        change = self.run.arms.change(arms, [label for label in self.labels if label not in arms])
        if self.paused >= set(arms):
            return
        before = self.outstanding()
        self.run.change_arms(change, adds_first=True)
        self.count(before, self.removed)
        staying = [label for label in self.labels if label in arms]
        self.labels = staying + [label for label in arms if label not in staying]
        self.paused &= set(arms)
        assert self.run.arms.shown_names == self.labels

    @precondition(lambda self: self.open)
    @rule(data=st.data(), loss=st.floats(0, 1), is_void=st.booleans())
    def feed(self, data: st.DataObject, loss: float, is_void: bool) -> None:
        given = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        event = ArmFeedback(given.arm, loss, given.slot)
        if isinstance(self.run, SlotRun):
            self.run.check_slot(event)
        if self.run.is_removed(event):
            return
        if self.run.surplus([event]):
            assert isinstance(self.run, SlotRun) or self.outstanding()[given.arm] == 0
            return
        if is_void:
            shown = self.run.probabilities
            self.run.void(event)
            assert self.run.probabilities.tolist() == shown.tolist()
            self.voided[given.arm] += 1
        else:
            self.run.settle(event)
            self.settled[given.arm] += 1

    @rule(seconds=st.floats(0, 2 * WINDOW))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.run.advance(self.now)
        before = self.outstanding()
        while self.run.due:
            for _ in expire_oldest(self.run):
                pass
        self.count(before, self.expired)

    @rule(data=st.data(), add=st.lists(st.sampled_from(["a", "b", "x", "y", "z"]), max_size=3))
    def change_arms(self, data: st.DataObject, add: list[str]) -> None:
        remove = data.draw(st.lists(st.sampled_from(self.labels), unique=True, max_size=len(self.labels) - 1))
        before, arms = self.outstanding(), self.run.arms
        change = arms.change(add, [*remove, "nobody"])
        staying = [label for label in self.labels if label not in remove]
        if not (set(staying) | set(change.added)) - (self.paused & set(staying)):
            return
        shown = runs.by_index(self.run, self.run.probabilities)
        if change.removed or change.added:
            self.run.change_arms(change)
        self.count(before, self.removed)
        self.labels = staying + [label for label in dict.fromkeys(add) if label not in staying]
        self.paused &= set(staying)
        assert self.run.arms.shown_names == self.labels
        kept = [arm for arm in arms.live if arm not in change.removed]
        after = runs.by_index(self.run, self.run.probabilities)
        if self.paused:
            return
        np.testing.assert_allclose(after[arms.size :], 1 / len(self.labels), rtol=1e-9)
        if not change.removed:
            np.testing.assert_allclose(after[kept] * shown[kept].sum(), shown[kept] * after[kept].sum(), rtol=1e-9)

    @rule()
    def reload(self) -> None:
        run = self.run
        for key, record in records.encode(run).items():
            if record is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = record
        data = codec.encode(run)
        stored = decode(runs.stored(run).encode())
        fresh = codec.decode(data, replace(start_run(self.params), arms=stored.arms))
        self.run = CachedSession("v", stored, fresh, data[-CHECKSUM_BYTES:], len(data)).with_records(self.kept).run
        assert codec.encode(self.run) == data
        assert self.run.probabilities.tolist() == run.probabilities.tolist()


@pytest.mark.parametrize("kind", FIELDS)
def test_every_act_is_settled_expired_removed_voided_or_outstanding(kind: str) -> None:
    run_machine(SessionMachine, {"kind": kind}, max_examples=40)
