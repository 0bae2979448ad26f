"""State bytes: exact, checked, and refused when newer or damaged."""

import json
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest

from service.engine.ledger import ArmFeedback, ArmLedger, Params
from service.engine.run import start_run
from service.errors import NewerSchemaError
from service.learners.dexp3 import Dexp3Spec
from service.learners.fixed import FixedSpec
from service.models.stored import decode
from service.serialization import state as codec
from service.serialization.binary import CodecError
from service.serialization.records import Learned
from service.store.base import head_of
from tests.support import runs
from tests.support.kept_states import load, names, read


def a_run(n_arms=3):
    run = start_run(Params(Dexp3Spec(n_arms=n_arms), 5))
    for _ in range(7):
        run.act()
    run.settle(ArmFeedback(int(np.argmax(run.ledger.by_arm)), 0.1))
    return run


def test_a_small_state_is_as_it_is_told():
    """Two arms at (0.5, 0.5), one decision outstanding for the second: every byte by hand."""
    run = start_run(Params(FixedSpec(n_arms=2), 5))
    run.advance(1e9)
    run.ledger = ArmLedger(
        3, 2, 0, 0, 1, 1, 1e9, 0, 2, 0.25, 1e9, 5e8, 2, 1, 1, 0.125, False, by_arm=np.array([0, 1])
    )

    head = struct.pack("<BHBB", 1, 137, codec.MOSTLY_SURPLUS, 0)
    head += struct.pack("<6qd2q3dIBBd", 3, 2, 0, 0, 1, 1, 1e9, 0, 2, 0.25, 1e9, 5e8, 2, 1, 1, 0.125)
    head += struct.pack("<3Id", 2, 0, 0, 2.0)
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    body = head + struct.pack("<2d", 0.5, 0.5) + bytes([0, 1])
    assert codec.encode(run, effective=2.0, mostly_surplus=True) == resealed(body)


def test_every_damage_of_one_byte_and_every_cut_is_noticed():
    run = a_run()
    data = codec.encode(run)
    head = head_of(data)

    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        with pytest.raises(CodecError):
            codec.decode(bytes(damaged), run)
        with pytest.raises(CodecError):
            codec.decode(data[:place], run)
        if place < len(head):
            with pytest.raises((CodecError, struct.error)):
                codec.read_shown(head_of(bytes(damaged)))


def resealed(body):
    return body + zlib.crc32(body).to_bytes(4, "little")


def test_a_newer_schema_is_told_from_damage():
    run = a_run()
    body = codec.encode(run)[:-4]
    newer = resealed(bytes([codec.NEWEST + 1]) + body[1:])

    with pytest.raises(NewerSchemaError):
        codec.refuse_newer(newer)
    with pytest.raises(CodecError):
        codec.decode(newer, run)
    for other in (newer[:-1], newer[:-1] + b"x", resealed(b"\0" + body[1:]), resealed(body), newer[:3], b""):
        codec.refuse_newer(other)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(number):
    run = a_run()
    states = (run.state._replace(weights=np.array([number, 0.5, 0.5])), run.state._replace(loss_clip=number))

    for odd in ({"ledger": replace(run.ledger, time=number)}, *({"state": state} for state in states)):
        with pytest.raises(CodecError):
            codec.decode(codec.encode(replace(run, **odd)), run)


@pytest.mark.parametrize("name", names())
def test_states_of_another_session_are_refused(name):
    run = read(load(name))[1].run
    body = codec.encode(run)[:-4]

    others = (read(load(other))[1].run for other in names())
    theirs = [codec.encode(other) for other in others if type(other.state) is not type(run.state)]
    for wrong in (resealed(body + b"more"), resealed(body[:-8]), *theirs):
        with pytest.raises(CodecError):
            codec.decode(wrong, run)


@pytest.mark.parametrize("odd", [{"slot": 9}, {"by_arm": np.array([6, 1, 0])}, {"outstanding": 5, "feedbacks": 2}])
def test_counts_that_do_not_add_up_are_refused(odd):
    run = a_run()

    with pytest.raises(CodecError):
        codec.decode(codec.encode(replace(run, ledger=replace(run.ledger, **odd))), run)


NAMES = ["a", "b", "c"]


def a_changed_run():
    run = start_run(Params(Dexp3Spec(arms=NAMES), 5))
    for _ in range(7):
        run.act()
    run.change_arms(run.arms.change(["x", "\u00fc"], ["b"]))
    return run


def fresh(stored):
    """The run that another worker starts with."""
    return decode(stored.encode()).start()


def test_changed_arms_are_read_as_they_were_written():
    run = a_changed_run()
    data, stored = codec.encode(run), runs.stored(run)
    arms = json.loads(stored.encode())["arms"]
    assert arms == {"size": 5, "live": [0, 2, 3, 4], "paused": [], "added": ["x", "\u00fc"]}

    again = codec.decode(data, fresh(stored))

    assert [again.arms.live, again.arms.names] == [[0, 2, 3, 4], {0: "a", 2: "c", 3: "x", 4: "\u00fc"}]
    assert (again.arms.labels, again.arms.size, again.arms.removed) == (run.arms.labels, 5, None)
    assert codec.encode(again) == data


def test_a_state_has_no_labels_and_no_removed_arms():
    named, plain = (start_run(Params(Dexp3Spec(**arms), 5)) for arms in ({"arms": NAMES}, {"n_arms": 3}))
    changed = start_run(Params(Dexp3Spec(arms=NAMES), 5))
    for number in range(1000):
        changed.change_arms(changed.arms.change([f"n{number}"], [changed.arms.shown_names[0]]))

    assert codec.encode(named) == codec.encode(plain)
    changed.ledger = plain.ledger
    assert len(codec.encode(changed)) <= len(codec.encode(plain)) + changed.state.weights.nbytes


@pytest.mark.parametrize("other", [{"n_arms": 3}, {"arms": ["a", "b"]}, {"arms": [*NAMES, "d", "e"]}])
def test_states_of_other_arms_are_refused(other):
    with pytest.raises(CodecError):
        codec.decode(codec.encode(a_changed_run()), start_run(Params(Dexp3Spec(**other), 5)))


@pytest.mark.parametrize(
    "wrong",
    [
        *({"size": size} for size in (4, 2, 2**32, 10**400, 5.0, True, "5", None)),
        *({"live": live} for live in ([], [0, 2, 3], [2, 0, 3, 4], [0, 2, 3, 5], [-1, 2, 3, 4], [0, 2, 2, 4], 7)),
        *({"paused": paused} for paused in ([1], [9], [-1], [0, 2, 3, 4], ["a"], {})),
        *({"added": added} for added in ([], ["x"], ["x", "y", "z"], ["a", "x"], ["x", "x"], [7, 8], "xy")),
        {"more": 1},
        None,
    ],
)
def test_arms_that_nobody_wrote_are_refused(wrong):
    fields = json.loads(runs.stored(a_changed_run()).encode())
    assert decode(json.dumps(fields).encode()).arms is not None
    if wrong is None:
        fields["specification"]["learner"] = {"kind": "dexp3", "n_arms": 3}
    else:
        fields["arms"] |= wrong

    with pytest.raises(ValueError, match="specification"):
        decode(json.dumps(fields).encode())


def test_what_was_learned_for_an_id_is_read_as_it_was_written_and_nothing_else_is():
    event_id, other = b"i" * 16, b"o" * 16
    for learned in (
        Learned.of(ArmFeedback(7, 0.1, segment="x"), 1e9),
        Learned(2**32 - 1, 0.0, 0.0, b"", is_control=True, since=2**53),
    ):
        assert Learned.decode(event_id, learned.encode(event_id)) == learned
        with pytest.raises(CodecError):
            Learned.decode(other, learned.encode(event_id))
    good = Learned(1, 0.5, 1e9)
    wrong = [{"loss": -1.0}, {"loss": np.nan}, {"at": 1e12}, {"segment": b"short"}, {"since": -1}]
    for fields in wrong:
        with pytest.raises(CodecError, match="not the value of an event id"):
            Learned.decode(event_id, good._replace(**fields).encode(event_id))
    with pytest.raises(CodecError):
        Learned.decode(event_id, b"")
