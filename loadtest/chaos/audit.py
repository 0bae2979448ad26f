"""Compare what was acknowledged with the session, its arms and its log: everything once, nothing lost."""

from __future__ import annotations

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from loadtest.client import Client
from loadtest.errors import ServiceError
from service.learners.base import FloatArray
from service.sessions.transfer import read, read_whole

Action = Mapping[str, Any]
"""With ``slot``, ``arm`` and ``probability`` as the answer had them."""
Event = Mapping[str, Any]


SHOPS = ("north", "south", "web")
FEATURES = {
    "taste": {"kind": "vector", "length": 4, "range": [-1, 1]},
    "shop": {"kind": "category", "values": SHOPS},
    "new": {"kind": "boolean"},
}
"""Of sessions with features."""


class AcknowledgedAct(NamedTuple):
    """An act as the service acknowledged it."""

    key: str
    body: Mapping[str, Any]
    actions: Sequence[Action]


@dataclass
class Ledger:
    """Everything that the service acknowledged; all clients of the session share it.

    Parameters
    ----------
    word : the field of events with the number
    has_log : whether the session keeps a decision log
    has_features : whether acts say what is known of a visitor
    is_named : whether acts have keys and events ids; else each was sent once and with another arm, and the service
        may have done it without an answer
    """

    session_id: str
    word: str = "loss"
    has_log: bool = False
    has_features: bool = False
    is_named: bool = True
    goals: Mapping[str, float] = field(default_factory=dict)
    """What stands for losses or rewards, in sessions where events may be improved."""
    acts: list[AcknowledgedAct] = field(default_factory=list)
    events: dict[str, Event] = field(default_factory=dict)
    """Acknowledged events by id, each at its best, voids among them."""
    improved: Counter[str] = field(default_factory=Counter)
    """How often each event was improved."""
    reached: Counter[str] = field(default_factory=Counter)
    """How often each goal was."""
    failures: list[str] = field(default_factory=list)
    """Calls that were never acknowledged, or refused."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> str:
        """The session's address."""
        return f"/v1/sessions/{self.session_id}"

    @property
    def actions(self) -> list[Action]:
        """All acknowledged actions."""
        return [action for act in self.acts for action in act.actions]

    @property
    def slots(self) -> int:
        """Distinct slots that were acknowledged."""
        return len({action["slot"] for action in self.actions})

    def is_void(self, event: Event) -> bool:
        """Whether the event says that its decision was never shown."""
        return self.value(event) is None

    def value(self, event: Event) -> float | None:
        """Return the loss or reward of an event, None for a void."""
        value: float | None = self.goals[event["goal"]] if "goal" in event else event[self.word]
        return value

    @property
    def voided(self) -> int:
        """Acknowledged voids."""
        return sum(map(self.is_void, self.events.values()))

    def acted(self, key: str, body: Mapping[str, Any], actions: Sequence[Action]) -> None:
        """Note an act."""
        with self._lock:
            self.acts.append(AcknowledgedAct(key, body, actions))

    def settled(self, events: Sequence[Event], answer: Mapping[str, int]) -> None:
        """Note events that count by the answer; one client alone sends those of an id, in this order."""
        with self._lock:
            for event in events:
                self._count(event)
            if sum(answer.get(name, 0) for name in ("applied", "updated", "duplicates", "voided")) != len(events):
                self.failures.append(f"{len(events)} events sent, the answer was {answer}")

    def _count(self, event: Event) -> None:
        """Note what an event has taught: the first of its id, and then what is better."""
        name, value = event["event_id"], self.value(event)
        if (known := self.events.get(name)) is not None:
            before = self.value(known)
            if value is None or before is None or not self.goals:
                return
            if value == before or (value < before) == (self.word == "reward"):
                return
            self.improved[name] += 1
        self.events[name] = event
        if "goal" in event:
            self.reached[event["goal"]] += 1

    def failed(self, error: ServiceError) -> None:
        """Note a call that was given up."""
        with self._lock:
            self.failures.append(str(error))

    def by_arm(self) -> dict[int, Counter[str]]:
        """Return what the list of arms should show of each: acts, feedbacks, voids, and their values' sum."""
        found: dict[int, Counter[str]] = {}
        for action in self.actions:
            found.setdefault(action["arm"], Counter())["acts"] += 1
        for event in self.events.values():
            found.setdefault(event["arm"], Counter())["voided" if self.is_void(event) else "feedbacks"] += 1
        return found


CHUNK = 1000
"""Events that one call of the audit posts again, and entries of a page."""
LISTED = 5
"""Problems that a report shows of one kind of fault."""
CLOSE = 1e-9
"""Relative difference of means that are sums in another order."""


def audit(client: Client, ledger: Ledger) -> list[str]:
    """Return the problems of a session after all its clients were answered; empty if there are none.

    Send all ids once more: that must change nothing and return the same answers. What had none counts once if it
    was acknowledged, and else once at most.
    """
    found = [*ledger.failures, *(() if ledger.acts else ("nothing was acknowledged",))]
    try:
        if not ledger.is_named:
            found += _done_twice_or_lost(client, ledger)
        else:
            found += _wrong_counts(client, ledger)
            found += _wrong_replays(client, ledger)
            found += _wrong_counts(client, ledger)
            found += _wrong_arms(client, ledger)
            found += _wrong_log(client, ledger) if ledger.has_log else []
            found += _wrong_regressions(client, ledger) if ledger.has_features else []
    except ServiceError as error:
        found.append(str(error))
    return [f"session {ledger.session_id}: {problem}" for problem in found]


def _wrong_counts(client: Client, ledger: Ledger) -> list[str]:
    view = client.call("view", "GET", ledger.path)
    expected = {"slot": ledger.slots, "feedbacks": len(ledger.events) - ledger.voided}
    expected |= {"voided": ledger.voided, "expired": 0, "removed": 0}
    expected["outstanding"] = expected["slot"] - len(ledger.events)
    wrong = [
        f"{name} is {view[name]}, acknowledged {count}" for name, count in expected.items() if view[name] != count
    ]
    reached = {name: goal["events"] for name, goal in view.get("goals", {}).items()}
    if reached != {name: ledger.reached[name] for name in ledger.goals}:
        wrong.append(f"goals were reached {reached}, acknowledged {dict(ledger.reached)}")
    for name, shown in view.get("groups", {}).items():
        is_void = Counter(ledger.is_void(event) for event in ledger.events.values() if event["group"] == name)
        opened = sum(action["group"] == name for action in ledger.actions)
        right = {"acts": opened - is_void[True], "outstanding": opened - is_void.total(), "events": is_void[False]}
        if right != {what: shown[what] for what in right}:
            wrong.append(f"the group {name} has {shown}, acknowledged {right}")
    given = Counter(action["slot"] for action in ledger.actions)
    if twice := [slot for slot, times in given.items() if times > 1]:
        wrong.append(f"slots given twice: {twice[:LISTED]}")
    if sorted(given) != list(range(1, len(given) + 1)):
        wrong.append("the acknowledged slots have gaps")
    return wrong


def _wrong_replays(client: Client, ledger: Ledger) -> list[str]:
    wrong = []
    for key, body, actions in ledger.acts:
        again = client.call("acts", "POST", f"{ledger.path}/acts", body, key)["actions"]
        if list(again) != list(actions):
            wrong.append(f"act {key} was {actions} and is {again}")
    events = list(ledger.events.values())
    for at in range(0, len(events), CHUNK):
        chunk = events[at : at + CHUNK]
        settled = client.call("feedbacks", "POST", f"{ledger.path}/feedbacks", {"events": chunk})
        if (settled["applied"], settled["duplicates"]) != (0, len(chunk)):
            wrong.append(f"{len(chunk)} events sent again: {settled}")
    return wrong[:LISTED]


def _wrong_arms(client: Client, ledger: Ledger) -> list[str]:
    """Compare the counts and the mean of each arm with the acknowledged acts and events of it."""
    expected, wrong = ledger.by_arm(), []
    for arm in _pages(client, f"{ledger.path}/arms", "arms"):
        counts = expected.pop(arm["arm"], Counter())
        outstanding = counts["acts"] - counts["feedbacks"] - counts["voided"]
        right = {"acts": counts["acts"], "feedbacks": counts["feedbacks"], "outstanding": outstanding, "expired": 0}
        shown = {name: arm[name] for name in right}
        if shown != right:
            wrong.append(f"arm {arm['arm']} has {shown}, acknowledged {right}")
        mean = arm[f"mean_{ledger.word}"]
        reported = [ledger.value(event) for event in ledger.events.values() if event["arm"] == arm["arm"]]
        values = [value for value in reported if value is not None]
        near = {"rel_tol": CLOSE, "abs_tol": CLOSE}
        if (mean is None) != (not values) or (
            values and not math.isclose(mean, math.fsum(values) / len(values), **near)
        ):
            wrong.append(f"the mean of arm {arm['arm']} is {mean}")
    if expected:
        wrong.append(f"arms not listed: {sorted(expected)[:LISTED]}")
    return wrong[:LISTED]


def _columns(said: Mapping[str, Any]) -> FloatArray:
    """Return what is learned of a visitor."""
    shop, new = said.get("shop"), said.get("new")
    sign = 0 if new is None else 1 if new else -1
    return np.array([1, *said.get("taste", [0] * 4), *(name == shop for name in SHOPS), sign], dtype=float)


def _wrong_regressions(client: Client, ledger: Ledger) -> list[str]:
    """Compare the regression that forgets nothing with sums over the acknowledged acts and events, to the last bit.

    All terms are multiples of 2^-17, so the sums are exact in any order.
    """
    _, whole = asyncio.run(read(client.call("export", "GET", f"{ledger.path}/export")))
    run: Any = asyncio.run(read_whole(whole, checked=True)).run
    kept = run.state.regressions.opened()
    found = kept.squares(range(len(kept.arms)))[:, 0]
    expected, reported = np.zeros_like(found), {event["slot"]: event for event in ledger.events.values()}
    for act in ledger.acts:
        x = _columns(act.body.get("features", {}))
        for action in act.actions:
            if action.get("group") != "control":
                loss = 1 - (ledger.value(reported.get(action["slot"], {ledger.word: 0.0})) or 0.0)
                expected[action["arm"]] += np.outer(x, [*x, loss])
    wrong = np.flatnonzero((found != expected).any(axis=(1, 2)))
    return [f"the regression of arm {arm} is {found[arm]}, not {expected[arm]}" for arm in wrong[:LISTED]]


def _done_twice_or_lost(client: Client, ledger: Ledger) -> list[str]:
    acknowledged, wrong = ledger.by_arm(), []
    for arm in _pages(client, f"{ledger.path}/arms", "arms"):
        told = acknowledged.get(arm["arm"], Counter())
        shown = {name: arm[name] for name in ("acts", "feedbacks")}
        if not all(told[name] <= count <= 1 for name, count in shown.items()):
            wrong.append(f"arm {arm['arm']} has {shown}, acknowledged {dict(told)}")
    return wrong[:LISTED]


def _wrong_log(client: Client, ledger: Ledger) -> list[str]:
    """Compare the log: positions, each slot once and in order with its arm and probability, each event id once."""
    entries = list(_pages(client, f"{ledger.path}/decisions", "decisions"))
    acts, events = ([entry for entry in entries if entry["kind"] == kind] for kind in ("act", "event"))
    wrong = []
    if [entry["position"] for entry in entries] != list(range(1, len(entries) + 1)):
        wrong.append("positions of the log are not 1, 2, 3, ...")
    if [entry["slot"] for entry in acts] != list(range(1, ledger.slots + 1)):
        wrong.append(f"the log has {len(acts)} acts, not one of each of {ledger.slots} slots in order")
    names = ("arm", "probability", "group")
    decided = {action["slot"]: [action.get(name) for name in names] for action in ledger.actions}
    other = [entry for entry in acts if decided.get(entry["slot"]) != [entry.get(name) for name in names]]
    wrong += [f"the log has {entry}" for entry in other[:LISTED]]
    by_slot = {event["slot"]: name for name, event in ledger.events.items() if "token" in event}
    for entry in events:
        entry.setdefault("event_id", by_slot.get(entry.get("slot"), ""))
    last = {entry["event_id"]: entry.get(ledger.word) for entry in events}
    lesser = [name for name, event in ledger.events.items() if last.get(name) != ledger.value(event)]
    wrong += [f"the log has event {name} at {last.get(name)}" for name in lesser[:LISTED]]
    logged = sorted((entry["event_id"], entry["arm"], entry.get("group", ""), entry["outcome"]) for entry in events)
    outcomes = {name: "voided" if ledger.is_void(event) else "applied" for name, event in ledger.events.items()}
    ended = [*outcomes.items(), *((name, "updated") for name in ledger.improved.elements())]
    where = {name: (event["arm"], event.get("group", "")) for name, event in ledger.events.items()}
    told = sorted((name, *where[name], outcome) for name, outcome in ended)
    if logged != told:
        differing = (Counter(logged) - Counter(told)) + (Counter(told) - Counter(logged))
        wrong.append(f"{len(events)} events in the log, {len(told)} acknowledged: {list(differing)[:LISTED]}")
    return wrong


def _pages(client: Client, path: str, items: str) -> Iterator[Any]:
    """Go through the items of all pages."""
    cursor = ""
    while True:
        page = client.call(items, "GET", f"{path}?limit={CHUNK}{cursor}")
        yield from page[items]
        if page["next_cursor"] is None:
            return
        cursor = f"&cursor={page['next_cursor']}"
