"""Decision logs: read alike whatever table they went through, and acts matched with their outcomes."""

import csv
import gzip
import json
import re

import numpy as np
import pytest

from service.evaluation.command import main
from service.evaluation.logs import LATE, match, read_entries
from service.row_files import LogFileError

ACT = {"kind": "act", "slot": 1, "arm": 0, "probability": 0.5, "eligible": 2, "label": "abc"}
EVENT = {"kind": "event", "arm": 0, "loss": 0.5, "outcome": "applied", "slot": 1}
EXPIRY = {"after_seconds": 10, "default_loss": 1.0}
LOG = [
    {"kind": "session", "expiry": EXPIRY, "loss_range": [0, 1]},
    ACT,
    ACT | {"slot": 2, "arm": 1, "label": "a"},
    ACT | {"slot": 3},
    EVENT,
    {"kind": "arms", "added": ["e"], "removed": ["abc"], "paused": [], "resumed": []},
    ACT | {"slot": 4, "arm": 1, "label": "a"},
    {"kind": "session", "changed": ["floor"], "expiry": EXPIRY, "loss_range": [0, 1]},
    {"kind": "event", "arm": 1, "loss": 1.0, "outcome": "expired", "count": 2, "until": "2026-01-01T00:00:00.500Z"},
]
LOG = [each | {"position": n, "at": f"2026-01-01T00:00:0{n // 4}.000Z"} for n, each in enumerate(LOG, 1)]
FIELDS = list(dict.fromkeys(name for entry in LOG for name in entry))


def as_floats(row):
    """What a data frame makes of a column of whole numbers with gaps."""
    return {name: float(value) if isinstance(value, int) else value for name, value in row.items()}


def with_json_lists(row):
    return {name: json.dumps(value) if isinstance(value, list | dict) else value for name, value in row.items()}


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


def written(path, rows, separator=","):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, FIELDS, delimiter=separator)
        table.writeheader()
        table.writerows(rows)
    return path


def with_commas(row):
    return {key: str(value).replace(".", ",") if isinstance(value, float) else value for key, value in row.items()}


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("change", [dict, as_floats, with_json_lists, with_gaps, of_r, with_nulls])
def test_numbers_gaps_and_lists_of_tables_are_read(tmp_path, kind, change):
    read = found(written(tmp_path / f"log.{kind}", map(change, LOG)))

    assert read == ([0, 1], [0.5] * 2, [2] * 2, [0.5, 1.0], read[-1])
    assert read[-1] == [{"in the last window": 2}, {0: "abc", 1: "a"}]


def test_of_an_event_that_was_improved_the_last_value_counts():
    events = [EVENT | {"event_id": "a"}, EVENT | {"event_id": "b", "slot": 2}]
    improved = [{"kind": "event", "arm": 0, "outcome": "updated", "loss": 0.25, "event_id": "b"}]
    improved += [improved[0] | other for other in ({"loss": 0.125}, {"event_id": "trimmed away"}, {"loss": None})]

    outcomes = match([ACT, ACT | {"slot": 2}, *events, *improved])

    assert (outcomes.values.tolist(), outcomes.left_out) == ([0.5, 0.125], {})


def test_an_update_by_token_names_the_slot():
    event = {"kind": "event", "arm": 0, "outcome": "applied", "loss": 0.5, "slot": 2}

    outcomes = match([ACT, ACT | {"slot": 2}, event, event | {"outcome": "updated", "loss": 0.25}])

    assert (outcomes.values.tolist(), outcomes.left_out) == ([0.25], {"still open": 1})


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["log.ndjson", "log.csv", "log.tsv", "LOG.CSV"])
def test_what_other_programs_write_is_read(tmp_path, name, encoding, pack):
    """Tables of a spreadsheet have decimal commas, and a name in capitals."""
    separator = {"tsv": "\t", "CSV": ";"}.get(name[-3:], ",")
    plain = tmp_path / f"plain.{'jsonl' if name == 'log.ndjson' else 'csv'}"
    text = (
        written(plain, LOG if separator == "," else map(with_commas, map(as_floats, LOG)), separator)
        .read_bytes()
        .decode()
    )
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
        ("a.jsonl", b'{"kind": "act", "probability": 2}\n', "probability: 2 can't be read"),
        (
            "a.jsonl",
            b'\n{"kind": "act", "slot": 1, "arm": 0}',
            "a.jsonl, line 2: not an entry of a decision log (prob",
        ),
        ("a.jsonl", b'{"kind": "event", "arm": 0}', "line 1: not an entry of a decision log (outcome: is missing)"),
        (
            "a.tsv",
            b"kind\tloss_range\tarm\toutcome\tloss\nsession\t[1, 0]\nevent\t\t0\tapplied\t3",
            "line 3: not an entry of a decision log (loss: 3.0 is n",
        ),
        ("a.jsonl", b'{"kind": "acts"}', "kind: 'acts' is none of act, event, arms, session"),
        ("a.jsonl", b'{"kind": ["act"]}', "kind: ['act'] can't be read"),
        ("a.jsonl", b'{"kind": "act", "segment": {"a": 1}}', "segment: {'a': 1} can't be read"),
        ("a.jsonl", b"{'kind': 1}\n", "line 1: not an entry of a decision log (Expecting property name"),
        *(("a.jsonl", text, "line 1") for text in (b"{", b"[1]")),
        ("a.jsonl", b'{"kind": "act"}', "not an entry"),
        ("absent.jsonl", None, "No such file"),
        ("a.ndjson", b'{"kind": "\xe9"}', "neither UTF-8 nor UTF-16"),
        ("a.csv", b"kind,label\nact,\xe9\n", "neither UTF-8 nor UTF-16"),
        ("a.csv.gz", gzip.compress(b"kind\n" + b"arms\n" * 9, mtime=0)[:-9], "a.csv.gz: Compressed file ended"),
        ("a.xlsx", b"", "name the format, one of jsonl, ndjson, json, csv, tsv, parquet"),
    ],
)
def test_what_can_not_be_read_is_named_in_one_line(tmp_path, capsys, name, text, says):
    if text is not None:
        (tmp_path / name).write_bytes(text)

    assert main([str(tmp_path / name)], "prog") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), says in err) == ("", 1, True), err


def test_parquet_is_read_and_written_where_it_is_installed(tmp_path):
    pa = pytest.importorskip("pyarrow")
    rows = [{name: as_floats(row).get(name) for name in FIELDS} for row in LOG]
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")

    assert found(tmp_path / "log.parquet") == found(written(tmp_path / "log.jsonl", LOG))
    options = ["--columns", str(tmp_path / "out.parquet"), "--loss-range", "0", "1"]
    assert main([str(tmp_path / "log.parquet"), *options], "prog") == 0
    names = pa.parquet.read_table(tmp_path / "out.parquet").column_names
    assert names == ["action", "reward", "pscore", "position"]


def test_a_probability_may_exceed_one_by_rounding(tmp_path):
    sole = {"probability": 1.0000000000000002, "eligible": 1}

    assert found(written(tmp_path / "log.jsonl", [ACT | sole, EVENT]))[0] == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"slot": 1.5}, {"arm": "x"}, {"arm": 1e308}),
        *({"probability": each} for each in (0, 1.5, float("inf"))),
        *({"eligible": 0}, {"kind": None}, {"slot": [1]}, {"probability": 1e-200}),
        *({"at": each} for each in (1e12, -1e12, "0000-01-01T00:00:00Z")),
        *(EVENT | {"loss": each} for each in (1e200, 1.5, -0.1)),
        *(LOG[0] | {"expiry": {"after_seconds": each}} for each in (0, -1, 1e10, "x", None)),
        *(LOG[0] | {"expiry": each} for each in ({}, [1], EXPIRY | {"default_loss": "x"})),
        *(LOG[0] | {"loss_range": each} for each in ([0], [0, 1e200], 5)),
        {"count": -1, **EVENT},
        EVENT | {"outcome": "shown"},
        *({"kind": "arms", "removed": each} for each in ("abc", 5)),
    ],
    ids=str,
)
def test_values_that_no_log_has_are_refused(tmp_path, capsys, wrong):
    path = written(tmp_path / "log.jsonl", [LOG[0], ACT | wrong])

    assert main([str(path), "--json"], "prog") == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "log.jsonl, line 2: not an entry of a decision log" in err


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


def test_an_event_is_that_of_its_slot_or_of_the_only_act_that_it_can_be_of():
    acts = [entry(slot, arm) for slot, arm in ((1, 0), (2, 0), (3, 1), (4, 0))]
    events = [event(0, loss=0.1, slot=2), event(0, loss=0.2, slot=1), event(1, loss=0.3), event(0, loss=0.4)]

    outcomes = match([*acts, *events])

    assert (outcomes.values.tolist(), outcomes.arms.tolist()) == ([0.2, 0.1, 0.3, 0.4], [0, 0, 1, 0])
    assert (outcomes.word, outcomes.labels, outcomes.slots) == ("loss", {0: "a", 1: "b"}, "known")


def test_acts_without_a_value_are_left_out_and_counted_by_why():
    acts = [entry(slot, 0) for slot in range(1, 6)] + [entry(6, 1)]
    ends = [event(0, "voided", loss=None), event(0, "expired", loss=None, count=2)]
    ends += [event(0, "removed", loss=0.5, slot=4), {"kind": "arms", "removed": ["b"]}]
    ends += [event(0, loss=0.5, slot=9), {"kind": "session", "changed": ["floor"]}]

    outcomes = match([*acts, *ends], window=0)

    assert outcomes.values.tolist() == [0.5]
    ended = {"voided": 1, "expired without a default": 2, "still open": 2}
    assert outcomes.left_out == ended | {"trimmed from the log, with an event left": 1}


@pytest.mark.parametrize("count", [1, 10**15])
def test_events_whose_acts_were_trimmed_are_counted_at_once(count):
    outcomes = match([entry(1, 0), event(0, "expired", loss=None, count=1 + count)], window=0)

    assert outcomes.left_out["trimmed from the log, with an event left"] == count


@pytest.mark.parametrize("damaged", [{"kind": "act", "slot": 1}, {"kind": "event", "arm": 0}, {"arm": 1}])
def test_what_is_no_entry_is_an_error(damaged):
    with pytest.raises(ValueError, match="not an entry"):
        match([damaged])


WINDOW = 10.0
SESSION = {"kind": "session", "expiry": {"after_seconds": WINDOW, "default_reward": 0}, "reward_range": [0, 1]}


def timed(entries, session=SESSION, step=1.0):
    """Entries a second apart behind that of the session."""
    rows = enumerate([session, *entries], 1)
    return [row | {"position": n, "at": step * n, "session_id": "a"} for n, row in rows]


def test_the_last_window_is_left_out_where_missing_clicks_are_learned_at_its_end():
    acts = [entry(slot, 0) for slot in range(1, 6)]
    clicks = [event(0, reward=1.0, slot=1), event(0, reward=1.0, slot=4)]
    late = event(0, "expired", reward=0.0, count=2, until=4.5)

    outcomes = match([*timed([*acts, *clicks]), late | {"position": 9, "at": 14.5}])

    assert (outcomes.values.tolist(), outcomes.left_out) == ([1.0, 0.0, 0.0], {"in the last window": 2})
    assert outcomes.word == "reward"


def test_an_act_whose_commit_took_until_behind_its_bucket_has_expired_with_it():
    acts = [entry(slot, 0) for slot in range(1, 6)]
    expired = event(0, "expired", reward=0.0, count=4, until=5 - WINDOW / 70)

    outcomes = match([*timed(acts), expired | {"position": 7, "at": 14.9}])

    assert (outcomes.values.tolist(), outcomes.left_out) == ([0.0] * 4, {"in the last window": 1})


def test_acts_and_events_are_matched_within_their_segment_and_group():
    acts = [entry(slot, 0) | where for slot, where in enumerate(({"segment": "a"}, {"segment": "b"}, {}), 1)]
    acts += [entry(4, 0) | {"group": "control"}]
    ended = [event(0, reward=1.0, segment="b"), event(0, reward=0.5), event(0, reward=0.25, group="control")]

    found = {segment: match([*acts, *ended], segment).values.tolist() for segment in ("a", "b", "", "c", None)}

    assert found == {"a": [], "b": [1.0], "": [0.5, 0.25], "c": [], None: [1.0, 0.5, 0.25]}


def test_events_without_slots_are_spread_over_the_acts_of_their_arm():
    acts = [entry(slot, slot % 2) for slot in range(1, 6)]

    outcomes = match(timed([*acts, event(0, reward=1.0, event_id="x"), event(1, "voided"), event(1, reward=1.0)]))

    assert outcomes.slots == "estimated"
    assert np.isnan(outcomes.values).all()
    assert outcomes.arms.tolist() == [0, 1, 0, 1]  # Without the oldest of arm 1, which was taken back.
    assert outcomes.left_out == {"voided": 1}
    assert outcomes.spread.weights_of(np.array([1.0, 5.0, 1.0, 5.0])) == pytest.approx([1.0, 5.0])
    assert np.all(np.diff(outcomes.spread.exposures) < 0)


def test_events_of_a_group_are_spread_over_its_acts():
    acts = [entry(slot, 0) | {"group": ("learner", "control")[slot % 2]} for slot in range(1, 7)]
    clicks = [event(0, reward=1.0, group=group) for group in ("control", "learner")]

    spread = match(timed([*acts, *clicks])).spread

    assert spread.weights_of(np.array([7.0, 1.0] * 3)) == pytest.approx([7.0, 1.0])


def test_acts_whose_events_know_their_slot_leave_the_estimator():
    acts = [entry(1, 0), entry(2, 0), entry(3, 0)]
    events = [event(0, reward=0.2, event_id="x"), event(0, reward=0.4, slot=3)]
    better = [event(0, "updated", reward=0.9, event_id="x"), event(0, "updated", reward=0.8, slot=3)]

    outcomes = match(timed([*acts, *events, *better]))

    assert (outcomes.spread.values.tolist(), outcomes.values[2]) == ([0.9], 0.8)
    assert outcomes.spread.weights_of(np.array([1.0, 1.0, 99.0])) == pytest.approx([1.0])
    assert outcomes.slots == "mixed"


def test_a_removed_arm_keeps_its_silence_and_its_late_clicks():
    acts, removed = [entry(slot, 0) for slot in range(1, 4)], {"kind": "arms", "removed": ["a"]}
    late = [event(0, "removed", reward=1.0, slot=slot) for slot in (2, 1)]
    others = [entry(slot, 1) for slot in range(4, 20)]

    outcomes = match(timed([*acts, removed, late[0], *others, late[1]]))
    spread = match(timed([*acts, removed, event(0, "removed", reward=1.0), *others]))

    assert outcomes.values.tolist()[:3] == [0.0, 1.0, 0.0]  # One came behind the window.
    assert set(outcomes.left_out) == {"in the last window"}
    assert (spread.spread.values.tolist(), spread.arms.tolist().count(0)) == ([1.0], 3)


def test_a_log_that_begins_later_counts_only_events_of_its_own_acts():
    """Clicks within a window of its first entry may be of acts that were trimmed away."""
    acts, click = [entry(slot, 0) for slot in range(5, 30)], event(0, reward=1.0)
    rows = timed([*acts[:3], click, *acts[3:], click])

    outcomes = match([row | {"position": row["position"] + 100} for row in rows])

    assert outcomes.spread.values.size == 1
    assert outcomes.spread.exposures[0] < 1
    assert outcomes.left_out == {"trimmed from the log, with an event left": 1}


def test_a_log_counts_from_the_last_change_of_its_window():
    other = SESSION | {"expiry": SESSION["expiry"] | {"after_seconds": 20}, "changed": ["expiry"]}
    acts = [entry(slot, 0) for slot in range(1, 40)]

    same, clicks = SESSION | {"changed": ["floor"]}, [event(0, reward=1)]
    outcomes = match(timed([*acts[:5], same, *acts[5:9], other, *acts[9:], *clicks]))

    assert (outcomes.arms.size, outcomes.left_out) == (30, {"before the window or its default changed": 9})


@pytest.mark.parametrize("clicks", ["known", "mixed", "estimated"])
@pytest.mark.parametrize("new", [None, {"after_seconds": WINDOW, "default_reward": 0.5}], ids=["ends", "other"])
@pytest.mark.parametrize("begins", [False, True])
def test_acts_before_a_change_of_window_or_default_leave_whatever_their_events_name(clicks, new, begins):
    old, new = (new, SESSION["expiry"]) if begins else (SESSION["expiry"], new)
    slots = [{"slot": 61 + n} if clicks == "known" or (n and clicks == "mixed") else {} for n in (0, 1)]
    events = [event(0, reward=1.0, **slot) for slot in slots]
    change = SESSION | {"expiry": new, "changed": ["expiry"]}
    acts = [entry(slot, 0) for slot in range(1, 101)]
    first = [event(0, reward=0.25, slot=3), event(0, "expired", reward=0.0, count=59, until=61.5)]
    log = [*acts[:60], *first, change, *acts[60:], *events]

    at_once = [row | {"at": max(70.0, row["at"])} for row in timed(log, SESSION | {"expiry": old})]
    for rows in (timed(log, SESSION | {"expiry": old}), timed(log, acts[0] | {"arm": 1})[1:], at_once):
        outcomes = match([row | {"position": n} for n, row in enumerate(rows, 1)])
        assert outcomes.slots == clicks
        assert outcomes.left_out["before the window or its default changed"] == 60
        assert outcomes.arms.size <= 40
        assert 0.25 not in (*outcomes.values, *(outcomes.spread.values if outcomes.spread else ()))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: rows + rows, "entry 6: position 1 is out of order, behind 5"),
        (lambda rows: [rows[0], *rows], "entry 2: position 1 is there twice, behind 1"),
        (lambda rows: rows[::-1], "entry 2: position 4 is out of order, behind 5"),
        (lambda rows: rows[:2] + rows[3:], "entry 3: position 4 follows 2: --allow-gaps"),
        (lambda rows: [*rows[:3], rows[3] | {"session_id": "b"}], "entry 4: it is of another session, 'b'"),
        (lambda rows: [entry(1, 0), entry(3, 0)], "entry 2: slot 3 follows 1"),
        (lambda rows: [entry(1, 0), event(0, loss=1.0), entry(1, 0)], "entry 3: slot 1 is there twice"),
    ],
)
def test_a_log_that_is_not_one_whole_log_in_order_is_refused(change, says):
    rows = timed([entry(slot, 0) for slot in range(1, 5)])

    with pytest.raises(LogFileError, match=re.escape(says)):
        match(change(rows))


def test_entries_may_be_missing_if_that_is_said():
    rows = timed([entry(slot, 0) for slot in range(1, 9)])

    assert match(rows[:3] + rows[5:], allow_gaps=True).left_out == {"in the last window": 6}
    with pytest.raises(LogFileError, match="out of order"):
        match(rows[::-1], allow_gaps=True)


def test_what_can_not_be_known_is_said():
    acts, session = [entry(1, 0), entry(2, 0)], SESSION | {"expiry": None}

    with pytest.raises(LogFileError, match="--window SECONDS"):
        match([*acts, event(0, reward=1.0)])
    with pytest.raises(LogFileError, match="entry 1: with a window it needs its time"):
        match([*acts, event(0, reward=1.0)], window=10)
    with pytest.raises(LogFileError, match="what silence stands for"):
        match([act | {"at": 1.0} for act in acts], window=10)
    many = timed([*(entry(slot, 0) | {"arm": slot, "label": "a"} for slot in range(1, 2001)), event(1, reward=1.0)])
    with pytest.raises(LogFileError, match="too many years"):
        match([*many[:-1], many[-1] | {"at": 2.5e11}])
    with pytest.raises(LogFileError, match="0 or more seconds"):
        match(acts, window=-1)
    outcomes = match([session, *acts, event(0, reward=1.0)])
    assert outcomes.spread.default is None
    with pytest.raises(LogFileError, match="columns only of a log whose events name their slots"):
        outcomes.settled()


def test_columns_share_an_event_out_among_the_acts_of_its_time():
    acts = [entry(slot, 0) for slot in range(1, 4)] + [entry(slot, 1) for slot in range(4, 30)]

    columns = match(timed([*acts[:3], event(0, reward=1.0), *acts[3:]])).settled()

    assert columns.values[columns.arms == 0].sum() == pytest.approx(1.0)
    assert 29 - WINDOW * LATE < columns.arms.size < 29  # Of the last window, delays have passed that occur.
