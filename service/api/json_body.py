"""Bodies: one JSON object of bounded size, with finite numbers and no field named twice.

Most bodies are small and right: pydantic's parser reads them in one pass, and events of arms become columns, as a
model for each would cost as much as learning from it. Whatever it refuses is read once more by Python's decoder,
which says where the fault is. Large bodies are read in a thread, large batches of events in pieces with pauses.
"""

import asyncio
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import Any, Literal, NamedTuple, Self

from jiter import from_json
from pydantic import ConfigDict, TypeAdapter, ValidationError
from starlette.types import Message, Receive

from .. import errors
from ..cooperative import LARGE_INPUT_BYTES, FairYield, json_chunks
from ..learners.specs import MAX_COUNT
from ..models.events import MAX_NAMES, Event, PlainEvents, WrongEvent
from ..settings import Settings
from .problems import from_pydantic_errors
from .schemas import Feedbacks

JSON = "application/json"
_SORTED = json.JSONEncoder(sort_keys=True)
MAX_MEDIA_TYPE = 200
"""Characters of a Content-Type."""
MAX_DIGITS = 400
"""Characters of one number: a float has at most 309 digits before the point."""
MAX_FIELDS = 100
"""Fields of one object: no valid one has half as many, and each unknown one is an error to report.

Only the ``probabilities`` of a learner, and of a control group, have one for each arm.
"""
MAX_ID = 128
READ_AT_ONCE = 100
"""Events read between two pauses."""

_PARAMETER = re.compile(r"\s*([!#$%&'+.^_`|~\w-]+)=\"?([!#$%&'+.^_`|~\w-]+)\"?\s*", re.ASCII)
_LONG_NUMBER = re.compile(rb"[-+.0-9eE]{401}")
_OFTEN_DIGITS = re.compile(rb"[-+.0-9eE]{10}")
"""What every 40th byte of a body shows of a long number: looking at all of them takes as long as parsing."""


class PartLimits(NamedTuple):
    """How many parts a body may have: reading an array keeps all other requests waiting."""

    objects: int
    """Objects and arrays."""
    fields: int
    texts: int
    """Names of fields, and values that are texts."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Make the limits that allow the longest batch, the most labels, and the longest lists beside them."""
        events, arms = settings.max_events, settings.max_arms
        warm = min(arms, settings.max_arms_centred)
        return cls(
            objects=max(2 * events, warm) + MAX_FIELDS,
            fields=max(7 * events, arms, 3 * warm) + MAX_FIELDS,
            texts=max(12 * events + 2 * arms, arms + 4 * warm, MAX_NAMES) + MAX_FIELDS,
        )

    def allow(self, outside: bytes, quotes: int) -> bool:
        """Return whether a body may have so many quotes, and these characters outside its texts.

        Parameters
        ----------
        outside : the body without its texts, or all of it, which has no fewer brackets and colons
        quotes : double quotes in the body, where those within texts may be left out
        """
        brackets = outside.count(b"[") + outside.count(b"{")
        return brackets <= self.objects and outside.count(b":") <= self.fields and quotes <= 2 * self.texts


def in_order(value: Any) -> Iterable[str]:
    """Return JSON that is the same whatever the order of fields was, in pieces."""
    return json_chunks(value, _SORTED)


async def receive_rest(message: Message, limit: int, receive: Receive, seconds: float) -> bytes:
    """Receive what follows on the first message of a body.

    Raises
    ------
    PayloadTooLargeError, RequestTimeoutError, InvalidRequestError
        for one that is too large, too slow, or cut off.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                if message["type"] == "http.disconnect":
                    raise errors.InvalidRequestError("The body was cut off")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise errors.PayloadTooLargeError(f"The body may have {limit} bytes")
                if not message.get("more_body"):
                    return bytes(body)
                message = await receive()
    except TimeoutError as error:
        raise errors.RequestTimeoutError from error


def check_media_type(headers: Sequence[tuple[bytes, bytes]], body: bytes, others: Collection[str] = ()) -> str:
    """Refuse a body that is not declared as plain JSON, or as one of these; an empty object needs no Content-Type.

    Returns
    -------
    The media type.

    Raises
    ------
    UnsupportedMediaTypeError
    """
    types = [value for name, value in headers if name == b"content-type"]
    encodings = [value for name, value in headers if name == b"content-encoding"]
    if not encodings and (types == [b"application/json"] or (not types and body == b"{}")):
        return JSON
    if any(encoding.strip().lower() != b"identity" for encoding in encodings):
        raise errors.UnsupportedMediaTypeError("Content-Encoding is not supported; send the body as it is")
    kind = _kind_in_utf8(types[0].decode("latin-1")) if len(types) == 1 else None
    if kind is None or kind not in {JSON, *others}:
        named = " or ".join((JSON, *others))
        raise errors.UnsupportedMediaTypeError(f"Content-Type must be {named} (UTF-8), once")
    return kind


def _kind_in_utf8(media_type: str) -> str | None:
    """Return the kind of a media type in UTF-8; parameters other than ``charset`` only need the right form."""
    kind, *parameters = media_type[:MAX_MEDIA_TYPE].split(";")
    given = [_PARAMETER.fullmatch(parameter) for parameter in parameters if parameter.strip()]
    charsets = [each[2].lower() for each in given if each and each[1].lower() == "charset"]
    is_right = len(media_type) <= MAX_MEDIA_TYPE and all(given) and charsets in ([], ["utf-8"], ["utf8"])
    return kind.strip().lower() if is_right else None


def parse_small(body: bytes) -> dict[str, Any] | None:
    """Parse the object in a small body; None if ``parse`` has to look at it, which also counts fields."""
    if len(body) > MAX_DIGITS and _OFTEN_DIGITS.search(body[::40]) and _LONG_NUMBER.search(body):
        return None
    try:
        value = from_json(body, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError:
        return None
    return value if type(value) is dict else None


def parse(body: bytes, limits: PartLimits) -> dict[str, Any]:
    """Parse the object in a body.

    Parameters
    ----------
    body : as it was received
    limits : of parts; they hold for bodies from ``LARGE_INPUT_BYTES`` on

    Raises
    ------
    InvalidRequestError
        for anything but one JSON object in UTF-8 with strict numbers and each key once.
    """
    if len(body) >= LARGE_INPUT_BYTES and not limits.allow(body, body.count(b'"')):
        # Without escaped quotes every second part between quotes is outside of texts.
        bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
        quotes = bare.count(b'"')
        if quotes > 2 * limits.texts or not limits.allow(b"".join(bare.split(b'"')[::2]), quotes):
            raise errors.InvalidRequestError("The body has too many parts")
    large: list[dict[str, Any]] = []
    try:
        value = json.JSONDecoder(
            object_pairs_hook=partial(_unique, large),
            parse_constant=_no_constant,
            parse_int=partial(_number, int),
            parse_float=partial(_number, float),
        ).decode(body.decode("utf-8"))
    except errors.ServiceError:
        raise
    except RecursionError as error:
        raise errors.InvalidRequestError("The body has too many objects and arrays within each other") from error
    except ValueError as error:
        # It says where a text ceases to be JSON, without the text.
        where = ""
        if isinstance(error, json.JSONDecodeError):
            where = f": line {error.lineno}, column {error.colno}; names and texts stand in double quotes"
        elif isinstance(error, UnicodeDecodeError):
            where = f": byte {error.start} is not UTF-8"
        raise errors.InvalidRequestError(f"The body is not valid JSON{where}") from error
    if not isinstance(value, dict):
        text = "The body must be a JSON object"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text += '; post a list of events to /feedbacks as {"events": [...]}'
        raise errors.InvalidRequestError(text)
    allowed = {id(_inner(value.get(name), "probabilities")) for name in ("learner", "control")}
    if not allowed.issuperset(map(id, large)):
        raise errors.InvalidRequestError(f"An object has more than {MAX_FIELDS} fields")
    return value


# The JSON decoder lets other threads run only where it calls Python, so numbers are read by functions of ours.


def _number(kind: Callable[[str], Any], text: str) -> Any:
    if len(text) > MAX_DIGITS:
        raise errors.InvalidRequestError(f"A number has more than {MAX_DIGITS} characters")
    return kind(text)


def _unique(large: list[dict[str, Any]], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its fields; one with many is added to ``large``."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise errors.InvalidRequestError("The body names a field twice")
    if len(pairs) > MAX_FIELDS:
        large.append(value)
    return value


def _no_constant(name: str) -> Any:
    raise errors.InvalidRequestError(f"{name} is not a JSON number")


# -- Lists that are too long are found before they are validated: validating them keeps all other requests
# waiting.


def check_lengths(body: Mapping[str, Any], settings: Settings) -> None:
    """Refuse a body with a list that is longer than the settings allow.

    Parameters
    ----------
    body : as it was parsed, not validated yet
    settings : of the service: most events of a batch, and largest dimension

    Raises
    ------
    InvalidRequestError
    """
    dim = settings.max_dim
    values = {"losses": dim + 1, "gradient": dim}
    _check(body, {"events": settings.max_events, **values})
    if isinstance(events := body.get("events"), list):
        for index, event in enumerate(events):
            _check(event, values, index=index)
    if "learner" in body:
        feasible_set = _inner(body["learner"], "feasible_set")
        _check(feasible_set, {"center": dim, "lower": dim, "upper": dim}, "learner.feasible_set.")


def _check(value: Any, limits: Mapping[str, int], place: str = "", index: int | None = None) -> None:
    for name, limit in limits.items():
        listed = _inner(value, name)
        if isinstance(listed, list) and len(listed) > limit:
            raise errors.InvalidRequestError.of(place + name, f"at most {limit} in one call", index)


def _inner(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


# -- Events of arms as columns: an arm by its index, a number and perhaps an id, and nothing else.
#
# These functions never judge: whatever is wrong or only unusual is left to the models.


def plain_event(posted: Mapping[str, Any], _settings: Settings) -> PlainEvents | None:
    """Read one event; None if it is not plain."""
    return _columns([posted])


def plain_events(posted: Mapping[str, Any], settings: Settings) -> Feedbacks | None:
    """Read a batch of events; None if it is not plain."""
    columns = _columns(events) if (events := _listed(posted, settings)) else None
    return None if columns is None else batch_of(columns)


def each_event(posted: Mapping[str, Any], settings: Settings) -> Feedbacks | None:
    """Read a batch of events, any of which may be wrong; None if the batch itself is."""
    if not (events := _listed(posted, settings)):
        return None
    return batch_of(_columns(events) or [read_event(event, settings) for event in events])


def _listed(posted: Mapping[str, Any], settings: Settings) -> list[Any]:
    """Return the events of a batch; none if they are too many, or not all that it has."""
    events = posted.get("events")
    return events if type(events) is list and len(posted) == 1 and len(events) <= settings.max_events else []


async def read_each(values: Sequence[Any], settings: Settings) -> Sequence[Event | WrongEvent]:
    """Read one event or more, as they were parsed, with pauses."""
    fair_yield, parts = FairYield(), []
    for start in range(0, len(values), READ_AT_ONCE):
        piece = values[start : start + READ_AT_ONCE]
        parts.append(_columns(piece) or [read_event(value, settings) for value in piece])
        await fair_yield()
    return parts[0] if len(parts) == 1 else await _joined(parts, fair_yield) or ()


_EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))


def read_event(value: Any, settings: Settings) -> Event | WrongEvent:
    """Read one event as it was parsed; what is wrong with it is told if somebody asks."""
    try:
        _check(value, {"losses": settings.max_dim + 1, "gradient": settings.max_dim})
        return _EVENT.validate_python(value)
    except (errors.InvalidRequestError, ValidationError) as error:
        return WrongEvent(partial(_placed, error))


def _placed(error: ValidationError | errors.InvalidRequestError, index: int) -> Sequence[errors.FieldError]:
    """Return what is wrong with the event in this place of its batch."""
    if isinstance(error, errors.InvalidRequestError):
        return [replace(each, index=index) for each in error.errors]
    found = error.errors(include_url=False, include_input=False)
    return from_pydantic_errors({**each, "loc": ("body", "events", index, *each["loc"])} for each in found).errors


def batch_of(events: Sequence[Event | WrongEvent]) -> Feedbacks:
    """Make a batch of events that are checked already."""
    values: Any = events  # Columns are no list: they stand for one.
    return Feedbacks.model_construct(events=values)


def _columns(events: Sequence[Any]) -> PlainEvents | None:
    first = events[0]
    word: Literal["loss", "reward"] = "reward" if type(first) is dict and "reward" in first else "loss"
    arms, values, event_ids = [], [], []
    for event in events:
        if type(event) is not dict:
            return None
        arm, value = event.get("arm"), event.get(word)
        if type(value) is int and abs(value) <= MAX_COUNT:
            value = float(value)
        if type(arm) is not int or not 0 <= arm <= MAX_COUNT or type(value) is not float or not isfinite(value):
            return None
        event_id: str | None = None
        if len(event) != 2:
            event_id = event.get("event_id")
            if len(event) != 3 or type(event_id) is not str or not 0 < len(event_id) <= MAX_ID:
                return None
            if not event_id.isascii() or not event_id.isprintable():
                return None
        arms.append(arm)
        values.append(value)
        event_ids.append(event_id)
    return PlainEvents(word, arms, values, event_ids)


def read_small(
    body: bytes, columns: Callable[[Any, Settings], Any] | None, settings: Settings, limits: PartLimits
) -> tuple[dict[str, Any], Any]:
    """Parse the object in a small body, and read it without its model if ``columns`` can; else None beside it."""
    if (posted := parse_small(body)) is not None:
        if columns is not None and (read := columns(posted, settings)) is not None:
            return posted, read
        if body.count(b":") <= MAX_FIELDS:
            return posted, None
    return parse(body, limits), None


# -- Large batches of events, read as several small ones, with pauses.
#
# They are read on the event loop and not in a thread: whenever the event loop wakes up, and it wakes up several
# times for each request, it would have to wait until the thread hands over the interpreter, and on a busy machine
# until the thread is run at all.

PIECE_BYTES = 4_096
"""Bytes of events read between two pauses: some 100 events, which take 2 ms where each is validated."""
MAX_EVENT_BYTES = 4_096
"""Bytes of an event; a batch with a longer one is read whole."""
MAX_ENDS_BYTES = 100
"""Bytes before the first event, and behind the last."""

_HEAD = re.compile(rb'[ \t\n\r]*\{[ \t\n\r]*"events"[ \t\n\r]*:[ \t\n\r]*\[')
_BETWEEN = re.compile(rb"\}(?=,[ \t\n\r]*\{)")
_TAIL = re.compile(rb"\][ \t\n\r]*\}[ \t\n\r]*\Z")


async def read_in_pieces(
    read: Callable[[bytes], Sequence[Event] | None], most: int, body: bytes
) -> Sequence[Event] | None:
    """Read a large batch of events; None where it is too long or can't be divided, or where a piece can't be read.

    Parameters
    ----------
    read : reads a small batch
    most : events that the batch may have
    body : as it was received
    """
    fair_yield, parts, count = FairYield(), list[Sequence[Event]](), 0
    for piece in _pieces(body):
        if (part := read(b'{"events":[%b]}' % body[piece])) is None:
            return None
        parts.append(part)
        count += len(part)
        if count > most:
            return None
        await fair_yield()
    return await _joined(parts, fair_yield)


def _pieces(body: bytes) -> Sequence[slice]:
    """Divide the events of a batch; no pieces where they can't be divided.

    What looks like the end of an event may be part of a text, but a list that ends within a text is no JSON. So if
    each piece can be read as a list, all of them together are the list of the body.
    """
    head, tail = _HEAD.match(body[:MAX_ENDS_BYTES]), _TAIL.search(body[-MAX_ENDS_BYTES:])
    if head is None or tail is None:
        return ()
    found, at, end = [], head.end(), max(len(body) - MAX_ENDS_BYTES, 0) + tail.start()
    while end - at > PIECE_BYTES + MAX_EVENT_BYTES:
        # Features within an event end in a brace and a comma too, but no brace opens behind them.
        if (cut := _BETWEEN.search(body, at + PIECE_BYTES, at + PIECE_BYTES + MAX_EVENT_BYTES)) is None:
            return ()
        found.append(slice(at, cut.end()))
        at = cut.end() + 1
    return [*found, slice(at, end)]


async def _joined(parts: Sequence[Sequence[Any]], fair_yield: FairYield) -> Sequence[Any] | None:
    """Make one batch of several; None where there are none."""
    plain = [part for part in parts if isinstance(part, PlainEvents)]
    if len(plain) == len(parts) and len({part.word for part in plain}) == 1:
        return PlainEvents.joined(plain)
    events = list[Any]()
    for part in parts:
        events += part
        await fair_yield()
    return events or None
