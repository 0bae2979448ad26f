"""State bytes: exact, checked, and refused when newer or damaged."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest

from service.engine.ledger import ArmFeedback, Params
from service.engine.run import start_run
from service.errors import NewerSchemaError
from service.learners.dexp3 import Dexp3Spec, State
from service.serialization import state as codec
from service.serialization.binary import CodecError, Writer


def a_run(n_arms=3):
    run = start_run(Params(Dexp3Spec(n_arms=n_arms), 5))
    for _ in range(7):
        run.act()
    arm = int(np.argmax(run.ledger.by_arm))
    run.settle(ArmFeedback(arm, 0.1))
    return run


@pytest.mark.parametrize("n_arms", [1, 3, 900])
def test_what_is_read_is_what_was_written_to_the_last_bit(n_arms):
    run = a_run(n_arms)
    data = codec.encode(run.ledger, run.state)

    ledger, _, state, *_ = codec.decode(data, State, by_arm=True)

    assert codec.encode(ledger, state) == data
    assert state.p.tobytes() == run.state.p.tobytes()
    assert (ledger.slot, ledger.outstanding, ledger.by_arm.tolist()) == (7, 6, run.ledger.by_arm.tolist())


def test_every_damage_of_one_byte_and_every_cut_is_noticed():
    run = a_run()
    data = codec.encode(run.ledger, run.state)

    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x41
        with pytest.raises(CodecError):
            codec.decode(bytes(damaged), State, by_arm=True)
        with pytest.raises(CodecError):
            codec.decode(data[:place], State, by_arm=True)


def resealed(body):
    return body + zlib.crc32(body).to_bytes(4, "little")


def test_a_newer_schema_is_told_from_damage():
    run = a_run()
    body = codec.encode(run.ledger, run.state)[:-4]
    newer = resealed(bytes([codec.NEWEST + 1]) + body[1:])

    with pytest.raises(NewerSchemaError):
        codec.refuse_newer(newer)
    with pytest.raises(CodecError):
        codec.decode(newer, State, by_arm=True)
    for other in (newer[:-1], newer[:-1] + b"x", resealed(b"\0" + body[1:]), resealed(body), newer[:3], b""):
        codec.refuse_newer(other)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_none_are_refused(number):
    run = a_run()
    state = run.state._replace(weights=np.array([number, 0.5, 0.5]))

    with pytest.raises(CodecError):
        codec.decode(codec.encode(run.ledger, state), State, by_arm=True)


def test_states_of_another_learner_are_refused():
    run = a_run()
    body = codec.encode(run.ledger, run.state)[:-4]

    for wrong in (resealed(body + b"more"), resealed(body[:-8])):
        with pytest.raises(CodecError):
            codec.decode(wrong, State, by_arm=True)


NAMES = ["a", "b", "c"]


def a_changed_run():
    run = start_run(Params(Dexp3Spec(arms=NAMES), 5))
    for _ in range(7):
        run.act()
    run.change_arms(run.arms.change(["x", "\u00fc"], ["b"]))
    return run


def test_changed_arms_are_read_as_they_were_written():
    run = a_changed_run()
    data = codec.encode(run.ledger, run.state, run.arms)

    read = codec.decode(data, State, by_arm=True)
    arms = codec.decode_arms(read.arms, start_run(run.params).arms, NAMES)

    assert (arms.live, arms.names, arms.labels) == (run.arms.live, run.arms.names, run.arms.labels)
    assert codec.encode(read.ledger, read.state, arms) == data
    assert codec.decode_arms(read.arms, run.arms, NAMES) is run.arms


def test_arms_that_never_changed_take_no_room():
    run = start_run(Params(Dexp3Spec(arms=NAMES), 5))

    assert codec.encode(run.ledger, run.state, run.arms) == codec.encode(run.ledger, run.state)
    read = codec.decode(codec.encode(run.ledger, run.state), State, by_arm=True)
    assert read.arms == b""
    assert codec.decode_arms(b"", a_changed_run().arms, NAMES).names == NAMES


def test_arms_of_other_sessions_are_refused():
    run = a_changed_run()
    arms = codec.decode(codec.encode(run.ledger, run.state, run.arms), State, by_arm=True).arms
    known = start_run(Params(Dexp3Spec(n_arms=3), 5)).arms

    with pytest.raises(CodecError):
        codec.decode_arms(arms, known, None)
    with pytest.raises(CodecError):
        codec.decode_arms(arms, known, ["a", "b"])


@pytest.mark.parametrize("paused", [[1], [0, 0], [7]])
def test_pauses_of_arms_that_are_not_live_are_refused(paused):
    run = a_changed_run()
    writer = Writer()
    for indexes in (run.arms.live, paused):
        writer.integers(np.array(indexes))
    data = b"".join(writer.parts) + json.dumps(run.arms.added).encode()

    with pytest.raises(CodecError, match="paused"):
        codec.decode_arms(data, start_run(run.params).arms, NAMES)
