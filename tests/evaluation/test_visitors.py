"""Logs with the columns of visitors: doubly robust estimates and the linear policy, where the truth is known."""

import json

import numpy as np
import pytest

from service.evaluation.command import FOLDS, RIDGE, main, policies
from service.evaluation.logs import match, read_entries
from service.row_files import LogFileError

ARMS = 3


def played(seed, acts=1500, finest=2**14):
    """A log of ratings by token of a policy that depends on the visitor, and each act's expected reward by arm."""
    rng = np.random.default_rng(seed)
    x = np.c_[np.ones(acts), rng.integers(-finest, finest + 1, (acts, 3)) / finest]
    means = 0.5 + x @ np.array([[0.0, 0.4, 0.0, 0.1], [0.1, -0.4, 0.2, 0.0], [-0.1, 0.0, 0.1, 0.3]]).T
    log = [
        {"kind": "session", "expiry": {"after_seconds": 60, "default_reward": 0}, "reward_range": [-9, 9], "at": 0}
    ]
    p = np.exp(3 * means)
    p /= p.sum(axis=1, keepdims=True)
    p = 0.7 * p + 0.1
    arms = (rng.random((acts, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    for slot in range(acts):
        arm = int(arms[slot])
        act = {"slot": slot + 1, "arm": arm, "probability": p[slot, arm], "eligible": ARMS}
        log.append({"kind": "act", "at": slot + 1.0, "encoded": x[slot].tolist(), **act})
        reward = means[slot, arm] + 0.2 * rng.normal()
        log.append(
            {
                "kind": "event",
                "arm": arm,
                "reward": reward,
                "outcome": "applied",
                "slot": slot + 1,
                "at": slot + 1.5,
            }
        )
    rest = {"arm": 0, "reward": 0.0, "outcome": "expired", "count": 1, "until": acts + 9.0}
    return [*log, {"kind": "event", "at": acts + 99.0, **rest}], x, means


def written_out(log, x, sign=1):
    """The arm that regressions on the other nine tenths of the log say is the best for each act."""
    acts, events = ([each for each in log if each["kind"] == kind] for kind in ("act", "event"))
    arms, values = np.array([each["arm"] for each in acts]), np.array([each["reward"] for each in events[:-1]])
    chosen = []
    for part in np.array_split(np.arange(len(acts)), FOLDS):
        others = np.setdiff1d(np.arange(len(acts)), part)
        slopes = []
        for arm in range(ARMS):
            own = others[arms[others] == arm]
            wide = np.vstack([x[own], np.sqrt(RIDGE) * np.eye(x.shape[1])])
            rest = np.append(values[own] - values[others].mean(), np.zeros(x.shape[1]))
            slopes.append(np.linalg.lstsq(wide, rest, rcond=None)[0])
        chosen += (sign * x[part] @ np.array(slopes).T).argmax(axis=1).tolist()
    return np.array(chosen)


def test_intervals_hold_the_truth_and_doubly_robust_ones_are_narrower():
    held = []
    for seed in range(8):
        log, x, means = played(seed)
        truth = {"uniform": means.mean(), "linear": means[np.arange(len(x)), written_out(log, x)].mean()}
        truth |= {f"arm {arm}": means[:, arm].mean() for arm in range(ARMS)}

        found = {each.name: each for each in policies(match(log), 0.95, linear=True)}

        assert list(found) == ["uniform", "arm 0", "arm 1", "arm 2", "linear"]
        assert found["linear"].dr.value > 1.1 * max(found[name].dr.value for name in list(found)[:-1])
        for name, each in found.items():
            assert each.dr.high - each.dr.low < each.ips.high - each.ips.low
            held += [each.dr.low <= truth[name] <= each.dr.high, each.ips.low <= truth[name] <= each.ips.high]

    assert np.mean(held) > 0.85


def test_the_linear_policy_plays_what_ranges_call_better():
    log, x, means = played(1)
    log[0] = {**log[0], "reward_range": [9, -9]}
    worst = means[np.arange(len(x)), written_out(log, x, -1)].mean()

    found = [each.dr for each in policies(match(log), 0.95, linear=True)]

    assert found[-1].low <= worst <= found[-1].high < min(each.low for each in found[:-1])


def late(log, seed):
    """The same log, if events come up to a minute later, and say their act's columns in place of its slot."""
    rng, of = np.random.default_rng(seed), {each.get("slot"): each for each in log if each["kind"] == "act"}
    told = [{**each, "encoded": of[each["slot"]]["encoded"]} for each in log if each.get("outcome") == "applied"]
    told = [{**each, "slot": None, "at": each["at"] + min(rng.exponential(9), 59)} for each in told]
    rest = [each for each in log if each.get("outcome") != "applied"]
    return [
        {name: value for name, value in each.items() if value is not None}
        for each in sorted([*rest, *told], key=lambda each: each["at"])
    ]


@pytest.mark.parametrize(("finest", "is_cut"), [(2**14, False), (1, False), (1, True)])
def test_events_that_say_their_features_are_of_the_acts_with_the_same_columns(finest, is_cut):
    """These are one act each, or a fiftieth of all acts."""
    held = []
    for seed in range(3):
        log, x, means = played(seed, finest=finest)
        by_token = {each.name: each for each in policies(match(log), 0.95, linear=True)}
        log = [entry for entry in late(log, seed) if not is_cut or entry["at"] <= len(x)]

        found = {each.name: each for each in policies(match(log), 0.95, linear=True)}

        assert list(found) == list(by_token)
        for name, each in found.items():
            truth = (
                means.mean() if name == "uniform" else means[:, int(name[-1])].mean() if name != "linear" else None
            )
            held += [] if truth is None else [each.dr.low <= truth <= each.dr.high]
            assert each.dr.value == pytest.approx(by_token[name].dr.value, abs=0.002 if finest > 1 else 0.15)
            assert each.dr.high - each.dr.low < each.ips.high - each.ips.low

    assert np.mean(held) > 0.7


def test_events_that_name_the_arm_alone_mislead_and_are_told(tmp_path, capsys):
    """Those who get what is good for them are not any visitors; with few such events, estimates are still given."""
    log, _, means = played(1)
    for one_in in (1, 40):
        told = [
            {name: each[name] for name in each if name != "encoded" or each["kind"] == "act" or place % one_in}
            for place, each in enumerate(late(log, 1))
        ]
        uniform = next(policies(match(told), 0.95))
        (tmp_path / "log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in told))

        is_right = uniform.ips.low <= means.mean() <= uniform.ips.high
        assert (is_right, uniform.dr is None) == (one_in > 1, one_in == 1)
        assert main([str(tmp_path / "log.jsonl"), "--policy", "linear"], "prog") == (one_in == 1)
        assert "say nothing of their visitor" in capsys.readouterr().out or one_in == 1


A, B, NONE = [1.0, 0.5], [1.0, -0.5], [1.0, 0.0]


def outcomes_of(*events):
    """Those of four acts of an arm at one moment, with columns A, B, A and NONE, and of events a second later."""
    expiry = {"after_seconds": 100, "default_reward": 0}
    log = [{"kind": "session", "expiry": expiry, "reward_range": [0, 1], "at": 0.0}]
    act = {"kind": "act", "arm": 0, "probability": 0.5, "eligible": 2, "at": 1.0}
    log += [{**act, "slot": slot, "encoded": x} for slot, x in enumerate((A, B, A, NONE), 1)]
    return match([*log, *({"kind": "event", "arm": 0, "outcome": "applied", "at": 2.0, **each} for each in events)])


@pytest.mark.parametrize(
    ("said", "sums"),
    [
        ({"encoded": B}, [0, 1, 0, 0]),
        ({"encoded": A}, [0.5, 0, 0.5, 0]),
        ({"encoded": [1.0, -0.0]}, [0, 0, 0, 1]),
        ({"encoded": [1.0, 0.25]}, [0.25] * 4),  # Of no act.
        ({}, [0.25] * 4),
    ],
)
def test_an_event_is_of_the_acts_of_its_arm_with_its_columns_or_else_of_its_arm(said, sums):
    counts, found, squares = outcomes_of({"reward": 1.0, **said}).known()

    assert found == pytest.approx(sums)
    assert squares == pytest.approx(sums)
    assert (counts <= 1).all()


def test_a_decision_taken_back_is_the_oldest_with_its_columns():
    outcomes = outcomes_of({"outcome": "voided", "encoded": B}, {"reward": 1.0, "encoded": A})

    assert outcomes.left_out == {"voided": 1}
    assert outcomes.columns.tolist() == [A, A, NONE]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda entry: entry.pop("encoded", None), "columns of visitors"),
        (lambda entry: entry.get("slot") == 7 and entry.update(encoded=[1.0]), "columns of visitors"),
        (lambda entry: entry["kind"] == "event" and entry.pop("slot", None), "events that name their slots or say"),
        (lambda entry: entry.get("slot") == 7 and entry.update(eligible=2), "each act could draw each arm"),
    ],
)
def test_what_the_log_can_not_say_is_refused_in_plain_words(tmp_path, capsys, change, says):
    log, _, _ = played(1, 200)
    for entry in log:
        change(entry)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))

    assert main([str(tmp_path / "log.jsonl"), "--policy", "linear"], "prog") == 1
    assert says in capsys.readouterr().err
    assert main([str(tmp_path / "log.jsonl"), "--json"], "prog") == 0
    assert {each["dr"] for each in json.loads(capsys.readouterr().out)["policies"]} == {None}


def test_columns_are_read_from_tables_and_shown(tmp_path, capsys):
    log, _, _ = played(2, 400)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))

    assert main([str(tmp_path / "log.jsonl"), "--policy", "linear"], "prog") == 0
    out = capsys.readouterr().out
    assert "IPS, SNIPS, DR\n  uniform" in out
    assert next(line for line in out.splitlines() if line.startswith("  linear")).count("[") == 3


@pytest.mark.parametrize("wrong", [[], [2.0], ["x"], [0.0] * 65, "x y", {"a": 1}])
def test_columns_that_no_visitor_has_are_refused(tmp_path, wrong):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(played(1, 1)[0][1] | {"encoded": wrong}))

    with pytest.raises(LogFileError, match="encoded: "):
        list(read_entries(path))
