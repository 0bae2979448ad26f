"""Events of many sessions in one call: each line is judged alone, and each session's lines are one batch.

They are taken apart where they arrive. Each part is a call of its session's own, which its owner carries out; parts
are independent of each other, and whoever sends the whole body again settles none twice, by ids or by a key.
"""

import asyncio
import re
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, cast

from jiter import from_json

from .. import errors
from ..cooperative import COMPACT, LARGE_INPUT_BYTES, FairYield, joined, run_in_thread_if_large, wait_in_queue
from ..models.events import Idempotency, WrongEvent, digest, digest_of
from ..models.specification import is_id
from ..sessions.feedback import SettleFeedback
from ..telemetry.logs import PART, WAITED
from . import json_body
from .calls import IDEMPOTENCY_KEY, REPLAYED, Call, Reply
from .problems import problem_fields, validated
from .runtime import Runtime
from .schemas import BulkFeedbacks

NDJSON = "application/x-ndjson"
MAX_LINES, READ_AT_ONCE = 10_000, 16
"""Events of a call, and lines read between two pauses."""
COUNTS = ("applied", "updated", "duplicates", "voided", "removed", "surplus", "invalid")
"""Of an answer, in their order; it has the first and the third also if they are 0."""
WRONG = errors.InvalidRequestError.code

# -- What a body has: the events of each session, and what is an event of none.

_PIECE, _BLANKS = re.compile(rb"(?s:.{1,4096})[^\n]*\n?"), b" \t\r\n"
"""Lines that are parsed together."""


class Part(NamedTuple):
    """The events of one session, in their order."""

    places: list[int]
    """Numbers of the lines."""
    events: list[dict[str, Any]]
    """As they were parsed, without the session."""


@dataclass(slots=True)
class Lines:
    """The lines of a body, or the events of one that is JSON, by session."""

    word: str
    """What numbers them: ``line``, from 1, or ``index``, from 0."""
    parts: dict[str, Part] = field(default_factory=lambda: defaultdict(lambda: Part([], [])))
    nameless: list[Any] = field(default_factory=list)
    """Events without an id or a token, which is one."""
    told: list[dict[str, Any]] = field(default_factory=list)
    """What is wrong with lines."""
    invalid: list[int] = field(default_factory=list)
    """Numbers of wrong lines."""

    def refuse(self, place: int, message: str, name: str = "") -> None:
        """Note a line that is no event of any session."""
        self.invalid.append(place)
        self.tell(place, WRONG, message, name)

    def tell(self, place: int, code: str, message: str, name: str = "") -> None:
        """Note what is wrong with a line."""
        if len(self.told) >= 5 * errors.MAX_LISTED:
            self.told = sorted(self.told, key=itemgetter(self.word))[: errors.MAX_LISTED]
        named = {"field": name} if name and not name.startswith("events[") else {}
        self.told.append({self.word: place, "code": code, **named, "message": message})


async def read_lines(call: Call, body: bytes) -> BulkFeedbacks:
    """Read a body; the events of what is returned are ``Lines``, or those of a part that was handed over.

    Raises
    ------
    ServiceError
        for one of another media type, with too many events, or that is declared as JSON and is none.
    """
    if PART in call.scope:
        return BulkFeedbacks.model_construct(events=cast("Any", body))
    is_json = json_body.check_media_type(call.scope["headers"], body, (NDJSON,)) == json_body.JSON
    found, limits, fair_yield = Lines("index" if is_json else "line"), call.requests.limits, FairYield()
    values = enumerate(await _events(call, body)) if is_json else _lines(body)
    for count, (place, value) in enumerate(values, 1):
        if not count % READ_AT_ONCE:
            await fair_yield()
        if count > MAX_LINES:
            raise errors.PayloadTooLargeError(f"One call may have {MAX_LINES} events")
        try:
            if isinstance(value, bytes) and len(value) < LARGE_INPUT_BYTES:
                value = json_body.read_small(value, None, call.runtime.settings, limits)[0]
            elif isinstance(value, bytes):
                value = await run_in_thread_if_large(len(value), json_body.parse, value, limits)
        except errors.InvalidRequestError as error:
            found.refuse(place, error.detail.replace("The body", "The line").replace("line 1, ", ""))
            continue
        if not isinstance(value, dict):
            found.refuse(place, "must be a JSON object")
        elif not isinstance(session_id := value.pop("session_id", None), str):
            found.refuse(place, "the session of the event, as text", "session_id")
        else:
            part = found.parts[session_id]
            part.places.append(place)
            part.events.append(value)
            if value.get("event_id") is None and value.get("token") is None:
                found.nameless.append(value)
    return BulkFeedbacks.model_construct(events=cast("Any", found))


async def _events(call: Call, body: bytes) -> Sequence[Any]:
    """Return the events of a JSON object as they were parsed."""
    if (values := await json_body.read_in_pieces(_piece, MAX_LINES, body)) is not None:
        return values
    posted = await run_in_thread_if_large(len(body), json_body.parse, body, call.requests.limits)
    return validated(BulkFeedbacks, posted).events


def _piece(piece: bytes) -> Any:
    posted = json_body.parse_small(piece) or {}
    return posted.get("events") if len(posted) == 1 else None


def _lines(body: bytes) -> Iterator[tuple[int, Any]]:
    """Yield what lines say, with their numbers; the bytes of those that are to be parsed alone."""
    number = 1
    for found in _PIECE.finditer(body, len(BOM_UTF8) if body.startswith(BOM_UTF8) else 0):
        piece = found[0].replace(b"\r\n", b"\n").rstrip(_BLANKS)
        if values := _at_once(piece):
            yield from enumerate(values, number)
        else:
            yield from (each for each in enumerate(piece.split(b"\n"), number) if each[1].strip(_BLANKS))
        number += found[0].count(b"\n")


def _at_once(lines: bytes) -> Sequence[Any]:
    """Parse lines as one list; () unless each is an object without others in it, and some 4 kB are all.

    Each begins and ends with its only braces, so objects end with lines: if a text has a brace, there are fewer.
    """
    framed, values = b"\n%b\n" % lines, None
    counts = {*map(framed.count, (b"{", b"}", b"\n{", b"}\n")), lines.count(b"\n") + 1}
    if len(counts) == 1 and len(lines) < LARGE_INPUT_BYTES:
        values = _piece(b'{"events":[%b]}' % lines.replace(b"\n", b","))
    return values if values and {len(values)} == counts and max(map(len, values)) <= json_body.MAX_FIELDS else ()


# -- Each part settled as a call of its session's own.

BEGUN_AT_ONCE, PART_WEIGHT, MOST_UNDER_WAY = 200, 10, 100
"""Events whose parts begin in one pass of the event loop, what a part adds to these, and parts under way."""


async def settle(call: Call, session_id: str, events: list[Any], key: Idempotency | None) -> Reply:
    """Settle events of a session that a call's body names, where its owner is; surplus and wrong ones are skipped.

    Parameters
    ----------
    call : of an operation that reads its body itself
    session_id : which a session can have
    events : as they were parsed
    key : under which the settlement is stored; None where there is none
    """
    waited = 0.0
    if call.requests.hand_over is not None:
        scope = {**call.scope, "path": "/v1/feedbacks", "query_string": b"", PART: (session_id, *(key or ()))}
        scope["path_params"] = {"session_id": session_id}
        if (answered := await call.requests.hand_over(scope, events)) is not None:
            return Reply(answered[2], replayed=REPLAYED in answered[1])
        waited = scope.get(WAITED, 0.0)
    return await settle_here(call.runtime, session_id, events, key, waited)


async def settle_here(
    runtime: Runtime, session_id: str, events: list[Any], key: Idempotency | None, waited: float
) -> Reply:
    """Settle what ``settle`` describes in this worker; it has waited for the owner so many seconds."""
    read = await json_body.read_each(events, runtime.settings)
    operation = SettleFeedback(read, "skip", skips_invalid=True, tells_errors=True, idempotency=key, waited=waited)
    answer = await runtime.sessions.submit(session_id, operation)
    return Reply(answer.body, replayed=answer.replayed)


async def settle_lines(call: Call, lines: Lines) -> Reply:
    """Settle all lines, session by session and all at the same time.

    Raises
    ------
    InvalidRequestError
        where an event could count twice if the call is sent again; nothing is settled then.
    StoreUnavailableError
        where the events of some sessions were not settled; it names their lines.
    """
    given, fair_yield, most = await call.idempotency(), FairYield(), call.runtime.settings.max_events
    for value in lines.nameless if given is None and len(lines.parts) > 1 else ():
        if not isinstance(json_body.read_event(value, call.runtime.settings), WrongEvent):
            text = "events of several sessions need an event_id each, or the call needs this header"
            raise errors.InvalidRequestError.of(IDEMPOTENCY_KEY, text)
        await fair_yield()
    if any(len(part.places) > most for part in lines.parts.values()):
        raise errors.PayloadTooLargeError(f"One session may have {most} events in a call")
    counts, unavailable, failed = dict.fromkeys(COUNTS, 0), list[int](), list[Mapping[str, Any]]()
    counts["invalid"] = len(lines.invalid)
    prefix, room, replayed = call.rights.prefix, asyncio.Semaphore(MOST_UNDER_WAY), list[bool]()

    async def settle_part(session_id: str, part: Part) -> None:
        if len(failed) >= MOST_UNDER_WAY:  # The store is down: the others would wait for it in vain.
            found = failed[0]
        elif is_id(session_id) and session_id.startswith(prefix):
            key = given
            if given is not None:
                asked = await digest_of(json_body.in_order(part.events), fair_yield)
                key = Idempotency(digest(session_id, given.key.hex()), asked)
            try:
                reply = await settle(call, session_id, part.events, key)
                found = from_json(await joined(reply.body, FairYield()))
            except errors.ServiceError as error:
                call.runtime.metrics.problems[error.code]()
                found = problem_fields(error)
        else:
            found = problem_fields(errors.UnknownSessionError())
        room.release()
        if "code" not in found:
            replayed.append(reply.replayed)
            for name in counts.keys() & found.keys():
                counts[name] += found[name]
            if found["invalid"]:
                lines.invalid += [part.places[index] for index in found["invalid_indexes"]]
            for each in found.get("errors", ()):
                lines.tell(part.places[each["index"]], each.get("code", WRONG), each["message"], each["field"])
        elif found["status"] < 500 or found["code"] == errors.StateCorruptError.code:
            counts["invalid"] += len(part.places)
            lines.invalid += part.places
            for place in part.places[: errors.MAX_LISTED]:
                lines.tell(place, found["code"], found["detail"])
        else:
            failed.append(found)
            unavailable.extend(part.places)

    begun = 0
    async with asyncio.TaskGroup() as group:
        for each in lines.parts.items():
            await room.acquire()
            group.create_task(settle_part(*each))
            begun += PART_WEIGHT + len(each[1].places)
            if begun >= BEGUN_AT_ONCE:
                await wait_in_queue()
                begun = 0
    answer: dict[str, Any] = {name: counts[name] for name in COUNTS if counts[name] or name in COUNTS[:3:2]}
    is_brief = call.given.get(b"prefer", b"").lower() == b"return=minimal"
    if lines.invalid and not is_brief:
        plural = "indexes" if lines.word == "index" else "lines"
        answer["errors"] = sorted(lines.told, key=itemgetter(lines.word))[: errors.MAX_LISTED]
        answer[f"invalid_{plural}"] = sorted(lines.invalid)[: errors.MAX_INDEXES]
    if failed:
        text = f"{len(unavailable)} events of {len(failed)} sessions were not settled: send the whole body again"
        error = errors.StoreUnavailableError(text)
        error.fields = answer | ({} if is_brief else {"unavailable_lines": sorted(unavailable)})
        raise error
    return Reply(COMPACT.encode(answer).encode(), replayed=bool(replayed) and all(replayed))
