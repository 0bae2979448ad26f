"""Parts of bodies that create sessions."""

ARMS = {"kind": "dexp3", "n_arms": 4}
BALL = {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}}
SEGMENTED = {"learner": {"kind": "centred_tsallis", "n_arms": 3}, "segments": {"max": 3}, "seed": 4}
