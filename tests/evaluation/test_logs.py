"""Decision logs: read alike whatever table they went through, and acts matched with their outcomes."""

import csv
import gzip
import json

import pytest

from service.evaluation.command import main
from service.evaluation.logs import match, read_entries

ACT = {"kind": "act", "slot": 1, "arm": 0, "probability": 0.5, "eligible": 2, "label": "abc"}
EVENT = {"kind": "event", "arm": 0, "loss": 0.5, "outcome": "applied"}
LOG = [
    ACT,
    ACT | {"slot": 2, "arm": 1, "label": "a"},
    ACT | {"slot": 3},
    EVENT,
    {"kind": "arms", "added": ["e"], "removed": ["abc"], "paused": [], "resumed": []},
    ACT | {"slot": 4, "arm": 1, "label": "a"},
    {"kind": "session", "changed": ["floor"]},
    {"kind": "event", "arm": 1, "loss": 1.0, "outcome": "expired", "count": 2},
]
FIELDS = list(dict.fromkeys(name for entry in LOG for name in entry))


def as_floats(row):
    """What a data frame makes of a column of whole numbers with gaps."""
    return {name: float(value) if isinstance(value, int) else value for name, value in row.items()}


def with_json_lists(row):
    return {name: json.dumps(value) if isinstance(value, list) else value for name, value in row.items()}


def with_gaps(row):
    """A row of a data frame: a field that the entry does not have is not a number."""
    return {name: as_floats(row).get(name, float("nan")) for name in FIELDS}


def of_r(row):
    """R's word for no value, but in a column of texts."""
    return {name: row.get(name, "" if name == "label" else "NA") for name in FIELDS}


def with_nulls(row):
    return {name: row.get(name) for name in FIELDS}


def found(path):
    outcomes = match(read_entries(path))
    arrays = (outcomes.arms, outcomes.probabilities, outcomes.eligible, outcomes.values)
    return (*(array.tolist() for array in arrays), [outcomes.left_out, outcomes.labels])


def written(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS)
        table.writeheader()
        table.writerows(rows)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("change", [dict, as_floats, with_json_lists, with_gaps, of_r, with_nulls])
def test_numbers_gaps_and_lists_of_tables_are_read(tmp_path, kind, change):
    read = found(written(tmp_path / f"log.{kind}", map(change, LOG)))

    assert read == ([0, 1, 1], [0.5] * 3, [2] * 3, [0.5, 1.0, 1.0], read[-1])
    assert read[-1] == [{"removed with their arm": 1}, {0: "abc", 1: "a"}]


def test_of_an_event_that_was_improved_the_last_value_counts():
    events = [EVENT | {"event_id": "a"}, EVENT | {"event_id": "b"}]
    improved = [{"kind": "event", "arm": 0, "outcome": "updated", "loss": 0.25, "event_id": "b"}]
    improved += [
        improved[0] | {"loss": 0.125},
        improved[0] | {"event_id": "trimmed away"},
        improved[0] | {"loss": None},
    ]

    outcomes = match([ACT, ACT | {"slot": 2}, *events, *improved])

    assert (outcomes.values.tolist(), outcomes.left_out) == ([0.5, 0.125], {})


def test_an_update_by_token_names_the_slot():
    event = {"kind": "event", "arm": 0, "outcome": "applied", "loss": 0.5, "slot": 2}

    outcomes = match([ACT, ACT | {"slot": 2}, event, event | {"outcome": "updated", "loss": 0.25}])

    assert outcomes.values.tolist() == [0.25]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["log.ndjson", "log.csv", "log.tsv", "LOG.CSV"])
def test_what_other_programs_write_is_read(tmp_path, name, encoding, pack):
    """Tables of a spreadsheet have decimal commas, and a name in capitals."""
    text = (
        written(tmp_path / f"plain.{'csv' if name.lower() != 'log.ndjson' else 'jsonl'}", LOG).read_bytes().decode()
    )
    if separator := {"tsv": "\t", "CSV": ";"}.get(name[-3:]):
        text = text.replace(",", separator).replace(".", ",")
    path = tmp_path / f"{name}{'' if pack is bytes else '.gz'}"
    path.write_bytes(pack(text.encode(encoding)))

    assert found(path) == found(written(tmp_path / "same.jsonl", LOG))


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.csv", b"kind,arm\nact,b\n", "a.csv, line 2: not an entry of a decision log (arm: 'b' can't be read)"),
        ("a.csv", b'kind,loss\nevent,"0,5"\n', "loss: '0,5' can't be read"),
        ("a.csv", b"kind;loss\nevent;1.234,5\n", "loss: '1.234.5' can't be read"),
        ("a.csv", b"kind,loss\nevent,1,2\n", "more cells than columns"),
        ("a.csv", b"slot;loss\n1;2\n", "an entry has a kind"),
        ("a.csv", b"kind,outcome\nevent,shown\n", "outcome: 'shown' is none of applied"),
        ("a.jsonl", b'{"kind": "act", "probability": 2}\n', "probability: 2.0 is not above 0"),
        ("a.jsonl", b"{'kind': 1}\n", "line 1: not an entry of a decision log (Expecting property name"),
        ("a.ndjson", b'{"kind": "\xe9"}', "neither UTF-8 nor UTF-16"),
        ("a.csv", b"kind,label\nact,\xe9\n", "neither UTF-8 nor UTF-16"),
        ("a.csv.gz", gzip.compress(b"kind\n" * 9, mtime=0)[:-9], "a.csv.gz: Compressed file ended"),
        ("a.xlsx", b"", "name the format, one of jsonl, ndjson, json, csv, tsv, parquet"),
    ],
)
def test_what_can_not_be_read_is_named(tmp_path, capsys, name, text, says):
    (tmp_path / name).write_bytes(text)

    assert main([str(tmp_path / name)], "prog") == 1
    assert says in capsys.readouterr().err


def test_parquet_is_read_and_written_where_it_is_installed(tmp_path):
    pa = pytest.importorskip("pyarrow")
    rows = [{name: as_floats(row).get(name) for name in FIELDS} for row in LOG]
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")

    assert found(tmp_path / "log.parquet") == found(written(tmp_path / "log.jsonl", LOG))
    options = ["--columns", str(tmp_path / "out.parquet"), "--loss-range", "0", "1"]
    assert main([str(tmp_path / "log.parquet"), *options], "prog") == 0
    assert pa.parquet.read_table(tmp_path / "out.parquet").column_names == [
        "action",
        "reward",
        "pscore",
        "position",
    ]


def test_a_probability_may_exceed_one_by_rounding(tmp_path):
    sole = {"probability": 1.0000000000000002, "eligible": 1}

    assert found(written(tmp_path / "log.jsonl", [ACT | sole, EVENT]))[0] == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"slot": 1.5}, {"arm": "x"}, {"arm": 1e308}),
        *({"probability": each} for each in (0, 1.5, float("inf"))),
        *({"eligible": 0}, {"kind": None}, {"slot": [1]}),
        {"count": -1, **EVENT},
        EVENT | {"outcome": "shown"},
        *({"kind": "arms", "removed": each} for each in ("abc", 5)),
    ],
    ids=str,
)
def test_values_that_no_log_has_are_refused(tmp_path, capsys, wrong):
    path = written(tmp_path / "log.jsonl", [ACT, ACT | wrong])

    assert main([str(path), "--json"], "prog") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "not an entry of a decision log" in err


@pytest.mark.parametrize("bounds", [("0", "0"), ("nan", "1"), ("1", "inf")], ids=str)
def test_a_range_of_losses_has_two_ends(tmp_path, capsys, bounds):
    path = written(tmp_path / "log.jsonl", [ACT, EVENT])

    assert main([str(path), "--columns", str(tmp_path / "out.csv"), "--loss-range", *bounds], "prog") == 1
    assert "two different numbers" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()


def entry(slot, arm):
    return {"kind": "act", "slot": slot, "arm": arm, "probability": 0.5, "eligible": 2, "label": "ab"[arm]}


def event(arm, outcome="applied", **fields):
    return {"kind": "event", "arm": arm, "outcome": outcome} | fields


def test_events_are_those_of_the_oldest_open_act_of_their_arm_or_of_their_slot():
    acts = [entry(slot, arm) for slot, arm in ((1, 0), (2, 0), (3, 1), (4, 0))]
    events = [event(0, loss=0.1, slot=2), event(0, loss=0.2), event(1, loss=0.3, slot=9), event(0, loss=0.4)]

    outcomes = match([*acts, *events])

    assert outcomes.values.tolist() == [0.2, 0.1, 0.3, 0.4]
    assert outcomes.arms.tolist() == [0, 0, 1, 0]
    assert (outcomes.word, outcomes.labels) == ("loss", {0: "a", 1: "b"})


def test_acts_without_a_value_are_left_out_and_counted_by_why():
    acts = [entry(slot, 0) for slot in range(1, 6)] + [entry(6, 1)]
    ends = [
        event(0, "voided", loss=None),
        event(0, "expired", loss=None, count=2),
        event(0, "removed", loss=0.5),
        {"kind": "arms", "removed": ["b"]},
        event(0, loss=0.5),
        {"kind": "session", "changed": ["floor"]},
    ]

    outcomes = match([*acts, *ends])

    assert outcomes.values.tolist() == [0.5]
    ended = {"voided": 1, "expired without a default": 2, "removed with their arm": 1, "still open": 1}
    assert outcomes.left_out == ended


def test_the_last_window_is_left_out_where_missing_clicks_are_learned_at_its_end():
    acts = [entry(slot, 0) for slot in range(1, 6)]
    clicks = [event(0, reward=1.0), event(0, "expired", reward=0.0), event(0, reward=1.0, slot=4)]

    outcomes = match([*acts, *clicks])

    assert outcomes.values.tolist() == [1.0, 0.0]
    assert outcomes.left_out == {"in the last window": 3}
    assert outcomes.word == "reward"


@pytest.mark.parametrize("count", [1, 10**15])
def test_events_whose_acts_were_trimmed_are_counted_at_once(count):
    outcomes = match([entry(1, 0), event(0, "expired", loss=1.0, count=1 + count)])

    assert outcomes.left_out == {"trimmed from the log, with an event left": count}


@pytest.mark.parametrize("damaged", [{"kind": "act", "slot": 1}, {"kind": "event", "arm": 0}, {"arm": 1}])
def test_what_is_no_entry_is_an_error(damaged):
    with pytest.raises(ValueError, match="not an entry"):
        match([damaged])


def test_acts_and_events_are_matched_within_their_segment():
    """Of three open acts of one arm the second is answered, then the oldest expires; each segment has its own."""
    acts = [entry(slot, 0) | where for slot, where in enumerate(({"segment": "a"}, {"segment": "b"}, {}), 1)]
    ended = [event(0, reward=1.0, segment="b"), event(0, "expired", reward=0.0, count=1), event(0, reward=0.5)]

    found = {segment: match([*acts, *ended], segment).values.tolist() for segment in ("a", "b", "", "c", None)}

    assert found == {"a": [0.0], "b": [1.0], "": [0.5], "c": [], None: [0.0, 1.0, 0.5]}
