"""What is kept beside a state is sent only when it changes, and read back as it was."""

import struct

import pytest

from service.commit.cache import CachedSession
from service.engine.arm_run import Removed
from service.engine.ledger import ArmFeedback
from service.errors import StateCorruptError
from service.learners import REGISTRY
from service.models.specification import ExpirySpec, Specification
from service.models.stored import Stored
from service.serialization import records
from service.serialization import state as codec
from service.serialization.binary import CodecError, record_of
from service.store.base import Snapshot, Written


def cached(kind="bold", **fields):
    learner = REGISTRY[kind].model_validate({"n_arms": 4, "learning_rate": 0.1})
    stored = Stored.of(Specification(learner=learner, seed=3, **fields))
    run = stored.start()
    return CachedSession.of(Snapshot("0", stored.encode(), codec.encode(run), 0.0, None)).with_records({})


def committed(before, run, kept):
    """The next version as its writer keeps it, and what a reader makes of the store."""
    for key, value in records.encode(run).items():
        kept.pop(key, None) if value is None else kept.update({key: value})
    state = codec.encode(run)
    snapshot = Snapshot("1", before.stored.encode(), state, 0.0, None)
    after = before.committed_as(Written("1", state), run, None, before.stored)
    return after, CachedSession.of(snapshot).with_records(kept)


def test_a_commit_of_bold_sends_its_own_slot_and_instance_however_many_are_open():
    kept, here = {}, cached()
    for t in range(1, 201):
        run = here.run.copy()
        run.act()
        assert set(records.encode(run)) == {b"%d" % t, b"r%d" % (t - 1)}
        here, _ = committed(here, run, kept)
    state = codec.encode(here.run)

    run = here.run.copy()
    run.settle(ArmFeedback(run.open_slots.get(77).arm, 1.0, 77))

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


def slot_records(numbers, width=1):
    found = {}
    for slot in numbers:
        key = b"%d" % slot
        found[key] = records.record_of(key, struct.pack(f"<q{width}d", slot % 4, *[slot / 8] * width))
    return found


def test_slots_of_any_number_of_digits_are_read():
    numbers = [*range(1, 2000), 10**9, 10**18 - 1]

    slots = cached("exp3").with_records(slot_records(numbers)).run.open_slots

    assert list(slots.stored) == numbers
    assert [slots.get(slot) for slot in numbers] == [(slot % 4, (slot / 8,)) for slot in numbers]
    assert len(cached("exp3").with_records({}).run.open_slots) == 0


@pytest.mark.parametrize("place", [0, 1234, 1999])
@pytest.mark.parametrize("byte", [0, 9, 19])
def test_one_damaged_slot_of_many_is_found(place, byte):
    kept = slot_records(range(2000))
    data = bytearray(kept[b"%d" % place])
    data[byte] ^= 4
    kept[b"%d" % place] = bytes(data)

    with pytest.raises(CodecError):
        records.decode(kept, cached("exp3").run)


@pytest.mark.parametrize("after", [b"b1", b"r0", b"1"])
def test_an_empty_key_is_refused_before_any_other(after):
    kept = {key: records.record_of(key, struct.pack("<qd", 1, 0.5)) for key in (b"", after)}

    with pytest.raises(CodecError):
        records.decode(kept, cached("exp3").run)


FOREIGN_KEYS = (b"", b"x", b"-1", b"1e1", b" 1", b"1" * 19, b"9" * 200)
OTHER_LENGTHS = (b"", bytes(7), bytes(12), bytes(17), bytes(24))
FOREIGN = [(key, records.record_of(key, struct.pack("<qd", 1, 0.5))) for key in FOREIGN_KEYS]
FOREIGN += [(b"100", records.record_of(b"100", body)) for body in OTHER_LENGTHS] + [(b"1", b""), (b"1", b"abc")]


@pytest.mark.parametrize(("key", "record"), FOREIGN)
def test_a_record_beside_slots_that_is_none_of_one_is_refused(key, record):
    with pytest.raises(CodecError):
        records.decode(slot_records(range(100)) | {key: record}, cached("exp3").run)


def test_slots_of_arms_that_never_were_are_refused():
    kept = slot_records(range(100))
    kept[b"100"] = records.record_of(b"100", struct.pack("<qd", 4, 0.5))

    with pytest.raises(StateCorruptError):
        cached("exp3").with_records(kept)


@pytest.fixture
def removed():
    """A session with a window from which an arm was removed, and its records."""
    learner = REGISTRY["dexp3"].model_validate({"arms": ["a", "b", "c"]})
    stored = Stored.of(Specification(learner=learner, seed=3, expiry=ExpirySpec(after_seconds=64.0)))
    run = stored.start()
    for second in range(4):
        run.advance(float(second))
        run.act_all(5)
    kept = dict(records.encode(run))
    before, change = run.arms, run.arms.change(["x"], ["b"])
    run.change_arms(change, before.changed(change, 99.0))
    kept |= records.encode_removed(before, run.arms, change)
    snapshot = Snapshot("0", stored._replace(arms=run.arms).encode(), codec.encode(run), 0.0, None)
    return run, CachedSession.of(snapshot), kept


def test_what_is_read_of_removed_arms_is_what_their_session_knows(removed):
    """Their acts are no longer told apart, and their labels are known."""
    run, session, kept = removed

    read = session.with_records(kept).run

    assert read.arms.removed == run.arms.removed == {"b": Removed(1, 99.0)}
    assert {bucket: acts.sum() for bucket, acts in read.act_times.acts.items()} == dict.fromkeys(range(4), 5)
    for bucket, acts in run.act_times.acts.items():
        assert read.act_times.acts[bucket].tolist() == [*acts.tolist(), *[0] * (4 - acts.size)]
    assert read.act_times.before(read.ledger.by_arm).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("key", "body"),
    [
        *((key, struct.pack("<d", 99.0) + b"b") for key in (b"a0", b"a4", b"a-1", b"a", b"ax")),
        *((b"a1", body) for body in (struct.pack("<d", 99.0) + b"a", struct.pack("<d", 9.0) + b"\xff", b"short")),
        *((b"b0", struct.pack(f"<{len(row)}q", *row)) for row in ((5, 4, 5), (5, -1, 5), (4, 0, 5), (5, 0, -1))),
        *((b"b-1", struct.pack(f"<{len(row)}q", *row)) for row in ((4, 5), (-1, 5), (0, -1), (0, 2**60), (0,), ())),
    ],
)
def test_records_of_other_arms_are_refused(removed, key, body):
    _, session, kept = removed

    with pytest.raises(StateCorruptError):
        session.with_records({**kept, key: record_of(key, body)})
