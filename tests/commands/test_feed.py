"""``feed``: rows of each kind of file, what is wrong with some, and a second run."""

import gzip
import io
import json
import sys
from types import SimpleNamespace

import pytest

from service.commands import files
from service.testing import LocalBandits

POINTS = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
ROWS = [("007", 1, "a"), ("é", 0.5, "b"), ("007", 0, "c")]
SPEC = {"learner": {"kind": "dexp3", "arms": ["007", "é"]}, "reward_range": [0, 1]}


@pytest.fixture
def bandits(monkeypatch):
    with LocalBandits() as bandits:
        bandits.__class__.__exit__, left = lambda *_: None, bandits.__class__.__exit__
        monkeypatch.setattr(files, "client_of", lambda _: bandits)
        for name in ("s", "t"):
            bandits.sessions.create(name, **SPEC).acts(30)
        yield bandits
        bandits.__class__.__exit__ = left


@pytest.fixture
def fed(bandits, command, tmp_path):
    def run(name, content, *flags):
        path = tmp_path / name
        path.write_bytes(content)
        code, out, err = command("feed", path, "--json", *flags)
        return code, json.loads(out) if out else err

    return run


def table(separator=",", end="\n", head="label,reward,event_id,session_id"):
    rows = [f"{label},{reward},{name},s" for label, reward, name in ROWS]
    return (end.join([head, *rows]) + end).replace(",", separator)


LINES = "\n".join(json.dumps({"label": a, "reward": b, "event_id": c, "session_id": "s"}) for a, b, c in ROWS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", table().encode()),
        ("b.CSV", table(end="\r\n").encode("utf-8-sig")),
        ("c.csv", table(";").replace("0.5", "0,5").encode("utf-16")),
        ("d.tsv", table("\t").encode("utf-16-le")),
        ("blank first.csv", b"\r\n\n" + table().encode()),
        ("of a data frame.csv", ("\n" + table()).replace("\n", "\n,")[1:-1].encode()),
        ("e.csv.gz", gzip.compress(table().encode(), mtime=0)),
        ("f.jsonl", LINES.encode()),
        ("g.ndjson", LINES.encode("utf-16")),
        ("h.ndjson.gz", gzip.compress(b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n\r\n").encode(), mtime=0)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_files_of_each_kind_are_read(fed, bandits, name, content):
    code, found = fed(name, content)

    assert (code, found["applied"], found["wrong_rows"], found["left_out"]) == (0, 3, [], [])
    assert bandits.sessions.get("s")["mean_reward"] == 0.5
    assert fed(name, content)[1]["duplicates"] == 3


def test_parquet_is_read(fed, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    label, reward, name = zip(*ROWS, strict=True)
    columns = {"label": label, "reward": reward, "event_id": name, "slot": [None] * 3, "void": [None, True, None]}
    columns["reward"] = [1.0, None, 0.0]
    parquet.write_table(pyarrow.table(columns), target := tmp_path / "rows.parquet")
    code, found = fed("a.parquet", target.read_bytes(), "--session", "t")

    assert (code, found["applied"], found["voided"]) == (0, 2, 1)


def test_rows_without_ids_get_those_of_the_file_and_their_numbers(fed):
    content = table(head="item,paid,other,place").encode()
    flags = ("--rename", "label=item,reward=paid", "--session", "t")
    code, found = fed("a.csv", content, *flags)

    assert (code, found["applied"], found["left_out"]) == (0, 3, ["other", "place"])
    code, found = fed("a.csv", content, "--rename", "label=item,reward=paid,goal=nope", "--session", "t")
    assert (code, "no column nope" in found) == (2, True)
    code, found = fed("b.csv.gz", gzip.compress(content), *flags)
    assert (code, found["applied"], found["duplicates"]) == (0, 0, 3)


def test_features_are_read_from_lines_and_from_cells(fed, bandits):
    features = {"age": {"kind": "number", "range": [0, 9]}}
    learner = {"kind": "multiscale_tsallis", "arms": ["a", "b"]}
    bandits.sessions.create("f", learner=learner, features=features, reward_range=[0, 1]).acts(9)
    rows = [{"label": "a", "reward": None, "features": {"age": age}} for age in (3, "3")]
    code, found = fed("a.jsonl", "\n".join(map(json.dumps, rows)).encode(), "--session", "f")
    assert (code, found["wrong_rows"][0]["row"], found["left_out"]) == (1, 2, [])
    cells = b'label,void,features\na,1,"{""age"": 3}"\nb,1,{3}\nb,1,"{""age"": true}"\n'
    code, found = fed("a.csv", cells, "--session", "f")
    assert [row["row"] for row in found["wrong_rows"]] == [2, 3]


def test_wrong_rows_are_told_and_the_others_count(fed, command, tmp_path):
    lines = [
        '{"label": "é", "reward": 1, "session_id": "s"}',
        "torn",
        "[]",
        '{"label": 7, "reward": 1, "session_id": "s"}',
        '{"label": "é", "reward": 1, "session_id": "none"}',
        '{"label": "é", "reward": NaN, "session_id": "s"}',
        '{"label": "é", "reward": 7, "session_id": "t"}',
        '{"label": "é", "reward": 1, "reward": 0, "session_id": "s"}',
        json.dumps({"label": "é", "reward": 1, "event_id": "x" * 2_000_000, "session_id": "s"}),
    ]
    code, found = fed("a.jsonl", "\n".join(lines).encode())

    assert (code, found["applied"], found["invalid"]) == (1, 1, 8)
    assert [each["row"] for each in found["wrong_rows"]] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert found["wrong_rows"][-2]["message"] == "a field is named twice"
    code, found = fed(
        "b.csv", b"label,reward,session_id,arm\n007,1,s,\n007,0_1,s,\n007,1,s,,5\n,1,s,0.5\n007,,s,\n"
    )
    told = [each["message"] for each in found["wrong_rows"]]
    assert (code, found["applied"], len(told)) == (1, 1, 4)
    assert told[:3] == ["reward: '0_1' can't be read", "more cells than columns", "arm: '0.5' can't be read"]
    (tmp_path / "c.jsonl").write_text("torn\n" * 30)
    code, out, _ = command("feed", tmp_path / "c.jsonl")
    assert (code, out.count("\nrow "), "and 10 more wrong rows" in out) == (1, 20, True)


def test_points_voids_and_large_files_go_in_batches(fed, bandits, monkeypatch):
    bandits.sessions.create("p", learner=POINTS)
    rows = "\n".join(f'p,"[0, {n}, 1]",' for n in range(5)) + "\np,,true\n"
    monkeypatch.setattr(files, "BATCH", 2)
    bandits.session("p").acts(10)
    code, found = fed("a.csv", f"session_id,losses,void\n{rows}".encode())

    assert (code, found["applied"], found["voided"]) == (0, 5, 1), found


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.txt", b"", "name the format"),
        ("a.csv", b"label\n\xff\xff\xff\xff\n", "UTF-8"),
        ("a.csv", b"label,reward,reward\na,1,0\n", "several columns are named reward"),
        ("a.jsonl", gzip.compress(LINES.encode(), mtime=0)[:-9], "end"),
        ("a.parquet", b"PAR1", ""),
    ],
)
def test_a_file_that_can_not_be_read_ends_with_2(fed, name, content, text):
    code, found = fed(name, content)

    assert code == 2
    assert text in found


def test_a_missing_file_and_wrong_names_end_with_2(command, bandits):
    assert command("feed", "/nowhere.csv")[0] == 2
    for renames in ("x=y", "label", "label=", "label=item,reward="):
        with pytest.raises(SystemExit) as ended:
            command("feed", "a.csv", "--rename", renames)
        assert ended.value.code == 2


def test_standard_input_is_json_lines(command, bandits, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINES.encode())))
    code, out, _ = command("feed", "-")

    assert (code, out) == (0, "3 applied, 0 duplicates\n")


def test_a_column_names_the_group_of_a_decision(bandits, fed):
    learner = {"kind": "multiscale_tsallis", "arms": ["x", "y"]}
    session = bandits.sessions.create("g", learner=learner, reward_range=[0, 1], control={"share": 0.5}, seed=3)
    rows = [f"{action.label},1,{action.group},g" for action in session.acts(30)]

    code, told = fed("groups.csv", "\n".join(["label,reward,group,session_id", *rows]).encode())

    assert (code, told["applied"], len({row.split(",")[2] for row in rows})) == (0, 30, 2)
