"""Sessions begin, are written and are shown as their specification says, whatever they share with others."""

import json
import re

import numpy as np
import pytest

from service.commit.cache import CachedSession
from service.cooperative import STREAMED_FROM_BYTES
from service.models import stored as stored_specification
from service.models.specification import Specification
from service.models.stored import SEED_BITS, Stored
from service.sessions import create as beginning
from service.sessions.create import Beginning
from service.sessions.views import SHORT_ARMS, fields_of, session_view
from service.store.base import Snapshot
from tests.support import kept_states


def said_at_once(snapshot, cached):
    fields = fields_of("one", snapshot, cached)
    numbers = {name: value.tolist() for name, value in fields.items() if isinstance(value, np.ndarray)}
    return json.dumps(fields | numbers, separators=(",", ":"))


def view_of(snapshot, cached):
    """Without the leader, which a session with acts has of the store."""
    view = session_view("one", snapshot, cached)
    return re.sub(r',"leader":{[^}]*}', "", view.decode() if isinstance(view, bytes) else "".join(view))


@pytest.mark.parametrize("name", kept_states.names())
def test_a_view_has_the_fields_of_its_session(name):
    snapshot, cached = kept_states.read(kept_states.load(name))

    assert view_of(snapshot, cached) == said_at_once(snapshot, cached)


@pytest.mark.parametrize("arms", [1, 100, SHORT_ARMS, SHORT_ARMS + 1])
@pytest.mark.parametrize("least", [0.3, 1e-300])
def test_probabilities_of_any_size(arms, least):
    stored = Stored(Specification(learner={"kind": "dexp3", "n_arms": arms}), 1)
    run = stored.start()
    p = np.exp(np.random.default_rng(arms).uniform(np.log(least), 0, arms))
    p[arms // 2] = 0.0 if arms > 1 else 1.0
    run.state = run.state._replace(weights=p, total=float(p.sum()))
    cached = CachedSession("v-1", stored, run, b"", 0)
    snapshot = Snapshot("v-1", b"", b"", 1_700_000_000.0, 1_800_000_000.5)

    assert view_of(snapshot, cached) == said_at_once(snapshot, cached)


def test_a_view_made_at_once_is_one_that_is_sent_at_once():
    p = np.random.default_rng(1).random(SHORT_ARMS) * 1e-100
    p[-1] = 1 - p[:-1].sum()
    stored = Stored(Specification(learner={"kind": "fixed", "n_arms": p.size, "probabilities": p.tolist()}), 1)

    cached = CachedSession("v-1", stored, stored.start(), b"", 0)
    view = session_view("one", Snapshot("v-1", b"", b"", 0.0, None), cached)

    assert len(view) < STREAMED_FROM_BYTES


CREATED = Snapshot("v-9", b"", b"", 1_700_000_000.0, None)


DEXP3 = {"kind": "dexp3", "n_arms": 3}


def begun(session_id, stored):
    made = Beginning.of(session_id, "v-1", None, 1, stored)
    view = made.view(CREATED)
    return made.new, view if isinstance(view, bytes) else "".join(view).encode()


@pytest.mark.parametrize("name", kept_states.names())
def test_a_session_begins_as_if_it_were_the_first_of_its_kind(name, monkeypatch):
    stored = kept_states.read(kept_states.load(name))[1].stored
    shared = [begun(session_id, stored) for session_id in ("a", "b")]
    monkeypatch.setattr(beginning, "SHORT_ARMS", 0)

    assert shared == [begun(session_id, stored) for session_id in ("a", "b")]


def test_seeds_are_their_own():
    one, other = (begun("a", Stored(Specification(learner=DEXP3, seed=seed), seed))[0] for seed in (1, 2))

    assert (one.spec, other.spec) == (one.spec, one.spec.replace(b'"seed":1}', b'"seed":2}'))
    assert (one.state, one.about) == (other.state, other.about)


@pytest.mark.parametrize("fields", [{"idle_ttl_seconds": 60.0}, {"floor": 0.25}, {"loss_range": [0.0, 2.0]}])
def test_other_fields_begin_another_way(fields):
    one, other = (Stored(Specification(learner=DEXP3, **more), 1) for more in ({}, fields))

    assert begun("a", one) != begun("a", other)
    assert beginning.Start.of(other, 1).view == Beginning.of("a", "v-1", None, 1, other).start.view


def test_sessions_that_are_read_share_their_specification():
    one, other = (Stored(Specification(learner=DEXP3), seed).encode() for seed in (1, 2**SEED_BITS - 1))
    read = [stored_specification.decode(spec) for spec in (one, other)]

    assert [each.seed for each in read] == [1, 2**SEED_BITS - 1]
    assert read[0].specification is read[1].specification


@pytest.mark.parametrize("spaces", ["", " "])
def test_a_specification_is_read_however_its_json_is_spaced(spaces):
    spec = Stored(Specification(learner=DEXP3), 7).encode().replace(b',"seed":', f',"seed":{spaces}'.encode())

    assert stored_specification.decode(spec) == Stored(Specification(learner=DEXP3), 7)


@pytest.mark.parametrize("seed", [b"07", b"-1", b"1.5", b"null", str(2**SEED_BITS).encode(), b"9" * 5000])
def test_a_seed_that_no_session_has_is_refused(seed):
    spec = Stored(Specification(learner=DEXP3), 7).encode()

    with pytest.raises(ValueError, match="not a session's specification"):
        stored_specification.decode(spec.replace(b":7}", b":" + seed + b"}"))
