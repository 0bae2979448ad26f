"""A view is written in two ways, by its length, and both say the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

from service.commit.cache import CachedSession
from service.cooperative import STREAMED_FROM_BYTES
from service.models.specification import Specification
from service.models.stored import Stored
from service.sessions.views import SHORT_ARMS, fields_of, session_view
from service.store.base import Snapshot
from tests.support import kept_states


def said_at_once(snapshot, cached):
    fields = fields_of("one", snapshot, cached)
    numbers = {name: value.tolist() for name, value in fields.items() if isinstance(value, np.ndarray)}
    return json.dumps(fields | numbers, separators=(",", ":"))


def view_of(snapshot, cached):
    view = session_view("one", snapshot, cached)
    return view.decode() if isinstance(view, bytes) else "".join(view)


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
    run.state = run.state._replace(p=p / p.sum())
    cached = CachedSession("v-1", stored, run, b"", 0)
    snapshot = Snapshot("v-1", b"", b"", 1_700_000_000.0, 1_800_000_000.5)

    assert view_of(snapshot, cached) == said_at_once(snapshot, cached)


def test_a_view_made_at_once_is_one_that_is_sent_at_once():
    p = np.random.default_rng(1).random(SHORT_ARMS) * 1e-100
    p[-1] = 1 - p[:-1].sum()
    stored = Stored(Specification(learner={"kind": "fixed", "n_arms": p.size, "probabilities": p.tolist()}), 1)

    view = session_view(
        "one", Snapshot("v-1", b"", b"", 0.0, None), CachedSession("v-1", stored, stored.start(), b"", 0)
    )

    assert len(view) < STREAMED_FROM_BYTES
