"""What the committer folds, in what order, and what becomes of it when others write or the store fails."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

import pytest

from service.commit import committer
from service.commit.batch import Applied
from service.commit.committer import MAX_ATTEMPTS
from service.errors import InternalError, OverloadedError, StoreUnavailableError, UnknownSessionError
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import ExpirySpec, Specification, remember_seconds
from service.models.stored import Stored
from service.serialization import state as codec
from service.sessions.act import Act
from service.store.base import Conflict, NewSession, head_of
from service.store.memory import MemoryStore
from tests.support.sessions import queues_on


class CountingStore(MemoryStore):
    """A memory store whose commits can be held, made to conflict, or made to fail."""

    def __init__(self):
        super().__init__()
        self.commits = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.called = asyncio.Event()
        self.failures = []

    async def commit(self, commit):
        self.commits.append(commit)
        self.called.set()
        if self.failures and (failure := self.failures.pop(0)) is not None:
            if isinstance(failure, Exception):
                raise failure
            return failure
        outcome = await super().commit(commit)
        await self.gate.wait()  # The reply is late.
        return outcome


@pytest.fixture
async def store():
    store = CountingStore()
    stored = Stored.of(Specification(learner=Dexp3Spec(n_arms=3), seed=1))
    run = stored.start()
    await store.create(NewSession("s", "first", stored.encode(), codec.encode(run)))
    return store


@pytest.fixture
def queues(store):
    return queues_on(store)


def act(count=1):
    return Act(count, 10**6, single=True)


class Broken(Act):
    async def apply(self, draft, checked):
        draft.run.act()
        raise ZeroDivisionError


async def slot_in(store):
    return codec.read_shown(head_of((await store.load("s")).state)).ledger.slot


async def test_requests_that_wait_together_are_one_commit(store, queues):
    store.gate.clear()
    tasks = [asyncio.create_task(queues.submit("s", act())) for _ in range(50)]
    await store.called.wait()
    store.gate.set()
    await asyncio.gather(*tasks)

    assert len(store.commits) <= 2
    assert await slot_in(store) == 50


@pytest.mark.parametrize(("beside", "passes"), [(False, 12), (True, 24)], ids=["alone", "beside another"])
async def test_a_batch_is_answered_in_turns(store, queues, beside, passes):
    """At most eight requests in a pass of the event loop, which goes round between for other sessions."""
    held, stored = asyncio.Event(), Stored.of(Specification(learner=Dexp3Spec(n_arms=3)))

    class Held(Act):
        async def apply(self, draft, checked):
            await held.wait()
            return Applied(b"", changed=False)

    await store.create(NewSession("other", "first", stored.encode(), codec.encode(stored.start())))
    other = [asyncio.create_task(queues.submit("other", Held(1, 1)))] if beside else []
    store.gate.clear()
    tasks = [asyncio.create_task(queues.submit("s", act())) for _ in range(101)]
    await store.called.wait()
    store.gate.set()
    answered = [0]
    while answered[-1] < len(tasks):
        await asyncio.sleep(0)
        answered.append(sum(map(asyncio.Task.done, tasks)))
    held.set()
    await asyncio.gather(*tasks, *other)

    assert max(late - early for early, late in pairwise(answered)) <= 8
    assert len(answered) > 2 * passes
    assert len(store.commits) == 2 + beside


async def test_a_client_that_gave_up_harms_nobody_and_its_sent_commit_counts(store, queues):
    store.gate.clear()
    sent = asyncio.create_task(queues.submit("s", act()))
    await store.called.wait()
    waiting = [asyncio.create_task(queues.submit("s", act())) for _ in range(3)]
    await asyncio.sleep(0)
    sent.cancel()
    waiting[1].cancel()
    store.gate.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    await queues.drained()

    assert [isinstance(answer, asyncio.CancelledError) for answer in answers] == [False, True, False]
    assert await slot_in(store) == 3


@pytest.mark.parametrize("asked", [[(0, 4.9), (0, 0), (3, 0), (0, 0), (3, 2), (3, 1.9)], [(0, 0), (0, 0)]])
async def test_what_has_waited_too_long_when_its_batch_would_begin_is_not_done(store, monkeypatch, asked):
    """When each was submitted, and how long it had waited before; the first begins at once, and is waited for."""
    queues, now = queues_on(store, max_wait=5), [0]
    monkeypatch.setattr(committer, "time", SimpleNamespace(monotonic=lambda: now[-1]))
    store.gate.clear()
    tasks = []
    for seconds, waited in asked:
        now.append(seconds)
        tasks.append(asyncio.create_task(queues.submit("s", Act(1, 10**6, single=True, waited=waited))))
        await asyncio.sleep(0)
    now.append(5)
    store.gate.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    await queues.drained()

    late = [seconds <= waited for seconds, waited in asked[1:]]
    assert [isinstance(answer, OverloadedError) for answer in answers] == [False, *late]
    assert await slot_in(store) == len(asked) - sum(late)
    assert len(store.commits) == 1 + (not all(late))


async def test_a_request_that_breaks_fails_alone(store, queues):
    answers = await asyncio.gather(
        queues.submit("s", act()),
        queues.submit("s", Broken(1, 1, single=True)),
        queues.submit("s", act()),
        return_exceptions=True,
    )

    assert isinstance(answers[1], InternalError)
    assert [b'"slot":1' in answers[0].body, b'"slot":2' in answers[2].body] == [True, True]
    assert await slot_in(store) == 2


async def test_a_conflict_is_folded_again_on_what_came_back(store, queues):
    other = queues_on(store)
    await queues.submit("s", act())
    await other.submit("s", act(4))

    answer = await queues.submit("s", act())

    assert b'"slot":6' in answer.body


class Pausing(MemoryStore):
    """Lets others run behind each commit."""

    async def commit(self, commit):
        outcome = await super().commit(commit)
        await asyncio.sleep(0)
        return outcome


class Count(Act):
    """Counts in the value of an event id."""

    async def apply(self, draft, checked):
        count = int(draft.value_of(b"i" * 16) or 0) + 1
        return Applied(b"%d" % count, {b"i" * 16: b"%d" % count})


async def test_the_value_of_an_id_is_that_of_the_version_it_is_judged_on(store):
    pausing = Pausing()
    await pausing.create(NewSession("s", "first", (await store.load("s")).spec, (await store.load("s")).state))
    writers = [queues_on(pausing) for _ in range(3)]

    answers = await asyncio.gather(*(writers[n % 3].submit("s", Count(1, 10**6)) for n in range(60)))

    assert sorted(int(answer.body) for answer in answers) == list(range(1, 61))


async def test_conflicts_without_end_become_overload(store, queues, monkeypatch):
    monkeypatch.setattr(committer, "LONGEST_PAUSE", 0.0)
    store.failures = [Conflict(await store.load("s"))] * MAX_ATTEMPTS

    with pytest.raises(OverloadedError):
        await queues.submit("s", act())
    assert len(store.commits) == MAX_ATTEMPTS
    assert await slot_in(store) == 0


async def test_writers_that_share_no_owner_all_get_through(store):
    """As on several machines: 32 clients, 8 on each of four workers."""
    queues = [queues_on(store) for _ in range(4)]

    async def client(queues):
        for _ in range(10):
            await queues.submit("s", act())

    await asyncio.gather(*(client(queues[n % 4]) for n in range(32)))

    assert await slot_in(store) == 320


async def test_a_store_that_fails_is_told_and_the_next_request_starts_afresh(store, queues):
    store.failures = [StoreUnavailableError("down")]

    with pytest.raises(StoreUnavailableError):
        await queues.submit("s", act())
    assert b'"slot":1' in (await queues.submit("s", act())).body


async def test_a_fault_of_the_service_is_told_as_one(store, queues):
    store.failures = [RuntimeError("bug")]

    with pytest.raises(InternalError):
        await queues.submit("s", act())
    assert b'"slot":1' in (await queues.submit("s", act())).body


async def test_a_session_deleted_under_way_is_unknown(store, queues):
    await queues.submit("s", act())
    await store.delete("s")

    with pytest.raises(UnknownSessionError):
        await queues.submit("s", act())


async def test_nothing_is_written_where_nothing_changed(store, queues):
    class Look(Act):
        async def apply(self, draft, checked):
            return Applied(b"seen", changed=False)

    await queues.submit("s", Look(1, 1))

    assert [commit.written for commit in store.commits] == [None]
    assert (await store.load("s")).version == "first"


@pytest.mark.parametrize(
    ("expiry", "tokens", "seconds"), [(None, False, 0), (None, True, 2_592_000), (60, True, 60), (60, False, 0)]
)
def test_ids_are_kept_as_long_as_tokens_are_good(expiry, tokens, seconds):
    spec = Specification(learner=Dexp3Spec(n_arms=3), expiry=expiry and ExpirySpec(after_seconds=expiry))

    assert remember_seconds(spec, tokens=tokens) == seconds
