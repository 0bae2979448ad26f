"""Features are declared within limits, become columns to the bit, and come back whole from a token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from service.errors import InvalidRequestError
from service.learners.base import Visit
from service.learners.features import UNIT, Encoder, Features, columns_of, of_int16, tail_of, visit_of
from service.tokens import SessionTokens, TokenKeys, read
from tests.support import vectors

FEATURES: TypeAdapter[dict[str, Any]] = TypeAdapter(Features)
NUMBER = {"kind": "number", "range": [0, 1]}
MANY = {
    "age": {"kind": "number", "range": [18, 80]},
    "member": {"kind": "boolean"},
    "device": {"kind": "category", "values": ["phone", "tablet"]},
    "city": {"kind": "category", "buckets": 4},
    "taste": {"kind": "vector", "length": 3, "range": [-1, 1]},
}


def encoder(declared: dict[str, Any]) -> Encoder:
    return Encoder(FEATURES.validate_python(declared))


@pytest.mark.parametrize("case", vectors.load("features_1")["encoding"])
def test_columns_are_those_of_the_specification_to_the_bit(case: dict[str, Any]) -> None:
    assert encoder(case["declared"]).encode(case["features"]).x.tolist() == case["columns"]


@pytest.mark.parametrize(
    ("declared", "said", "columns"),
    [
        ({"kind": "number", "range": [-1e308, 7e307]}, 1.7e308, [1.0]),
        ({"kind": "number", "range": [-1, 1]}, 3 * 2**-16, [2**-14]),
        ({"kind": "number", "range": [-1, 1]}, 2**-15, [0.0]),
        ({"kind": "number", "range": [-1, 1]}, 3 * 2**-15, [2 * 2**-14]),
        ({"kind": "number", "range": [0, 10]}, 2**70, [1.0]),
        ({"kind": "category", "values": ["a", "b"]}, "", [0.0, 0.0]),
        ({"kind": "vector", "length": 2, "range": [0, 1]}, [0, 2], [-1.0, 1.0]),
        (
            {"kind": "vector", "length": 3, "range": [-1, 1]},
            [3 * 2**-16, 2**-15, 3 * 2**-15],
            [2**-14, 0.0, 2**-13],
        ),
        ({"kind": "vector", "length": 2, "range": [-1e308, 7e307]}, [1.7e308, -1.7e308], [1.0, -1.0]),
    ],
)
def test_ties_go_to_even_and_what_is_outside_is_clipped(
    declared: dict[str, Any], said: Any, columns: list[float]
) -> None:
    assert encoder({"it": declared}).encode({"it": said}).x.tolist() == [1.0, *columns]


def test_what_is_missing_or_clipped_is_told() -> None:
    encoded = encoder(MANY).encode({"age": 90, "member": None, "taste": [0.0, 0.5, -2]})
    assert (encoded.missing, encoded.clipped) == ([1, 2, 3], [0, 4])
    assert encoder(MANY).encode(None).missing == [0, 1, 2, 3, 4]


SAID_WRONGLY = {
    "height": (3,),
    "age": ("33", True, float("inf"), float("nan"), 10**400),
    "member": (1,),
    "device": (3, "x" * 129),
    "city": ("\ud800",),
    "taste": ([1, 2], [1, 2, None], [1, 2, 10**400], [1, True, 2], 3.0),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, each) for name, wrong in SAID_WRONGLY.items() for each in wrong]
)
def test_what_is_said_wrongly_is_refused_and_not_repeated(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        encoder(MANY).encode({name: value})
    (error,) = caught.value.errors
    assert error.field == f"features.{name}"
    assert "x" * 100 not in str(caught.value)


RANGES = (None, [1, 1], [2, 1], [-1e308, 1e308], [0, float("inf")])
VALUES = (["a"], ["a", "a"], ["a", ""], ["a", "x" * 129], None)
WRONG = [
    *({"a": {"kind": "number", "range": within}} for within in RANGES),
    *({"a": {"kind": "category", "values": values}} for values in VALUES),
    *({"a": {"kind": "category", "buckets": buckets}} for buckets in (1, 65, None)),
    *({"a": {"kind": "vector", "length": length, "range": [0, 1]}} for length in (0, 64)),
    *({"a": NUMBER | more} for more in ({"unit": "m"}, {"kind": "boolean"}, {"kind": "text"})),
    *({name: NUMBER} for name in ("", "a b", "a" * 65)),
    {},
    {"a": {"kind": "category", "values": ["a", "b"], "buckets": 2}},
    {"a": {"kind": "vector", "length": 62, "range": [0, 1]}, "b": NUMBER, "c": NUMBER},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_declarations_have_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FEATURES.validate_python(wrong)


def test_a_declaration_has_up_to_64_columns() -> None:
    declared = {"a": {"kind": "vector", "length": 62, "range": [0, 1]}, "A.b_c-9": NUMBER}
    assert columns_of(FEATURES.validate_python(declared)) == 64


@pytest.mark.parametrize("d", [2, 9, 31, 64])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_token_is_read_back_bit_for_bit_and_no_other_is_taken(d: int, share: float) -> None:
    rng = np.random.default_rng(d)
    x = of_int16(rng.integers(-UNIT, UNIT, d - 1, endpoint=True) * (rng.random(d - 1) < share))
    ratios = tuple(np.append(rng.gamma(0.5, 3, 10), 60_000).astype(np.float16).tolist())
    keys = TokenKeys(None, lambda key: None)  # type: ignore[arg-type, return-value] - no store is asked
    keys._take([b"k" * 32])
    tokens = SessionTokens(keys, "shop", 1.7e9)
    text = tokens.sign(10**9, 10**5, "", 1.7e9, tail=tail_of(Visit(x, ratios)))

    token = tokens.opened(text)
    assert token is not None
    assert len(token.said) + len(token.mac) <= 4 * d + 90 + len("shop")
    back = visit_of(token.tail, d)
    assert back is not None
    assert back.x is not None
    assert (back.x.tolist(), back.ratios) == (x.tolist(), ratios)
    for place in range(len(text)):
        changed = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
        assert tokens.opened(changed) is None
    for tail in (token.tail[:-1], token.tail + b"\0", token.tail[:9], b""):
        assert visit_of(tail, d) is None
    assert read(text) is not None


def test_a_tail_with_numbers_out_of_range_is_none() -> None:
    x = of_int16([5])
    whole = tail_of(Visit(x, (1.0,) * 11))
    assert visit_of(whole, 2) is not None
    infinite = np.full(11, np.inf).astype("<f2").tobytes()
    for tail in (infinite + whole[22:], whole[:-2] + b"\xff\x7f", whole[:22] + b"\xc0" + whole[23:]):
        assert visit_of(tail, 2) is None
    with pytest.raises(ValueError, match="little"):
        tail_of(Visit(x))
