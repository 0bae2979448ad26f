"""Packed records are a mapping like any other."""

from __future__ import annotations

import pytest

from service.store.base import PACKED_AT_ONCE, PackedRecords


def test_they_are_equal_to_the_dictionary_that_was_packed() -> None:
    records = {b"%d" % n: bytes(n % 7) for n in range(2 * PACKED_AT_ONCE + 1)}

    packed = PackedRecords.of(records)

    assert packed == records
    assert len(packed.parts) == 3
    assert packed.count == len(packed) == len(records)
    assert packed.nbytes == sum(map(len, records.values()))
    assert PackedRecords.of(packed) is packed
    assert PackedRecords.of({}) == {}


def test_the_last_record_of_a_key_counts() -> None:
    packed = PackedRecords()
    packed.add([b"1", b"2"], [b"old", b""])
    packed.add([b"1"], [b"new"])

    assert dict(packed) == {b"1": b"new", b"2": b""}
    assert (packed.count, len(packed)) == (3, 2)
    with pytest.raises(KeyError):
        packed[b"3"]
