"""What the readers of requests do with any bytes: they refuse them with a problem, or take what is valid JSON."""

import contextlib
import json
from typing import Any

from pydantic import TypeAdapter, ValidationError

from service.api.json_body import PartLimits, _kind_in_utf8, in_order, parse
from service.api.openapi import EXAMPLES
from service.api.problems import from_pydantic_errors, problem_fields
from service.api.schemas import Act, Acts, ChangeArms, CreateSession, Feedbacks, ReplaceArms
from service.errors import ServiceError
from service.models.events import Event
from service.models.stored import Stored, decode
from service.sessions import views as limits
from service.sessions.views import ALL
from service.settings import Settings
from tests.support import vectors

LIMITS = PartLimits.of(Settings())
SIZES = limits.Limits(Settings())
BODIES: list[TypeAdapter[Any]] = [
    TypeAdapter(kind) for kind in (CreateSession, Event, Feedbacks, Acts, ChangeArms, Act, ReplaceArms)
]


def one_input(data: bytes) -> None:
    """The first byte chooses the kind of body."""
    if not data:
        return
    _kind_in_utf8(data[:300].decode("latin-1"))
    try:
        value = parse(data[1:], LIMITS)
    except ServiceError as error:
        _tell(error)
        return
    assert json.loads(data[1:]) == value
    kind = BODIES[data[0] % len(BODIES)]
    try:
        body = kind.validate_python(value)
    except ValidationError as error:
        _tell(from_pydantic_errors([{**each, "loc": ("body", *each["loc"])} for each in error.errors()]))
        return
    assert json.loads("".join(in_order(value))) == value
    if isinstance(body, CreateSession):
        try:
            SIZES.check(body.specification, ALL)
        except ServiceError as error:
            _tell(error)
            return
        stored = Stored.of(body.specification)
        assert not decode(stored.encode()).differing(body.specification)
        if getattr(body.learner, "arm_count", 0) <= 1000 and getattr(body.learner, "dim", 0) <= 100:
            with contextlib.suppress(ServiceError):
                stored.start()


def _tell(error: ServiceError) -> None:
    assert len(json.dumps(problem_fields(error))) < 10_000
    assert 400 <= error.status < 500


def seeds() -> list[bytes]:
    """Inputs to start from: the examples of the OpenAPI document."""
    names = ("create", "event", "events", "acts", "change", "act", "replace")
    groups = [EXAMPLES[name] for name in names]
    values = [(number, dict(example)["value"]) for number, group in enumerate(groups) for example in group.values()]
    expiry = {"after_seconds": 1, "default_loss": None}
    values += [(0, {"learner": vectors.traces(kind)[0]["spec"], "expiry": expiry}) for kind in vectors.kinds()]
    return [bytes([number]) + json.dumps(value).encode() for number, value in values]
