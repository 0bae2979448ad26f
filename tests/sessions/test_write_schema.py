"""States are written in the newest schema that a setting allows, so that replicas of 0.1 can read them."""

from __future__ import annotations

import json

import pytest

from service.errors import OlderSchemaError
from service.learners.centred_tsallis import CentredTsallisSpec
from service.models.events import ArmEvent
from service.models.specification import Specification
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from service.store.memory import MemoryStore
from tests.support.sessions import sessions_on

SPEC = Specification(learner=CentredTsallisSpec(n_arms=2), seed=1)


async def acted(sessions):
    arm = json.loads((await sessions.submit("s", Act(1, 10**6, single=True))).body)["arm"]
    await sessions.submit("s", SettleFeedback([ArmEvent(arm=arm, loss=0.5)], None))
    return arm


@pytest.mark.parametrize("schema", [1, 2, 3])
async def test_all_states_of_a_session_are_written_in_the_schema_that_is_allowed(schema):
    store = MemoryStore()
    sessions, written = sessions_on(store, write_schema=schema), []
    await sessions.create("s", SPEC, None)
    for _ in range(2):
        written.append((await store.load("s")).state[0])
        await acted(sessions)

    assert [*written, (await store.load("s")).state[0]] == [schema] * 3


async def test_fields_that_0_1_does_not_know_are_not_stored_at_their_defaults():
    store = MemoryStore()
    await sessions_on(store).create("s", SPEC, None)

    fields = json.loads((await store.load("s")).spec)["specification"]

    assert set(fields) == {"learner", "loss_range", "normalize_losses"}


async def test_a_learner_that_0_1_does_not_know_is_refused_meanwhile():
    class NewSpec(CentredTsallisSpec):
        kind: str = "new"

    sessions = sessions_on(MemoryStore(), write_schema=1)

    with pytest.raises(OlderSchemaError, match="kind"):
        await sessions.create(
            "s", Specification.model_construct(**dict(SPEC) | {"learner": NewSpec(n_arms=2)}), None
        )
