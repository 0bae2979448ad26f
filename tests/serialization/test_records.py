"""What is kept beside a state is sent only when it changes, and read back as it was."""

from __future__ import annotations

import pytest

from service.commit.cache.cached_session import CachedSession
from service.engine.feedback import ArmFeedback
from service.learners import REGISTRY
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization import records
from service.serialization import state as codec
from service.serialization.binary import CodecError
from service.store.base import Snapshot, Written


def cached(kind="bold", **fields):
    learner = REGISTRY[kind].model_validate({"n_arms": 4, "learning_rate": 0.1})
    stored = Stored.of(Specification(learner=learner, seed=3, **fields))
    run = stored.start()
    snapshot = Snapshot("0", stored.encode(), codec.encode(run.ledger, run.state), 0.0, None)
    return CachedSession.of(snapshot).with_records({})


def committed(before, run, kept):
    """The next version as its writer keeps it, and what a reader makes of the store."""
    for key, value in records.encode(run).items():
        kept.pop(key, None) if value is None else kept.update({key: value})
    state = before.encode(run)
    snapshot = Snapshot("1", before.stored.encode(), state, 0.0, None)
    return before.committed_as(Written("1", state), run, None, before.stored), CachedSession.of(
        snapshot
    ).with_records(kept)


def test_a_commit_of_bold_sends_its_own_slot_and_instance_however_many_are_open():
    kept, here = {}, cached()
    for t in range(1, 201):
        run = here.run.copy()
        run.act()
        sent = records.encode(run)
        assert set(sent) == {b"%d" % t, b"r%d" % (t - 1)}
        here, _ = committed(here, run, kept)
    state = here.encode(here.run)

    run = here.run.copy()
    arm = run.open_slots.get(77).arm
    run.settle(ArmFeedback(arm, 1.0, 77))

    assert set(records.encode(run)) == {b"77", b"r76"}
    assert len(state) < 3_000
    _, read = committed(here, run, kept)
    assert [row.tolist() for row in read.run.state.log_weights] == [row.tolist() for row in run.state.log_weights]
    assert read.run.open_slots.up_to(200) == run.open_slots.up_to(200)


@pytest.mark.parametrize("harm", ["cut", "other", "missing"])
def test_damaged_records_are_refused(harm):
    kept, here = {}, cached()
    run = here.run.copy()
    run.act()
    here, _ = committed(here, run, kept)
    if harm == "missing":
        del kept[b"r0"]
    else:
        kept[b"r0"] = kept[b"r0"][:-1] if harm == "cut" else kept[b"1"]

    with pytest.raises(CodecError):
        records.decode(kept, here.run)
