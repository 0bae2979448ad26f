"""The two groups of a session, decision by decision, in lists: what the service's counts are compared with."""

from hashlib import blake2b
from typing import Any

from tests.support.plain_verdict import written_out

BUCKETS = 64


def in_control(seed: int, name: str, share: float) -> bool:
    """Whether ``s`` and a slot, or ``v`` and a visitor, is in the control group of this seed."""
    return int(blake2b(name.encode(), digest_size=8, key=seed.to_bytes(16)).hexdigest(), 16) / 2**64 < share


class Groups:
    """Each decision is a dict: group, arm, slot, bucket of its act, whether it is open, and its reward, if any."""

    def __init__(self, default: float | None, window: float, updates: float) -> None:
        self.default, self.width, self.updates = default, window / BUCKETS, updates
        self.all: list[dict[str, Any]] = []
        self.by_id: dict[str, dict[str, Any]] = {}
        """By event id: the decision that it settled; {} for an id that can't be improved."""
        self.verdict_from = 0
        """Place of the first decision that the verdict looks at."""

    def act(self, group: str, arm: int, slot: int, now: float) -> None:
        bucket = int(now // self.width)
        self.all.append({"group": group, "arm": arm, "slot": slot, "bucket": bucket, "open": True, "void": False})
        self.all[-1] |= {"reward": None, "event": False}

    def pass_time(self, now: float) -> None:
        for each in self.all:
            if each["open"] and (each["bucket"] + 1 + BUCKETS) * self.width <= now:
                each |= {"open": False, "reward": self.default}

    def remove(self, arm: int) -> None:
        """Give up what is open of an arm: with a default it counts as that, else it leaves."""
        for each in self.all:
            if each["open"] and each["arm"] == arm:
                each |= {"open": False, "reward": self.default}

    def event(self, group: str, arm: int, reward: float | None, event_id: str, now: float, slot: int | None) -> str:
        """Settle an event of a live arm, and say what became of it."""
        if event_id in self.by_id:
            known = self.by_id[event_id]
            is_same = known and (known["group"], known["arm"]) == (group, arm)
            if not is_same or reward is None or reward <= known["reward"] or now - known["at"] > self.updates:
                return "duplicates"
            known["reward"] = reward
            return "updated"
        mine = [each for each in self.all if each["open"] and (each["group"], each["arm"]) == (group, arm)]
        mine = [each for each in mine if slot is None or group == "control" or each["slot"] == slot]
        if not mine:
            return "surplus"
        mine[0] |= {"open": False, "reward": reward, "void": reward is None, "event": reward is not None, "at": now}
        self.by_id[event_id] = {} if reward is None else mine[0]
        return "voided" if reward is None else "applied"

    def rewards(self, group: str) -> list[float]:
        """The rewards that the verdict is made of."""
        mine = [each for each in self.all[self.verdict_from :] if each["group"] == group and not each["void"]]
        values = [self.default if each["reward"] is None else each["reward"] for each in mine]
        return [each for each in values if each is not None]

    def shown(self, group: str) -> dict[str, Any]:
        mine, rewards = [each for each in self.all if each["group"] == group], self.rewards(group)
        return {
            "acts": sum(not each["void"] for each in mine),
            "outstanding": sum(each["open"] for each in mine),
            "events": sum(each["event"] for each in mine),
            "mean_reward": sum(rewards) / len(rewards) if rewards else None,
        }

    def interval(self) -> tuple[float, float] | None:
        """Both ends of the difference, rewards being in [0, 1]; None if there is no verdict yet."""
        both = [self.rewards("learner"), self.rewards("control")]
        if sum(map(len, both)) < 200 or not all(both):
            return None
        squares = [sum(each * each for each in rewards) for rewards in both]
        difference, radius = written_out([len(each) for each in both], [sum(each) for each in both], squares)
        return difference - radius, difference + radius
