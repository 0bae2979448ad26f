"""Silence: when it begins and ends, and that nothing is learned of missing events meanwhile."""

import logging
import random
from collections import Counter

import numpy as np
import pytest

from service.commit.cache import CachedSession
from service.learners import REGISTRY
from service.learners.base import Slot
from service.learners.multiscale_state import TOTALS
from service.learners.segments import given_up
from service.serialization import records as codec
from service.sessions.expiry_sweeper import Sweeper
from service.sessions.transfer import _pack as pack
from service.sessions.transfer import _parts as parts
from service.store.memory import MemoryStore
from tests.learners.test_segments import Player
from tests.support import vectors
from tests.support.changed_documents import sealed
from tests.support.one_session import PATH, acts, answered, change, made, moved, patch, view
from tests.support.sessions import sessions_on

WINDOW, ARMS = 64, ["a", "b", "c"]
CLICKS = {"reward_range": [0, 1], "expiry": {"after_seconds": WINDOW, "default_reward": 0}, "seed": 1}
KINDS = {
    "multiscale_tsallis": {"tokens": True},
    "multiscale_tsallis segments": {"segments": {"max": 9}},
    "centred_tsallis": {},
    "exp3": {"learner": {"learning_rate": 0.1}},
}


def body_of(kind="multiscale_tsallis", arms=ARMS, **fields):
    learner = {"kind": kind.split()[0], "arms": arms} | KINDS[kind].get("learner", {})
    return {"session_id": "s"} | CLICKS | KINDS[kind] | {"learner": learner} | fields


async def opened(client, *args, **fields):
    await made(client, **body_of(*args, **fields))


async def send(client, count=1, **event):
    return await answered(client, "POST", f"{PATH}/feedbacks", json={"events": [event] * count})


async def is_silent(client):
    await patch(client, floor=0)  # Changes nothing; what is due is settled before.
    hints = {hint["code"]: hint["message"] for hint in (await view(client))["hints"]}
    listed = (await client.get("/v1/sessions", params={"hint": "silence"})).json()["sessions"]
    assert len(listed) == ("silence" in hints)
    return "last event came at 19" in hints.get("silence", "")


async def test_the_vector_of_one_arm(client, memory, clock):
    """Small enough to be done by hand: with one arm nothing depends on draws."""
    await opened(client, arms=["a"])
    for step in vectors.load("silence")["steps"]:
        (what, count), (_, expected) = step.items()
        if what == "acts":
            await acts(client, count=count)
        elif what == "seconds":
            clock.now += count
            await is_silent(client)
        else:
            await send(client, count, label="a", reward=1 if what == "clicks" else None)
        run = CachedSession.of(await memory.load("s")).run
        state, ledger = run.state, run.ledger
        counts = (ledger.feedbacks, ledger.expired, ledger.outstanding, ledger.missed, ledger.silent)
        learned = (state.events, round(state.sums[TOTALS][0, 0], 9), state.dropped)
        assert [*learned, *counts] == expected, step
        assert state.mean == pytest.approx(expected[1] / expected[0])
    assert (await view(client))["mean_reward"] == pytest.approx(102 / 148)  # Expiries count in the mean.


class Model:
    """Queues of decisions, and a learner that is told what to learn of each: the rule once more, without a run."""

    def __init__(self, kind):
        self.queues, self.made, self.hits = [[] for _ in ARMS], [[] for _ in ARMS], Counter()
        self.acts = self.events = self.missed = self.expired = self.voided = 0
        self.is_provisional, self.silent, self.records = "multi" in kind, False, {}
        self.learner = REGISTRY[kind.split()[0]].model_validate(body_of(kind)["learner"]).build()
        self.state = self.learner.start()
        self.player = Player(self.learner, 1.0) if "segments" in kind else None

    @property
    def outstanding(self):
        return sum(map(len, self.queues))

    def tell(self, method, segment, *args, slot=None, **named):
        if self.player is not None:
            learned = getattr(self.player.layer, method)(self.player.moment(segment), *args, **named)
            self.player.keep(segment, learned)
        elif slot in self.records:
            record = self.records.pop(slot)
            learns, forgets = self.learner.settle, self.learner.forget
            self.state = learns(self.state, *args, record=record) if args[1:] else forgets(self.state, record)
        else:
            self.state = getattr(self.learner, method)(self.state, *args)

    def act(self, now, slot, arm, segment):
        """Open a slot, and return the probability of the arm that the service drew."""
        self.acts += 1
        if self.player is None:
            opening = Slot(slot, self.outstanding, 0.0, provisional=self.is_provisional)
            self.state = self.learner.open(self.state, opening)
            p = self.learner.distribution(self.state)
        else:
            self.player.outstanding = self.outstanding
            p = self.player.open(segment)
        if hasattr(self.learner, "record"):
            self.records[slot] = self.learner.record(self.state, arm)
        if self.is_provisional and not self.silent:
            self.tell("settle", segment, arm, 1.0, **({} if self.player is None else {"ends": 0}))
        self.queues[arm].append((slot, now, self.silent, segment))
        self.made[arm].append(now)
        return p[arm]

    def end(self, arm, slot, loss, segment):
        """Settle a decision by an event, or take it back: that of a slot, else the oldest of the arm."""
        places = [place for place, each in enumerate(self.queues[arm]) if each[0] == slot]
        slot, _, uncharged, _ = self.queues[arm].pop(places[0] if places else 0)
        self.hits[f"{'void' if loss is None else 'event'} {uncharged}"] += 1
        is_charged = self.is_provisional and not uncharged
        if loss is None:
            self.voided += 1
            self.tell(*(("uncharge", segment, arm, 1.0) if is_charged else ("void", segment, arm)), slot=slot)
        else:
            self.events, self.missed, self.silent = self.events + 1, 0, False
            self.tell("correct" if is_charged else "settle", segment, arm, loss, *[1.0] * is_charged, slot=slot)

    def expire(self, now):
        """Of one time of acts after the other; there is silence before anything is learned of it."""
        for at in sorted({time for times in self.made for time in times if time + WINDOW + 1 <= now}):
            due = []
            for arm, queue in enumerate(self.queues):
                self.made[arm] = later = [time for time in self.made[arm] if time > at]
                count = sum(each[1] <= at for each in queue) if self.records else max(len(queue) - len(later), 0)
                due.append(queue[:count])
                del queue[:count]
            self.expired += sum(map(len, due))
            self.missed += sum(map(len, due))
            if (
                not self.silent
                and self.events >= 100
                and self.missed * self.events >= 30 * (self.acts - self.voided)
            ):
                self.silent = True
                self.hits["silence"] += 1
            for arm, decisions in enumerate(due):
                self.learn(arm, decisions)

    def learn(self, arm, decisions):
        heard = [] if self.silent else [each for each in decisions if not each[2]]
        self.hits["unheard"] += len(decisions) - len(heard)
        for slot, _, _, segment in decisions:
            if self.player is not None:
                self.player.segments[segment] = given_up(self.player.segments[segment], 1)
            elif slot in self.records:
                self.tell("", "", arm, *[1.0 for each in heard if each[0] == slot], slot=slot)
        if not self.is_provisional and not hasattr(self.learner, "record"):
            self.state = self.learner.give_up(self.state, len(decisions) - len(heard))
            self.state = self.learner.settle(self.state, arm, 1.0, len(heard)) if heard else self.state


@pytest.mark.parametrize("kind", KINDS)
async def test_a_session_learns_what_the_rule_says(make_client, client, clock, kind):
    """In a random trace with silences, and moved to another service in between."""
    rng, names, model, tokens = random.Random(4), random.Random(0), Model(kind), {}
    await opened(client, kind)

    async def act(count):
        segment = {"segment": names.choice("xy")} if "segments" in kind else {}
        for action in (await acts(client, count=count, **segment))["actions"]:
            p = model.act(clock.now, action["slot"], action["arm"], segment.get("segment", ""))
            assert p == pytest.approx(action["probability"], abs=1e-9)
            tokens[action["slot"]] = action.get("token")

    async def end(loss, known):
        arm, (slot, _, _, segment) = rng.choice([(k, each) for k, q in enumerate(model.queues) for each in q])
        event = {"label": ARMS[arm], "reward": None if loss is None else 1 - loss}
        if kind == "exp3":
            event |= {"slot": slot}
        elif known and tokens[slot]:
            event |= {"token": tokens[slot]}
        else:
            slot, _, _, segment = model.queues[arm][0]
        assert (await send(client, **event, **({"segment": segment} if segment else {})))["surplus"] == 0
        model.end(arm, slot, loss, segment)

    for step in range(110):
        what = rng.random()
        if step < 10:
            await act(12)
            for _ in range(11):
                await end(rng.choice([0.0, 0.25]), known=False)
        elif what < 0.1 and model.outstanding:
            await end(None, known=rng.random() < 0.5)
        elif what < 0.5 and step % 30 < 6 and model.outstanding:
            await end(0.0, known=rng.random() < 0.5)
        elif what < 0.6:
            await act(rng.randint(5, 15))
        else:
            clock.now += 33
            model.expire(clock.now)
        if step % 9 == 0:
            seen = await view(client)
            assert ("silence" in {hint["code"] for hint in seen["hints"]}) == model.silent
            counts = [seen[name] for name in ("feedbacks", "expired", "voided", "outstanding")]
            assert counts == [model.events, model.expired, model.voided, model.outstanding]
        if step % 40 == 39:
            await moved(client, client := await make_client(MemoryStore(clock=clock)))
    assert model.hits["silence"] >= 2, model.hits
    assert {"event True", "event False", "void True", "unheard"} <= set(model.hits), model.hits


async def fallen_silent(client, clock, *args, **fields):
    """150 acts, 120 events, then 80 acts whose events are missing."""
    await opened(client, *args, **fields)
    for count, events in ((150, 120), (80, 0)):
        for action in (await acts(client, count=count))["actions"][:events]:
            slot = {"slot": action["slot"]} if args else {}
            await send(client, label=action["label"], reward=1, **slot)
        clock.now += WINDOW + 1


async def test_it_is_found_and_told_once_also_if_nobody_calls(client, memory, clock, caplog):
    caplog.set_level(logging.INFO, "service.commit.committer")
    await fallen_silent(client, clock)
    found, told = {}, lambda: [each.levelname for each in caplog.records if "silence" in each.message]
    assert told() == []
    await Sweeper(memory, sessions_on(memory), tell_hints=found.update).sweep()
    assert (found["silence"], told()) == (1, ["WARNING"])
    await acts(client, count=3)
    assert await is_silent(client)
    await send(client, label="a", reward=None)
    assert await is_silent(client)  # What was not shown tells nothing of clicks.
    for label in ARMS:
        await send(client, label=label, reward=1)
    assert not await is_silent(client)
    assert told() == ["WARNING", "INFO"]


@pytest.mark.parametrize(
    "off", [{"guard": {"silence": False}}, {"expiry": CLICKS["expiry"] | {"default_reward": None}}]
)
async def test_it_can_be_turned_off_and_needs_a_default(client, clock, off):
    await fallen_silent(client, clock, "exp3", **off)
    assert not await is_silent(client)
    assert (await patch(client, guard=None, expiry=CLICKS["expiry"])).get("guard") is None
    await acts(client, count=80)
    clock.now += WINDOW + 1
    assert await is_silent(client)
    assert ("silence" in {hint["code"] for hint in (await patch(client, **off))["hints"]}) is False
    assert (await client.post("/v1/sessions", json=body_of("exp3", **off))).status_code == 200


async def test_both_groups_count_and_an_event_of_either_ends_it(client, clock):
    """Of 300 acts 120 have events, so that 30 are due when 75 have expired: less than either group has."""
    await opened(client, control={"share": 0.5})
    for action in (await acts(client, count=200))["actions"][:120]:
        await send(client, label=action["label"], group=action["group"], reward=1)
    groups = Counter(each["group"] for each in (await acts(client, count=100))["actions"])
    clock.now += WINDOW + 1
    assert 30 < groups["control"] < 75
    assert await is_silent(client)
    made = (await acts(client, count=20))["actions"]
    assert {each["group"] for each in made} == {"learner", "control"}
    control = next(each["label"] for each in made if each["group"] == "control")
    await send(client, label=control, group="control", reward=1)
    assert not await is_silent(client)


async def test_what_was_made_in_silence_stays_so_in_another_window_and_goes_with_its_arm(client, memory, clock):
    await fallen_silent(client, clock)
    await acts(client, count=30)
    keys = {key for key in await memory.read_records("s") if key.startswith(b"b-") and key != b"b-1"}
    assert keys == {b"b-2", b"b-3", b"b-4"}
    await patch(client, expiry=CLICKS["expiry"] | {"after_seconds": 640})
    await change(client, remove=["b"])
    exported = (await client.get(f"{PATH}/export")).json()
    kept = dict(await memory.read_records("s"))
    assert keys - kept.keys() == {b"b-3"}
    before = CachedSession.of(await memory.load("s")).run.state
    await send(client, label="a", reward=1)
    clock.now += 1000
    await patch(client, floor=0)
    after = CachedSession.of(await memory.load("s")).run.state
    assert (after.events, np.count_nonzero(after.sums[TOTALS] != before.sums[TOTALS])) == (before.events + 1, 0)
    assert not [key for key in await memory.read_records("s") if key.startswith(b"b-") and key != b"b-1"]
    for wrong in ([(1, 99, 1)], [(9**9, 1, 1)], [(2, 1, 1), (1, 1, 0)], [(1, 1, 0)], [(1, 0, 1)], [(1, 1, 2)]):
        bent = kept | {b"b-2": codec.record_of(b"b-2", np.array(wrong, "<i8").tobytes())}
        await assert_refused(client, exported, bent)
    await assert_refused(client, exported, kept | {b"b-3": codec.record_of(b"b-3", kept[b"b-2"][:-4])})


async def assert_refused(client, exported, records):
    document = exported | {"session_id": "t", "records": parts(pack(records))}
    answer = await client.post("/v1/sessions/import", json=sealed(document))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "records")
