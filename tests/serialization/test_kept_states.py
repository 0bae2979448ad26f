"""What is stored is read as it was written, and what a newer version wrote is refused: every kind of learner."""

import pytest

from service.commit.batch import packed_answer
from service.engine.arm_run import ArmRun
from service.errors import StateCorruptError
from service.models.events import Idempotency, digest
from service.serialization import state
from service.serialization.binary import CodecError
from tests.support import kept_states


def near(value):
    """Numbers to 12 digits, as another processor may round a step differently; all else as it is."""
    if isinstance(value, dict):
        return {name: near(each) for name, each in value.items()}
    if isinstance(value, list):
        return [near(each) for each in value]
    return pytest.approx(value, rel=1e-12, abs=1e-15) if isinstance(value, float) else value


@pytest.mark.parametrize("name", kept_states.names())
def test_a_kept_session_is_shown_and_goes_on_as_then(name):
    kept = kept_states.load(name)

    assert kept_states.view(kept) == near(kept["view"])
    assert kept_states.go_on(kept_states.read(kept)[1].run.copy()) == near(kept["next"])


@pytest.mark.parametrize("name", kept_states.names())
def test_a_kept_session_is_full_of_what_its_kind_can_hold(name):
    kept = kept_states.load(name)
    _, cached = kept_states.read(kept)
    run = cached.run

    assert run.ledger.outstanding > 0
    assert len(run.act_times.acts) > 1
    if isinstance(run, ArmRun):
        assert kept["view"]["learner"]["arms"] == ["a", "c", "d", "e"]
        assert bool(run.arms.paused) == run.learner.takes_eligible
        assert (run.ledger.judged, run.ledger.late, run.act_times.expired.keys()) == (20, 3, {0, 1})
    assert (run.ledger.logged, run.ledger.voided) == (19, 1)
    if name in {"exp3", "bold"}:
        assert len(run.open_slots) == run.ledger.outstanding
    assert bool(state.rows_of(run)) == (name in {"bold", "features_multiscale_tsallis"})


@pytest.mark.parametrize("name", kept_states.names())
def test_a_damaged_record_is_refused(name):
    kept = kept_states.load(name)
    for key, record in kept["records"].items():
        damaged = kept["records"] | {key: f"{int(record[:2], 16) ^ 1:02x}{record[2:]}"}
        with pytest.raises(StateCorruptError):
            kept_states.read(kept | {"records": damaged})
    for segment, (slot, record) in kept.get("segments", {}).items():
        damaged = kept["segments"] | {segment: (slot, f"{int(record[:2], 16) ^ 1:02x}{record[2:]}")}
        with pytest.raises(CodecError):
            kept_states.read(kept | {"segments": damaged})


@pytest.mark.parametrize("name", [n for n in kept_states.names() if n.startswith(kept_states.WITH_SEGMENTS)])
def test_kept_segments_are_as_they_were_played(name):
    """One was dropped, one was not used since arms were changed, one has outstanding decisions in its window."""
    run = kept_states.read(kept_states.load(name))[1].run
    home, cart, search = map(run.segments.get, kept_states.SEGMENTS)

    assert home is None
    assert search.live is run.arms.live
    assert cart.live != search.live
    assert sum(count for _, count in search.acts) >= search.outstanding > 0
    assert cart.feedbacks > 0
    assert cart.segment.sums.any()
    assert search.segment.full is not search.segment.drawn


def test_what_stands_for_event_ids_and_keys_never_changes():
    """Else an event that was counted before an upgrade would count again after it."""
    assert digest("e1").hex() == "afdd4403c41069df839dbe2249f98aee"
    found = digest("key", "POST", "/v1/sessions/{session_id}/act", "jokes")
    assert found.hex() == "a8fb4724706d841d89f0717b27f7f917"
    assert packed_answer(bytes(range(16)) + b'{"slot":1}', Idempotency(b"", bytes(range(16)))) == b'{"slot":1}'
