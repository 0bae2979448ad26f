"""Whatever clients do and whenever workers crash: what the store holds is what a model says.

The store is a real one, and sessions are of losses or of rewards.
"""

import pytest
from hypothesis import Phase
from hypothesis.stateful import invariant

from service.commit import batch
from service.learners import feature_tsallis
from service.models.events import SegmentsSpec
from service.models.specification import ExpirySpec, Specification
from service.serialization import records as segment_records
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from tests.support.examples import some_quick
from tests.support.machines import FIELDS, run_machine
from tests.support.session_machine import SessionMachine, numbers


class SegmentMachine(SessionMachine):
    """The same with more segments than are kept; what comes back may name another segment than its act."""

    most = 3

    def expiry(self, window):
        plain = ExpirySpec.model_validate({"after_seconds": window, f"default_{self.word}": None})
        return plain if self.kind == "centred_tsallis" else SessionMachine.expiry(self, window)

    def specification(self, learner, seed):
        plain = SessionMachine.specification(self, learner, seed)
        return Specification(**dict(plain) | {"segments": SegmentsSpec(max=self.most)})

    def call(self, at, operation, fault=None, *, dies=False):
        segment = (None, "a", "b", "c", "d")[next(numbers) * 7 % 5]
        if isinstance(operation, Act):
            operation.segment = segment
        elif isinstance(operation, SettleFeedback):
            operation.events = [event.model_copy(update={"segment": segment}) for event in operation.events]
        return SessionMachine.call(self, at, operation, fault, dies=dies)

    @invariant()
    def the_store_holds_as_many_segments_as_the_state_says(self):
        if not hasattr(self, "workers"):
            return
        run, store = self.runner.run(self.stored()), self.workers[0].store
        names = self.runner.run(store.segment_names(self.name, None, 100))
        found = self.runner.run(store.read_segments(self.name, names, 100))
        assert len(names) == run.shared.kept <= self.most
        assert sorted(name for _, name in found.oldest) == list(names)
        for name, record in zip(names, found.records, strict=True):
            kept = segment_records.decode_segment(name, record, run.arms)
            assert (kept.last_slot, name) in found.oldest
            fitted = run.fitted(kept)
            assert fitted.outstanding >= 0
            assert abs(run.probabilities_of(fitted).sum() - 1) < 1e-9


class FeatureMachine(SessionMachine):
    """The same with features of visitors, which are mostly said, not always the same at act and event."""

    def specification(self, learner, seed):
        plain = dict(SessionMachine.specification(self, learner, seed)) | {"floor": 0.0, "tokens": True}
        age = {"kind": "number", "range": [0, 9]}
        return Specification(**plain | {"features": {"age": age, "zip": {"kind": "category", "buckets": 3}}})

    def call(self, at, operation, fault=None, *, dies=False):
        said = ({"age": 3, "zip": "a"}, {"zip": "b"}, None, {"age": 9})[next(numbers) * 7 % 4]
        if isinstance(operation, Act):
            operation.features = said
        elif isinstance(operation, SettleFeedback):
            operation.events = [event.model_copy(update={"features": said}) for event in operation.events]
        return SessionMachine.call(self, at, operation, fault, dies=dies)


@pytest.mark.parametrize("kind", some_quick(FIELDS, {"dexp3", "exp3"}))
def test_no_crash_loses_a_decision_or_settles_one_twice(kind, redis_server, monkeypatch):
    """Every bucket that expires is a commit of its own here, so crashes strike between them too."""
    monkeypatch.setattr(batch, "EXPIRY_SECONDS", 0.0)
    attributes = {"kind": kind, "url": redis_server.url}
    run_machine(SessionMachine, attributes, max_examples=15, phases=(Phase.generate,), report_multiple_bugs=False)


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        (SegmentMachine, "multiscale_tsallis"),
        pytest.param(SegmentMachine, "centred_tsallis", marks=pytest.mark.slow),
        (FeatureMachine, "multiscale_tsallis"),
    ],
)
def test_no_crash_loses_or_doubles_a_segment_or_what_is_known_of_visitors(machine, kind, redis_server, monkeypatch):
    monkeypatch.setattr(batch, "EXPIRY_SECONDS", 0.0)
    monkeypatch.setattr(feature_tsallis, "ROW_BYTES", 64)
    attributes = {"kind": kind, "url": redis_server.url}
    run_machine(machine, attributes, max_examples=5, phases=(Phase.generate,), report_multiple_bugs=False)
