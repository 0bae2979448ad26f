"""Histories: what a sample has, and how many there are."""

import json

import numpy as np
import pytest

from service.commit.cache import CachedSession, SessionCache
from service.errors import StoreUnavailableError
from service.models.specification import Specification
from service.models.stored import Stored
from service.serialization.summary import MAX_ARMS, Sample
from service.sessions.act import Act
from service.sessions.history import AT_ONCE, LEVELS, MAX_SAMPLES, MAX_STORED, PERIOD_SECONDS, dropped, place_of
from tests.support.sessions import sessions_on

ACT = Act(1, 1000, single=True)
DAY = int(24 * 3600 / PERIOD_SECONDS)
ARMS = {"learner": {"kind": "dexp3", "n_arms": 30}, "seed": 7}
POINTS = {"learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}, "seed": 7}
VISITORS = {"learner": {"kind": "multiscale_tsallis", "n_arms": 3}, "features": {"phone": {"kind": "boolean"}}}


def run_of(**fields):
    return Stored.of(Specification.model_validate(fields)).start()


@pytest.fixture
def sessions(memory):
    return sessions_on(memory)


async def acted(sessions, session_id):
    await sessions.submit(session_id, ACT)


async def places(sessions, session_id):
    return sorted(await sessions.sampler._store.read_samples(session_id))


@pytest.mark.parametrize("fields", [ARMS, POINTS, VISITORS], ids=["arms", "points", "features"])
def test_a_sample_is_read_as_it_was_written(fields):
    run = run_of(**fields)
    run.act()

    sample = Sample.of(run, 1000.5)
    read = Sample.decode(sample.encode())

    weight = pytest.approx(4 / 11 if fields is VISITORS else -1)
    assert read._replace(arms=(), x=()) == sample._replace(arms=(), x=(), feature_weight=weight)
    assert [arm for arm, _ in read.arms] == [arm for arm, _ in sample.arms]
    assert np.allclose([p for _, p in read.arms], [p for _, p in sample.arms], rtol=1e-5)
    assert list(read.x) == list(sample.x)
    assert read.slot == read.outstanding == 1


def test_a_sample_has_the_most_probable_arms_and_a_bound():
    sample = Sample.of(run_of(**ARMS), 0.0)

    assert len(sample.arms) == MAX_ARMS
    assert len(sample._replace(slot=2**70).encode()) == 173


@pytest.mark.parametrize("data", [b"", b"\x02" * 89, Sample.of(run_of(**ARMS), 0.0).encode()[:-1]])
def test_other_bytes_are_no_sample(data):
    assert Sample.decode(data) is None


def test_of_a_long_time_few_samples_are_left():
    kept: set[int] = set()
    for now in range(DAY // 4):
        kept.add(now)
        if len(kept) > MAX_STORED:
            kept -= dropped(kept, now)

    kept -= dropped(kept, DAY // 4)
    assert len(kept) <= MAX_SAMPLES
    assert set(range(DAY // 4 - 35, DAY // 4)) <= kept
    assert min(kept) < DAY // 40, "the first of it is still there"


def test_the_bound_holds_for_every_history():
    now = 2**40 + 12345
    everything = {now - age for level in range(LEVELS) for age in range(0, 37 * 4**level, 4**level)}

    left = everything - dropped(everything, now)

    assert len(left) <= MAX_SAMPLES
    assert (dropped(left, now), dropped([now - 36 * 4**LEVELS], now)) == (set(), {now - 36 * 4**LEVELS})


async def test_sessions_that_changed_are_sampled(sessions, clock):
    spec = Specification.model_validate(ARMS)
    for name in ("a", "b"):
        await sessions.create(name, spec, None)
        await acted(sessions, name)
    await sessions.sampler.sample()
    first = place_of(clock())
    clock.now += PERIOD_SECONDS
    await acted(sessions, "a")
    await sessions.sampler.sample()

    assert await places(sessions, "a") == [first, first + 1]
    assert await places(sessions, "b") == [first]


async def test_a_session_that_left_the_cache_is_read(memory, clock):
    sessions = sessions_on(memory, cache_sessions=1)
    for name in ("a", "b"):
        await sessions.create(name, Specification.model_validate(ARMS), None)
        await acted(sessions, name)

    await sessions.sampler.sample()

    assert await places(sessions, "a") == await places(sessions, "b") == [place_of(clock())]


async def test_a_session_deleted_meanwhile_ends_no_sampling(sessions):
    for name in ("a", "b"):
        await sessions.create(name, Specification.model_validate(ARMS), None)
        await acted(sessions, name)
    await sessions.delete("a")

    await sessions.sampler.sample()

    assert len(await places(sessions, "b")) == 1


def test_many_changed_sessions_take_turns():
    run = run_of(**ARMS)
    cache = SessionCache(10_000)
    for number in range(AT_ONCE + 2):
        cache.put(str(number), CachedSession("v", Stored.of(Specification.model_validate(ARMS)), run, b"", 1))
    cache.put("0", CachedSession("w", Stored.of(Specification.model_validate(ARMS)), run, b"", 1))

    assert cache.take_changed(AT_ONCE) == [str(number) for number in range(AT_ONCE)]
    assert cache.take_changed(AT_ONCE) == [str(AT_ONCE), str(AT_ONCE + 1)]
    assert cache.take_changed(AT_ONCE) == []


async def test_a_long_history_is_thinned(sessions, clock, monkeypatch):
    monkeypatch.setattr("service.sessions.history.MAX_STORED", 40)
    await sessions.create("s", Specification.model_validate(ARMS), None)
    for _ in range(150):
        await acted(sessions, "s")
        await sessions.sampler.sample()
        clock.now += PERIOD_SECONDS

    assert len(await places(sessions, "s")) < 80
    shown = json.loads(await sessions.history("s"))
    assert len(shown["samples"]) <= MAX_SAMPLES
    assert shown["samples"][-1]["slot"] == 150


async def test_a_failing_store_is_reported_and_sampling_goes_on(sessions, monkeypatch):
    failures: list[tuple[str, str]] = []
    sampler = sessions.sampler
    monkeypatch.setattr("service.sessions.history.PERIOD_SECONDS", 0.001)

    async def sample():
        if len(failures) == 2:
            sampler.stop()
            raise ValueError("logged")
        raise StoreUnavailableError("down")

    monkeypatch.setattr(sampler, "sample", sample)
    await sampler.run(lambda call, reason: failures.append((call, reason)))

    assert failures == [("history", "down")] * 2


async def test_the_history_says_how_far_acts_rest_on_features(sessions):
    await sessions.create("s", Specification.model_validate(VISITORS), None)
    await acted(sessions, "s")
    await sessions.sampler.sample()

    (sample,) = json.loads(await sessions.history("s"))["samples"]
    assert sample["feature_weight"] == pytest.approx(4 / 11, abs=1e-6)
