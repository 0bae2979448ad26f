"""Steady load on sessions, from clients that send everything again with the same ids until it is acknowledged."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any, cast

import httpx

from loadtest.chaos.audit import FEATURES, SHOPS, Action, Event, Ledger
from loadtest.client import RETRIED, CallLog, Client, refusal
from loadtest.errors import LoadTestError, ServiceError
from loadtest.processes import wait_until
from service.client import Bandits, BanditsError, ReportError

NO_AUTHORITIES = SSLContext(PROTOCOL_TLS_CLIENT)
"""Spares each client 20 ms of reading certificates, in which the calls that are timed stand still."""
MANY = 1_000_000
"""Attempts after the first: the time alone bounds them."""


class PlainCaller:
    """Acts and reports by requests as they are, sent again until they are acknowledged; else ServiceError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def acts(self, session_id: str, body: Mapping[str, Any], key: str) -> Sequence[Action]:
        """Open slots."""
        path = f"/v1/sessions/{session_id}/acts"
        actions: Sequence[Action] = self._client.call("acts", "POST", path, body, key)["actions"]
        return actions

    def feedbacks(self, session_id: str, events: Sequence[Event], *, later: bool) -> Mapping[str, int]:
        """Settle events: as clicks if browsers could report them, else by the session's route, or that of many."""
        if all(map(_is_click, events)):
            clicks = [{name: event[name] for name in ("token", "goal")} for event in events]
            self._client.call("clicks", "POST", "/v1/clicks", clicks)
            return {"applied": len(events)}  # Nobody is told more.
        path = "/v1/feedbacks" if later else f"/v1/sessions/{session_id}/feedbacks"
        named = {"session_id": session_id} if later else {}
        settled: Mapping[str, int] = self._client.call(
            "feedbacks", "POST", path, {"events": [{**event, **named} for event in events]}
        )
        return settled


class UsersCaller:
    """Calls as a program does that uses ``delayed_bandits``: by calls and by reports in the background.

    Parameters
    ----------
    client : its calls are counted and timed in this client's log, and tried for as long
    """

    def __init__(self, client: Client, bandits: Bandits, dropped: list[ReportError]) -> None:
        self._client, self._bandits, self._dropped = client, bandits, dropped

    def acts(self, session_id: str, body: Mapping[str, Any], key: str) -> Sequence[Action]:
        """Open slots."""
        session, options = self._bandits.session(session_id), {**body}
        with self._client.log.timed("acts"), _errors():
            found = session.acts(options.pop("count"), idempotency_key=key, **options)
        fields = ("slot", "arm", "probability", "token", "group")
        return [{name: value for name in fields if (value := getattr(each, name)) is not None} for each in found]

    def feedbacks(self, session_id: str, events: Sequence[Event], *, later: bool) -> Mapping[str, int]:
        """Settle events at once, or by reports that this waits for."""
        with self._client.log.timed("feedbacks"), _errors():
            if later:
                return self._reported(session_id, events)
            return vars(self._bandits.session(session_id).feedbacks(events))

    def _reported(self, session_id: str, events: Sequence[Event]) -> Mapping[str, int]:
        session, before = self._bandits.session(session_id), vars(self._bandits.reports)
        for event in events:
            fields = {**event}
            arm = fields.pop("arm")
            word = next(word for word in ("loss", "reward", "goal") if word in fields)
            if fields[word] is None:
                del fields[word]
                session.void(arm, **fields)
            else:
                session.report(arm, **fields)
        if not self._bandits.flush(self._client.retry_seconds) or self._dropped:
            reasons = [str(each.error) for each in self._dropped] or ["not acknowledged in time"]
            raise ServiceError(f"reports to {session_id}: {reasons[0]}")
        return {name: count - before[name] for name, count in vars(self._bandits.reports).items()}


class _Counting(httpx.HTTPTransport):
    """Counts the attempts after which the client tries again."""

    def __init__(self, log: CallLog) -> None:
        super().__init__(verify=NO_AUTHORITIES)
        self._log = log

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = super().handle_request(request)
        except httpx.TransportError as error:
            self._log.retries[type(error).__name__] += 1
            raise
        if answer.status_code in RETRIED:
            with closing(answer):
                content = b"".join(cast("httpx.SyncByteStream", answer.stream))
            # The caller reads the stream once more.
            answer = httpx.Response(answer.status_code, headers=answer.headers, content=content)
            self._log.retries[refusal(answer)] += 1
        return answer


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except BanditsError as error:
        raise ServiceError(str(error)) from error


CLIENTS = 7
"""Client k calls session k modulo their number; the last one sends calls without ids."""
ANSWER_SECONDS = 3.0
"""A client that waited so long for an answer sends the request again beside the first."""
LONGEST_PAUSE = 0.1
"""Clients are less patient than ``Retry-After`` asks, to do more harm."""
ARMS = 10
LOG_ENTRIES = 1_000_000
"""More than any round makes: the log must hold all of them."""
TEN_DAYS = 864_000
"""A window that no clock of a round reaches."""
LEARNERS: dict[str, dict[str, Any]] = {
    "multiscale_tsallis": {
        "reward_range": [0, 1],
        "expiry": {"after_seconds": TEN_DAYS, "default_reward": 0},
        "learner": {"n_arms": 80},
    },
    "centred_tsallis": {"floor": 0.05},
    "exp3": {"learner": {"learning_rate": 0.01}},
}
"""Options of sessions: rewards with provisional defaults and a log, a state in one value, and records of slots."""
IMPROVED: dict[str, dict[str, Any]] = {
    **{kind: LEARNERS[kind] for kind in ("multiscale_tsallis", "centred_tsallis")},
    "fixed": {"reward_range": [0, 1]},
}
"""The same for sessions whose events are improved: others can't be."""
GOALS = {"click": 0.25, "cart": 0.5, "purchase": 1.0}
"""Rewards; as losses what is missing to 1."""
TIMES = (1, 1, 2, 4)
"""How often an event may be sent, each time with another outcome."""
PARTS = 32
"""Outcomes of sessions with features are multiples of its inverse, so that sums of them are exact."""
UNNAMED_ARMS = 3000
"""Acts without a key that a round may send, each for another arm."""
VISITORS: dict[str, Callable[[random.Random], Any]] = {
    "taste": lambda chance: [chance.randint(-64, 64) / 64 for _ in range(4)],
    "shop": lambda chance: chance.choice((*SHOPS, "another", None)),
    "new": lambda chance: chance.random() < 1 / 2,
}
VOIDS = 0.1
"""Share of the events that say that the decision was never shown."""


@contextmanager
def connection(
    url: str, retry_seconds: float = 60.0, timeout: float = ANSWER_SECONDS, api_key: str = ""
) -> Iterator[Client]:
    """Open a connection that is used by one client alone.

    Parameters
    ----------
    url : address of the service, over plain HTTP
    retry_seconds : how long one call may be tried
    timeout : seconds until an attempt that is not answered is given up
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    with httpx.Client(base_url=url, headers=headers, timeout=timeout, verify=NO_AUTHORITIES) as http:
        client = Client(http, retry_seconds, lambda wait: time.sleep(min(wait, LONGEST_PAUSE)))
        client.api_key = api_key
        yield client


def open_sessions(client: Client, name: str, *, updates: bool = False, features: bool = False) -> Sequence[Ledger]:
    """Create a session for each kind of learner, each with a decision log, and last one for calls without ids.

    With ``updates`` their events have goals and are improved, every second slot's come by its token, and three acts
    in ten are of a control group. With ``features`` the acts of ``multiscale_tsallis`` say what is known of their
    visitor, and its events bring that back, by token or again.
    """
    ledgers = []
    for kind, options in (IMPROVED if updates else LEARNERS).items():
        body = {"session_id": f"{name}-{kind}", "seed": 1, "decision_log": {"max_entries": LOG_ENTRIES}} | options
        body["learner"] = {"kind": kind, "n_arms": ARMS} | options.get("learner", {})
        word, goals = "reward" if "reward_range" in options else "loss", {}
        if updates:
            goals = {goal: value if word == "reward" else 1 - value for goal, value in GOALS.items()}
            body |= {"updates": {"within_seconds": TEN_DAYS}, "goals": goals, "tokens": True}
            body["control"] = {"share": 0.3}
        if has_features := features and kind == "multiscale_tsallis":
            body["features"] = FEATURES
        client.call("create", "POST", "/v1/sessions", body)
        ledgers.append(Ledger(f"{name}-{kind}", word, has_log=True, goals=goals, has_features=has_features))
    learner = {"kind": "centred_tsallis", "n_arms": UNNAMED_ARMS}
    client.call("create", "POST", "/v1/sessions", {"session_id": f"{name}-unnamed", "learner": learner})
    return [*ledgers, Ledger(f"{name}-unnamed", is_named=False)]


class Load:
    """Clients in threads; each acts and reports until the block ends, and waits for all its answers.

    Parameters
    ----------
    pause : seconds between the turns of a client
    """

    def __init__(self, clients: Sequence[Client], ledgers: Sequence[Ledger], pause: float = 0.0) -> None:
        self._stopping, self._pause = threading.Event(), pause
        self._errors: list[BaseException] = []
        self._ledgers = ledgers
        named, unnamed = ledgers[:-1], ledgers[-1]
        of = [(client, number, named[number % len(named)]) for number, client in enumerate(clients[:-1])]
        of.append((clients[-1], len(clients), unnamed))
        self._threads = [threading.Thread(target=self._run, args=args, daemon=True) for args in of]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Load within the block; at its end every call sent is acknowledged or has failed.

        The block begins when each session has acknowledged an act: what happens in it happens to all of them.
        """
        for thread in self._threads:
            thread.start()
        try:
            wait_until(self._is_acknowledged, "an act of each session is acknowledged")
            yield
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join()
        if self._errors:
            raise LoadTestError(f"a client of the load test failed: {self._errors[0]!r}")

    def _is_acknowledged(self) -> bool:
        return bool(self._errors) or all(ledger.acts or ledger.failures for ledger in self._ledgers)

    def _over(self) -> bool:
        return self._stopping.wait(self._pause)

    def _run(self, client: Client, number: int, ledger: Ledger) -> None:
        try:
            if not ledger.is_named:
                _play_unnamed(client, ledger, self._over)
                return
            with _caller(client, number) as caller:
                _play(caller, number, ledger, self._over)
        except ServiceError as error:
            ledger.failed(error)
        except (LoadTestError, LookupError, TypeError) as error:
            self._errors.append(error)


@contextmanager
def _caller(client: Client, number: int) -> Iterator[PlainCaller | UsersCaller]:
    """Let the first client of each session send requests as they are, the second call as users do, and so on."""
    if number // len(LEARNERS) % 2 == 0:
        yield PlainCaller(client)
        return
    dropped: list[ReportError] = []
    how: dict[str, Any] = {"timeout": client.retry_seconds, "max_retries": MANY, "on_error": dropped.append}
    how["api_key"] = client.api_key
    with Bandits(client.url, verify=NO_AUTHORITIES, transport=_Counting(client.log), **how) as bandits:
        yield UsersCaller(client, bandits, dropped)


def _play(caller: PlainCaller | UsersCaller, number: int, ledger: Ledger, over: Callable[[], bool]) -> None:
    """Of three decisions two are reported, late and out of order; some events stand twice in their call."""
    chance = random.Random(number)  # noqa: S311 - repeatable load
    outstanding: deque[Event] = deque()
    for turn in itertools.count():
        if over():
            return
        key, body = f"client-{number}-act-{turn}", _asked(chance)
        if ledger.has_features and chance.random() < 9 / 10:
            body["features"] = {name: value(chance) for name, value in VISITORS.items()}
        actions = caller.acts(ledger.session_id, body, key)
        ledger.acted(key, body, actions)
        outstanding += (
            _event(number, action, ledger, chance, body.get("features"))
            for action in actions
            if chance.random() < 2 / 3
            for _ in range(chance.choice(TIMES) if ledger.goals else 1)
        )
        if len(outstanding) > chance.randint(0, 6):
            chance.shuffle(outstanding)
            events = [outstanding.popleft() for _ in range(chance.randint(1, len(outstanding)))]
            if (clicks := [event for event in events if _is_click(event)]) and chance.random() < 1 / 2:
                outstanding += [event for event in events if not _is_click(event)]
                events = clicks
            events += events[: chance.randint(0, 1)]
            ledger.settled(events, caller.feedbacks(ledger.session_id, events, later=chance.random() < 1 / 2))


def _play_unnamed(client: Client, ledger: Ledger, over: Callable[[], bool]) -> None:
    """Act and report without keys and ids, each call with another arm, and sent once whatever comes of it."""
    client.retry_seconds = 0.0
    for arm in range(UNNAMED_ARMS):
        if over():
            return
        body = {"count": 1, "eligible": [arm]}
        try:
            actions = client.call("acts", "POST", f"{ledger.path}/acts", body)["actions"]
            ledger.acted("", body, actions)
            event = {"arm": arm, ledger.word: 0.5}
            client.call("feedback", "POST", f"{ledger.path}/feedback", event)
            ledger.events[str(arm)] = event
        except ServiceError:
            time.sleep(LONGEST_PAUSE)


def _asked(chance: random.Random) -> dict[str, Any]:
    """Ask for one to three arms; some calls for different ones, some for some of the arms."""
    body: dict[str, Any] = {"count": chance.randint(1, 3)}
    if chance.random() < 1 / 4:
        body["distinct"] = True
    if chance.random() < 1 / 4:
        body["visitor"] = f"visitor {chance.randint(1, 9)}"  # Which only a control group looks at.
    if chance.random() < 1 / 3:
        body[chance.choice(("eligible", "exclude"))] = sorted(chance.sample(range(ARMS), ARMS // 2))
    return body


def _is_click(event: Event) -> bool:
    """Return whether a browser could report an event."""
    return "token" in event and "goal" in event


def _event(number: int, action: Action, ledger: Ledger, chance: random.Random, said: Any) -> Event:
    slot, arm = action["slot"], action["arm"]
    event = {"event_id": f"client-{number}-{slot}", "arm": arm, "slot": slot}
    event |= {"group": action["group"]} if "group" in action else {}
    if slot % 2 and "token" in action:  # Its id is then the slot.
        event["token"] = action["token"]
    elif ledger.has_features:
        event["features"] = said or {}
    if ledger.goals and chance.random() < 1 / 2:
        return event | {"goal": chance.choice(list(ledger.goals))}
    if ledger.has_features:  # A void leaves the visitor's columns in the sums.
        return event | {ledger.word: chance.randint(0, PARTS) / PARTS}
    return event | {ledger.word: None if chance.random() < VOIDS else round(chance.random(), 3)}
