"""What the state codec does with any bytes: it refuses them with its own error, or reads what it would write."""

import contextlib
import struct
import zlib
from typing import Any

import numpy as np

from service.engine.arm_run import Arms
from service.engine.ledger import Expiry, Params
from service.engine.run import Run, start_run
from service.learners import REGISTRY
from service.learners.base import Log
from service.learners.dexp3 import Dexp3Spec
from service.models.specification import Specification
from service.models.stored import Stored, decode
from service.serialization import records
from service.serialization import state as codec
from service.serialization.binary import CodecError, checksum
from service.store.base import head_of
from tests.support import vectors

NAMES = ["a", "b", "c"]
STORED = Stored(Specification(learner=Dexp3Spec(arms=NAMES)), 1)
SPEC = STORED.encode()


def _runs() -> list[Run]:
    """One started run for each kind, with expiry, which keeps the most records."""
    specs = [vectors.traces(kind)[0]["spec"] for kind in sorted(vectors.kinds())]
    learners = [REGISTRY[spec["kind"]].model_validate(spec) for spec in specs]
    return [start_run(Params(each, seed=1, expiry=Expiry(60.0, None))) for each in learners]


RUNS = _runs()


def _sealed(body: bytes) -> bytes:
    return body + checksum(body)


def one_input(data: bytes) -> None:
    """The first byte chooses the learner, the second what is read; checksums are made to fit."""
    if len(data) < 2:
        return
    run, body = RUNS[data[0] % len(RUNS)], data[2:]
    with contextlib.suppress(CodecError, struct.error):
        (_state, _raw, _arms, _records)[data[1] % 4](run, body)


def _state(run: Run, body: bytes) -> None:
    head = head_of(body)[:-2]
    body = head + (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") + body[len(head) + 2 :]
    decoded = codec.decode(_sealed(body), run)
    again = codec.decode(codec.encode(decoded), run)
    for one, other in zip(decoded.state, again.state, strict=True):
        assert _bits(one) == _bits(other)
    assert again.ledger.slot == decoded.ledger.slot


def _bits(value: Any) -> Any:
    if isinstance(value, Log):
        return value.base.tobytes(), value.steps, value.opened
    return value if isinstance(value, tuple) else np.asarray(value).tobytes()


def _raw(run: Run, body: bytes) -> None:
    codec.read_shown(head_of(body))
    codec.decode(body, run)


def _arms(run: Run, body: bytes) -> None:
    """Arms as they stand beside a specification."""
    with contextlib.suppress(ValueError):
        arms = decode(SPEC.replace(b',"seed"', b',"arms":' + body + b',"seed"')).arms
        assert arms is not None
        assert list(arms.live) == [arm for arm in range(arms.size) if arms.is_live(arm)]
        assert arms.shown_names is not None
        assert all(isinstance(name, str) for name in arms.shown_names)


def _records(run: Run, body: bytes) -> None:
    kept = {}
    for part in body.split(b"\xff\xff"):
        key, _, value = part.partition(b"=")
        kept[key] = value + checksum(key + b":" + value)
    records.decode(kept, run)


def seeds() -> list[bytes]:
    """Inputs to start from: states and records as they are written."""
    found = []
    for number, run in enumerate(RUNS):
        run = run.copy()
        for _ in range(3):
            run.act()
        state = codec.encode(run)
        kept = records.encode(run)
        joined = b"\xff\xff".join(key + b"=" + value[:-4] for key, value in kept.items() if value is not None)
        found += [bytes([number, 0]) + state[:-4], bytes([number, 1]) + state, bytes([number, 3]) + joined]
    grown = Arms.of(len(NAMES), NAMES)
    grown = grown.changed(grown.change(["d"], ["b"]))
    stored = STORED._replace(arms=grown).encode()
    return [*found, b"\0\2" + stored[stored.index(b'{"size"') : stored.rindex(b',"seed"')]]
