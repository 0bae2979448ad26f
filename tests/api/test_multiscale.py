"""Sessions of multiscale_tsallis over HTTP: they follow the text of the rule, and say when they can't learn."""

from collections import Counter

import numpy as np
import pytest

from tests.support.one_session import PATH, made
from tests.support.plain_multiscale import PlainMultiscale

WINDOW, ARMS = 64.0, ["a", "b", "c", "d"]
EXPIRIES = [
    None,
    {"default_loss": None},
    {"default_loss": 0.5, "provisional": False},
    *({"default_loss": loss} for loss in (0.0, 0.5, 1.0)),
]


class Both:
    """A session over HTTP, and the rule number by number, in the same random trace."""

    def __init__(self, client, clock, seed):
        self.client, self.clock, self.rng = client, clock, np.random.default_rng(seed)
        self.floor, expiry = float(self.rng.choice([0.0, 0.1])), EXPIRIES[seed % len(EXPIRIES)]
        initial = [(0, 40, 0.25), (2, 10, 0.5)] if self.rng.random() < 0.3 else None
        self.body = {"learner": {"kind": "multiscale_tsallis", "arms": ARMS}, "seed": seed}
        self.body |= {"floor": self.floor, "expiry": expiry and expiry | {"after_seconds": WINDOW}}
        if initial:
            self.body["initial"] = [{"label": ARMS[k], "acts": n, "mean_loss": m} for k, n, m in initial]
        self.default = (expiry or {}).get("default_loss")
        self.provisional = self.default is not None and (expiry or {}).get("provisional", True)
        self.plain = PlainMultiscale(len(ARMS), self.default if self.provisional else None, initial)
        self.arms, self.paused, self.open = list(ARMS), set(), Counter()
        self.rates = {each: self.rng.random() for each in "abcdefghijklmn"}

    async def post(self, path, body, method="POST"):
        response = await self.client.request(method, PATH + path, json=body)
        assert response.status_code in (200, 201), response.text
        return response.json()

    async def act(self):
        among = [each for each in self.arms if each not in self.paused]
        named = among
        if self.rng.random() < 0.4:
            named = sorted(self.rng.choice(among, self.rng.integers(1, len(among) + 1), replace=False).tolist())
        count = int(self.rng.integers(1, len(named) + 1)) if self.rng.random() < 0.3 else 1
        body = {"count": count, "distinct": True, "eligible": named}
        left = list(named)
        for action in (await self.post("/acts", body))["actions"]:
            places = sorted(map(self.arms.index, left))
            whole = None if len(places) == len(self.arms) else places
            p = self.plain.open(self.open.total(), whole, self.floor)
            arm = action["label"]
            assert action["probability"] == pytest.approx(p[self.arms.index(arm)], abs=1e-9)
            if self.provisional:
                self.plain.charge(self.arms.index(arm))
            self.open[arm] += 1
            left.remove(arm)

    async def answer(self):
        waiting = sorted(self.open.elements())
        if not waiting:
            return
        arm = str(self.rng.choice(waiting))
        loss = round(float(self.rng.random() < self.rates[arm]) * float(self.rng.choice([1.0, 0.7])), 3)
        is_void = self.rng.random() < 0.15
        await self.post("/feedback", {"label": arm, "loss": None if is_void else loss})
        self.open[arm] -= 1
        place = self.arms.index(arm)
        if is_void:
            self.plain.void(place)
        elif self.provisional:
            self.plain.correct(place, loss)
        else:
            self.plain.event(place, loss)

    def pass_window(self):
        """Let all decisions expire; of one time of acts they expire by arm."""
        self.clock.now += 2 * WINDOW
        for place, arm in enumerate(self.arms if self.body["expiry"] else ()):
            if count := self.open.pop(arm, 0):
                if self.default is None:
                    self.plain.drop(count)
                elif not self.provisional:
                    self.plain.event(place, self.default, count)

    async def change(self):
        new = [each for each in self.rates if each not in self.arms][: self.rng.integers(0, 3)]
        gone = self.rng.choice(self.arms, self.rng.integers(0, len(self.arms) - 1), replace=False).tolist()
        paused = self.rng.choice(self.arms, self.rng.integers(0, 2), replace=False).tolist()
        gone, new = gone[:2], [each for each in new if each not in gone]
        if len({*self.arms, *new} - {*gone, *paused}) < 2:
            return
        paused = [each for each in paused if each not in gone]
        body = {"add": new, "remove": gone, "resume": sorted(self.paused - {*gone}), "pause": paused}
        await self.post("/arms", {name: named for name, named in body.items() if named}, "PATCH")
        if gone:
            self.plain.remove_arms(sorted(map(self.arms.index, gone)))
        if new:
            self.plain.add_arms(len(new))
        for each in gone:
            self.open.pop(each, None)
        self.arms, self.paused = [each for each in self.arms if each not in gone] + new, set(paused)

    async def compare(self):
        rows = (await self.client.get(f"{PATH}/arms")).json()["arms"]
        among = [place for place, arm in enumerate(self.arms) if arm not in self.paused]
        shown, chances = self.plain.view(among, self.floor), self.plain.best_chance()
        assert [row["label"] for row in rows] == self.arms
        np.testing.assert_allclose([row["probability"] for row in rows], shown, rtol=0, atol=1e-9)
        assert (rows[0]["best_chance"] is None) == (chances is None)
        if chances is not None:
            np.testing.assert_allclose([row["best_chance"] for row in rows], chances, rtol=0, atol=1e-9)


async def trace(client, clock, seed):
    both = Both(client, clock, seed)
    assert (await client.post("/v1/sessions", json={"session_id": "s"} | both.body)).status_code == 201
    for _ in range(60):
        kind = both.rng.random()
        if kind < 0.5:
            await both.act()
        elif kind < 0.88:
            await both.answer()
        elif kind < 0.91:
            both.pass_window()
        elif kind < 0.95:
            await both.change()
        else:
            await both.compare()
    await both.compare()
    await client.delete(PATH)


@pytest.mark.parametrize(
    "seeds",
    [range(6), pytest.param(range(6, 300), marks=[pytest.mark.recipes, pytest.mark.timeout(600)])],
    ids=["few", "many"],
)
async def test_a_session_does_what_the_text_of_the_rule_says(client, clock, seeds):
    for seed in seeds:
        await trace(client, clock, seed)


SICK = {"answered_too_often", "few_events", "rewards_rare_and_bad"}


async def hints(client):
    view = (await client.get(PATH)).json()
    return {hint["code"] for hint in view["hints"]} & SICK


async def open_session(client, arms, acts, expiry=None, **fields):
    body = {"learner": {"kind": "multiscale_tsallis", "n_arms": arms}, "reward_range": [0, 1]}
    window = {} if expiry is None else {"expiry": {"after_seconds": WINDOW, **expiry}}
    await made(client, **body | window | fields)
    await client.post(f"{PATH}/acts", json={"count": acts})


async def answer(client, count, reward, arm=0):
    events = [{"arm": arm, "reward": reward}] * count
    response = await client.post(f"{PATH}/feedbacks?on_surplus=skip", json={"events": events})
    assert response.json()["applied"] == count


CLICKS, RATINGS = {"default_reward": 0}, {"default_reward": None}
OFTEN, FEW, RARE = ({code} for code in sorted(SICK))


@pytest.mark.parametrize(
    ("expiry", "acts", "answers", "has_ended", "found"),
    [
        # More than .8 of all decisions are answered, and 200 settled; few answers of a long window are not many.
        (CLICKS, 1000, [(250, 1)], False, set()),
        (CLICKS, 250, [(210, 1)], False, OFTEN),
        (CLICKS, 199, [(190, 1)], True, set()),
        (CLICKS, 200, [(160, 1)], True, set()),
        (CLICKS, 200, [(161, 1)], True, OFTEN),
        *((expiry, 300, [(300, 0.5)], False, set()) for expiry in (CLICKS | {"provisional": False}, RATINGS, None)),
        # Ten events that are not the default, after 100 slots.
        (CLICKS, 99, [(9, 1)], False, set()),
        (CLICKS, 100, [], True, FEW),
        (CLICKS, 100, [(9, 1), (30, 0)], False, FEW),
        (CLICKS, 100, [(10, 1)], False, set()),
        *((expiry, 100, [(9, 0)], False, FEW) for expiry in (RATINGS, None)),
        *((expiry, 100, [(5, 0), (5, 1)], False, set()) for expiry in (RATINGS, None)),
        # 20 events above the default's loss, none below it, and less than .2 answered.
        ({"default_reward": 1}, 200, [(19, 0)], True, set()),
        ({"default_reward": 1}, 200, [(20, 0)], True, RARE),
        ({"default_reward": 1, "provisional": False}, 200, [(39, 0.5)], True, RARE),
        ({"default_reward": 1}, 200, [(20, 0)], False, set()),
        ({"default_reward": 1}, 200, [(40, 0)], True, set()),
        ({"default_reward": 0.5}, 200, [(20, 0), (1, 1)], True, set()),
        (CLICKS, 1000, [(50, 1)], True, set()),
    ],
)
async def test_a_sick_session_says_so_and_no_other(client, clock, expiry, acts, answers, has_ended, found):
    await open_session(client, 1, acts, expiry)
    for count, reward in answers:
        await answer(client, count, reward)
    clock.now += 2 * WINDOW * has_ended
    assert await hints(client) == found


NULL, LOSSES = {"expiry": {"default_loss": None}}, {"loss_range": [0, 1]}
RIGHT = {"expiry": {"default_loss": 1}} | LOSSES
ALL_SHOWN = [
    # What is sick, arms, share of answers, their losses, what else the session is created with.
    ("clicks are the worst loss", 5, 0.05, [1], {"expiry": {"default_loss": 0}} | LOSSES, RARE),
    ("nothing: clicks are the best", 5, 0.05, [0], RIGHT, set()),
    ("nothing: some answers are better than silence", 5, 0.05, [0, 1], {"expiry": {"default_loss": 0.5}}, set()),
    ("many arms at 1 %", 1000, 0.01, [0], RIGHT, FEW),
    ("nothing: few arms", 10, 0.1, [0], RIGHT, set()),
    ("95 % rated, provisional", 5, 0.95, [0, 0.3, 1], RIGHT, OFTEN),
    ("nothing: half are rated", 5, 0.5, [0, 0.3, 1], RIGHT, set()),
    (
        "nothing: 95 % rated, waiting",
        5,
        0.95,
        [0, 0.3, 1],
        {"expiry": {"default_loss": 1, "provisional": False}},
        set(),
    ),
    ("nothing: 95 % rated, nothing is assumed", 5, 0.95, [0, 0.3, 1], NULL, set()),
    ("nothing: 5 % rated, nothing is assumed", 5, 0.05, [0, 0.3, 1], NULL, set()),
    # Counts can't tell these: each click settles a decision, and the learner follows any unit.
    ("each click comes twice", 5, 0.05, [0, 0], RIGHT, set()),
    ("a unit of a thousandth", 5, 0.05, [0.999], RIGHT, set()),
]


@pytest.mark.parametrize(("sick", "arms", "share", "losses", "fields", "found"), ALL_SHOWN)
@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 10), marks=pytest.mark.slow)], ids=["1", "9"])
async def test_counts_tell_what_is_sick_and_no_more(client, clock, seeds, sick, arms, share, losses, fields, found):
    for seed in seeds:
        random = np.random.default_rng(seed)
        learner = {"kind": "multiscale_tsallis", "n_arms": arms}
        fields["expiry"]["after_seconds"] = WINDOW
        batches = {"seed": seed, "guard": {"silence": False}}  # Between two of them no event can come.
        await client.post("/v1/sessions", json={"session_id": "s", "learner": learner} | batches | fields)
        for _ in range(10):
            actions = (await client.post(f"{PATH}/acts", json={"count": 200})).json()["actions"]
            told = [{"arm": each["arm"]} for each in actions if random.random() < share]
            repeats = 2 if sick == "each click comes twice" else 1
            events = [event | {"loss": float(random.choice(losses))} for event in told for _ in range(repeats)]
            await client.post(f"{PATH}/feedbacks?on_surplus=skip", json={"events": events})
            clock.now += 1.1 * WINDOW
        assert {hint["code"] for hint in (await client.get(PATH)).json()["hints"]} == found, (sick, seed)
        await client.delete(PATH)


@pytest.mark.slow
async def test_it_learns_from_one_answer_in_twenty(client, clock):
    """What expires at a null default does not count in the scales; if it did, the share would be .27."""
    rates, uniform, shares = np.linspace(0.2, 0.8, 5), 0.3, []
    for seed in range(2):
        random = np.random.default_rng(seed)
        await open_session(client, 5, 0, RATINGS, seed=seed)
        shown = []
        for _ in range(30):
            actions = (await client.post(f"{PATH}/acts", json={"count": 200})).json()["actions"]
            arms = [each["arm"] for each in actions]
            events = [{"arm": k, "reward": int(random.random() < rates[k])} for k in arms if random.random() < 0.05]
            await client.post(f"{PATH}/feedbacks", json={"events": events})
            clock.now += 1.1 * WINDOW
            shown += arms
        shares.append((rates.max() - rates[shown].mean()) / uniform)
        await client.delete(PATH)
    assert np.mean(shares) < 0.22, shares


async def test_too_few_events_say_when_it_will_be_clear(client):
    await open_session(client, 5, 99, CLICKS)
    assert await hints(client) == set()
    await client.post(f"{PATH}/act")
    assert await hints(client) == {"few_events"}
    arm = max((await client.get(f"{PATH}/arms")).json()["arms"], key=lambda row: row["outstanding"])["arm"]
    await answer(client, 2, 0, arm)  # as good as none
    await answer(client, 4, 1, arm)
    (listed,) = (await client.get("/v1/sessions")).json()["sessions"]
    (hint,) = [each for each in listed["hints"] if each["code"] == "few_events"]
    assert hint["message"].startswith("4 events for 5 arms")
    assert hint["message"].endswith("slot 1200.")  # 10 * 100 * 5/4, rounded
    assert (await client.get(f"{PATH}/arms")).json()["arms"][0]["best_chance"] is not None


async def test_what_is_known_before_counts_as_events(client):
    await open_session(client, 10, 200, CLICKS, initial=[{"arm": 0, "acts": 90, "mean_reward": 0.3}])
    assert await hints(client) == {"few_events"}
    rows = (await client.get(f"{PATH}/arms")).json()["arms"]
    assert sum(row["best_chance"] for row in rows) == pytest.approx(1)
    await answer(client, 10, 1, max(rows, key=lambda row: row["outstanding"])["arm"])
    assert await hints(client) == set()


async def test_other_learners_have_neither(client):
    await open_session(client, 2, 300, None, learner={"kind": "centred_tsallis", "n_arms": 20})
    assert await hints(client) == set()
    assert "best_chance" not in (await client.get(f"{PATH}/arms")).json()["arms"][0]


async def test_segments_show_how_sure_the_whole_session_is(client):
    await open_session(client, 3, 0, CLICKS, segments={"max": 4})
    for turn in range(30):
        arm = (await client.post(f"{PATH}/act", json={"segment": "ab"[turn % 2]})).json()["arm"]
        await client.post(f"{PATH}/feedback", json={"arm": arm, "reward": int(arm == 1), "segment": "ab"[turn % 2]})
    rows = (await client.get(f"{PATH}/arms")).json()["arms"]
    of_one = (await client.get(f"{PATH}/arms?segment=a")).json()["arms"]

    assert max(rows, key=lambda row: row["best_chance"])["arm"] == 1
    assert not any("best_chance" in row for row in of_one)
