"""What a commit reads and writes of segments: those of its batch, and no more of the many that are kept."""

import pytest

from service.models.events import ArmEvent
from service.models.specification import Specification
from service.sessions.act import Act
from service.sessions.feedback import SettleFeedback
from service.store.memory import MemoryStore
from tests.support.sessions import queues_on, sessions_on

FIELDS = {"learner": {"kind": "centred_tsallis", "n_arms": 3}, "segments": {"max": 100}, "seed": 1}


class WatchedStore(MemoryStore):
    """A memory store that notes which segments are read and written."""

    def __init__(self):
        super().__init__()
        self.read: list[list[bytes]] = []
        self.written: list[set[bytes]] = []

    async def read_segments(self, session_id, names, oldest=0):
        self.read.append(list(names))
        return await super().read_segments(session_id, names, oldest)

    async def commit(self, commit):
        self.written.append(set(commit.written.segments))
        return await super().commit(commit)


@pytest.fixture
async def store():
    """A store with a session that keeps thirty segments."""
    store = WatchedStore()
    sessions = sessions_on(store)
    await sessions.create("s", Specification.model_validate(FIELDS), None)
    for number in range(30):
        await sessions.submit("s", act(f"s{number}"))
    store.read.clear()
    store.written.clear()
    return store


def act(segment):
    return Act(1, 10**6, single=True, segment=segment)


async def test_a_commit_reads_and_writes_the_segments_of_its_batch(store):
    queues = queues_on(store)

    await queues.submit("s", act("s3"))
    await queues.submit("s", act("s3"))
    await queues.submit("s", SettleFeedback([ArmEvent(arm=0, loss=1.0, segment="s7")], None))

    assert (store.read, store.written) == ([[b"s3"], [b"s7"]], [{b"s3"}, {b"s3"}, {b"s7"}])


async def test_after_a_conflict_segments_are_read_again(store):
    """Another worker has committed meanwhile, so that nothing which this one had read may count."""
    one, other = queues_on(store), queues_on(store)
    for name in ("s1", "s2", "s3"):
        await one.submit("s", act(name))
    await other.submit("s", act("s1"))
    store.read.clear()

    await one.submit("s", act("s3"))
    await one.submit("s", act("s2"))

    assert store.read == [[b"s3"], [b"s2"]]
    assert store.written[-3:] == [{b"s3"}, {b"s3"}, {b"s2"}]  # the first of them met the conflict
