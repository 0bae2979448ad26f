"""Evaluate from the log of one session what each item alone, and uniform play, would have given.

The session has a decision log and a floor: without one a probability may become so small that nothing can be said.
Clicks come by token, so that the log knows which decision each is of.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from delayed_bandits import Bandits

RATES = {"hat": 0.1, "scarf": 0.2, "shoes": 0.4}


def main() -> None:
    """Let 2,000 visitors come, and evaluate the log."""
    visitors = random.Random(1)  # noqa: S311 - a simulation
    with Bandits(os.environ.get("DELAYED_BANDITS_URL", "http://127.0.0.1:8000"), timeout=30) as bandits:
        session = bandits.sessions.ensure(
            "logged",
            learner={"kind": "multiscale_tsallis", "arms": list(RATES)},
            reward_range=[0, 1],
            floor=0.2,
            decision_log={"max_entries": 100_000},
            tokens=True,
            seed=1,
        )
        for _ in range(40):
            actions = session.acts(50)
            session.feedbacks(
                [
                    {"token": each.token, "reward": int(visitors.random() < RATES[str(each.label)])}
                    for each in actions
                ]
            )
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log.jsonl"
            log.write_text("".join(json.dumps(entry) + "\n" for entry in session.decisions(limit=1000)))
            evaluate = [sys.executable, "-m", "delayed_bandits", "evaluate", str(log), "--json"]
            said = subprocess.run(evaluate, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    for policy in json.loads(said.stdout)["policies"]:
        value = policy["snips"]
        print(f"{policy['name']}: {value['value']:.2f}, between {value['low']:.2f} and {value['high']:.2f}")


if __name__ == "__main__":
    main()
