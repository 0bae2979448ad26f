"""Bodies that the OpenAPI document shows: one session that recommends three jokes."""

from __future__ import annotations

from fastapi.openapi.models import Example

# -- Answers that the OpenAPI document shows, of the session that ``body_examples`` posts.

VIEW = {
    "session_id": "jokes",
    "learner": {
        "kind": "dexp3",
        "n_arms": 3,
        "horizon": None,
        "max_delay": None,
        "total_delay": None,
        "learning_rate": 1.6727670842720892,
        "loss_clip": 0.5978118588070818,
        "probability_floor": 0.25,
        "max_outstanding": None,
        "rate_scale": None,
        "rates": "anytime",
    },
    "loss_range": [10.0, -10.0],
    "normalize_losses": True,
    "idle_ttl_seconds": None,
    "expiry": None,
    "floor": 0.0,
    "slot": 0,
    "feedbacks": 0,
    "outstanding": 0,
    "expired": 0,
    "removed": 0,
    "voided": 0,
    "total_delay": 0,
    "mean_loss": None,
    "last_act_at": None,
    "last_event_at": None,
    "effective_arms": 3.0,
    "hints": [],
    "version": "9c1f0f0d5f6f4b1e-1",
    "created_at": "2026-01-01T12:00:00.000Z",
    "expires_at": None,
    "paused": [],
    "probabilities": [0.3333333333333333, 0.3333333333333333, 0.3333333333333333],
}
SESSION_CHANGED = VIEW | {"expiry": {"after_seconds": 3600.0, "default_loss": None}}
CHANGED = VIEW | {
    "learner": VIEW["learner"] | {"arms": ["pun", None, "limerick", "knock-knock"]},  # type: ignore[operator]
    "slot": 5,
    "feedbacks": 2,
    "outstanding": 2,
    "removed": 1,
    "mean_loss": -2.5,
    "last_act_at": "2026-01-01T12:03:10.000Z",
    "last_event_at": "2026-01-01T12:03:12.000Z",
    "effective_arms": 2.9623,
    "version": "9c1f0f0d5f6f4b1e-9",
    "probabilities": [0.4, 0.0, 0.26666666666666666, 0.3333333333333333],
}
_SUMMARY = {name: value for name, value in VIEW.items() if name not in {"paused", "probabilities"}}
LIST = {"sessions": [_SUMMARY], "next_cursor": None}
ACTION = {"slot": 1, "arm": 2, "probability": 0.3333333333333333}
ACTIONS = {"actions": [ACTION, {"slot": 2, "arm": 0, "probability": 0.3333333333333333}]}
SETTLEMENT = {"applied": 1, "duplicates": 0, "slot": 2, "outstanding": 1}
ARMS = {
    "arms": [
        {
            "arm": 2,
            "paused": False,
            "probability": 0.41,
            "acts": 40,
            "outstanding": 3,
            "feedbacks": 37,
            "expired": 0,
            "mean_loss": -2.5,
        }
    ],
    "next_cursor": "-acts~1",
}
SEGMENTS = {
    "segments": [
        {
            "segment": "de/phone",
            "slots": 40,
            "feedbacks": 37,
            "mean_loss": -2.5,
            "effective_arms": 1.9,
            "last_act_at": "2026-01-01T12:00:00.000Z",
        }
    ],
    "next_cursor": "segment~ZGUvcGhvbmU=",
}
DECISIONS = {
    "decisions": [
        {"kind": "act", **ACTION, "eligible": 3, "at": "2026-01-01T12:00:00.000Z"},
        {
            "kind": "event",
            "arm": 2,
            "loss": 7.25,
            "outcome": "applied",
            "event_id": "rating-1",
            "at": "2026-01-01T12:00:05.250Z",
        },
    ],
    "next_cursor": None,
}
HISTORY = {
    "period_seconds": 5.0,
    "samples": [
        {
            "at": "2026-01-01T12:00:05.000Z",
            "slot": 120,
            "feedbacks": 100,
            "outstanding": 20,
            "expired": 0,
            "removed": 0,
            "voided": 0,
            "total_delay": 2100,
            "counted": 100,
            "mean_loss": -1.5,
            "effective_arms": 2.4,
            "arms": [{"arm": 2, "probability": 0.52}, {"arm": 0, "probability": 0.3}],
        }
    ],
}
KEY = {"name": "board", "role": "reader", "session_prefix": ""}
EXPORTED = {
    "counts": [],
    "created_at": 1767268800.25,
    "event_ids": [],
    "format": 1,
    "records": [],
    "session_id": "jokes",
    "specification": {"specification": {"learner": {"kind": "dexp3", "n_arms": 3}}, "seed": 7},
    "state": [{"part": "AQ=="}],
    "version": "9c1f0f0d5f6f4b1e-1",
    "sha256": "0" * 64,
}

CREATE: dict[str, Example] = {
    "control": Example(
        summary="A control group: jokes told as often as the editors want, at random",
        value={
            "session_id": "jokes-control",
            "learner": {
                "kind": "fixed",
                "arms": ["pun", "riddle", "limerick"],
                "probabilities": {"pun": 0.5, "riddle": 0.25, "limerick": 0.25},
            },
        },
    ),
    "segments": Example(
        summary="Jokes by country and device; the 500 most recent segments are kept",
        value={
            "session_id": "jokes-by-segment",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle", "limerick"]},
            "segments": {"max": 500},
        },
    ),
    "floor": Example(
        summary="One joke in twenty is told at random, whatever has been learned",
        value={
            "session_id": "jokes-with-floor",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle", "limerick"]},
            "floor": 0.05,
        },
    ),
    "arms": Example(
        summary="Three jokes, rated from -10 (worst) to 10 (best)",
        value={
            "session_id": "jokes",
            "learner": {"kind": "dexp3", "n_arms": 3},
            "loss_range": [10, -10],
            "seed": 7,
        },
    ),
    "rewards": Example(
        summary="Clicks as rewards; a decision without a click within a day counts as 0",
        value={
            "session_id": "teasers",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle"]},
            "reward_range": [0, 1],
            "expiry": {"after_seconds": 86400, "default_reward": 0},
        },
    ),
    "ratings": Example(
        summary="A joke without a rating counts as average after half a day",
        value={
            "session_id": "jokes-rated",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle"]},
            "loss_range": [10, -10],
            "expiry": {"after_seconds": 43200, "default_loss": 0, "provisional": False},
            "idle_ttl_seconds": 2592000,
        },
    ),
    "known": Example(
        summary="Start with the means of an experiment, and keep a decision log",
        value={
            "session_id": "jokes-known",
            "learner": {"kind": "multiscale_tsallis", "arms": ["pun", "riddle", "limerick"]},
            "reward_range": [0, 1],
            "initial": [
                {"label": "pun", "acts": 5000, "mean_reward": 0.04},
                {"label": "riddle", "acts": 800, "mean_reward": 0.02},
            ],
            "decision_log": {"max_entries": 1000000},
        },
    ),
    "raw": Example(
        summary="Learn losses without scaling, to repeat an experiment of a paper",
        value={
            "session_id": "replay",
            "learner": {"kind": "dexp3", "n_arms": 3, "horizon": 1000, "max_delay": 10, "total_delay": 5000},
            "normalize_losses": False,
        },
    ),
    "points": Example(
        summary="Points of the unit ball",
        value={
            "session_id": "prices",
            "learner": {"kind": "dbgd", "dim": 2, "feasible_set": {"kind": "ball", "radius": 1.0}},
        },
    ),
}
CHANGE: dict[str, Example] = {
    "fresh": Example(
        summary="Add one joke and remove another", value={"add": ["knock-knock"], "remove": ["riddle"]}
    ),
    "pause": Example(
        summary="Pause one joke, and resume another",
        value={"pause": ["pun"], "resume": ["limerick"]},
    ),
}
REPLACE: dict[str, Example] = {
    "catalogue": Example(summary="The jokes of today", value={"arms": ["pun", "limerick", "knock-knock"]})
}
CHANGE_SESSION: dict[str, Example] = {
    "window": Example(
        summary="Wait an hour for a rating, and learn nothing if none comes",
        value={"expiry": {"after_seconds": 3600, "default_loss": None}},
    ),
    "floor": Example(summary="Tell one joke in ten at random", value={"floor": 0.1}),
    "permanent": Example(summary="Keep the session for ever", value={"idle_ttl_seconds": None}),
}
ACT: dict[str, Example] = {
    "any": Example(summary="Any joke that is not paused", value={}),
    "eligible": Example(summary="One of two jokes", value={"eligible": ["pun", "limerick"]}),
    "exclude": Example(summary="Any joke except the one just told", value={"exclude": ["pun"]}),
    "by_index": Example(summary="Arms by their indexes, in a session without labels", value={"eligible": [0, 2]}),
    "segment": Example(summary="For a phone in Germany, in a session with segments", value={"segment": "de/phone"}),
}
ACTS: dict[str, Example] = {
    "row": Example(summary="Two slots in a row; an arm may come twice", value={"count": 2}),
    "slate": Example(
        summary="Two different jokes for one page, none of them told before",
        value={"count": 2, "distinct": True, "exclude": ["pun"]},
    ),
}
EVENT: dict[str, Example] = {
    "rating": Example(summary="A rating of arm 2", value={"arm": 2, "loss": 7.25, "event_id": "rating-1"}),
    "reward": Example(
        summary="A reward of arm 2, in a session with reward_range",
        value={"arm": 2, "reward": 1, "event_id": "click-1"},
    ),
    "segment": Example(
        summary="A rating from a phone in Germany", value={"arm": 2, "loss": 7.25, "segment": "de/phone"}
    ),
    "void": Example(
        summary="Arm 2 was not shown after all", value={"arm": 2, "loss": None, "event_id": "hidden-1"}
    ),
    "slot": Example(
        summary="A rating by label, with the slot that some learners need",
        value={"label": "pun", "loss": 7.25, "slot": 17},
    ),
    "losses": Example(summary="Losses at a point and its two query points", value={"losses": [0.5, 0.51, 0.49]}),
    "gradient": Example(summary="The gradient at a point, for ogd and solid", value={"gradient": [0.2, -0.1]}),
}
EVENTS: dict[str, Example] = {
    "ratings": Example(
        summary="Two ratings, in the order they came",
        value={"events": [EVENT["rating"]["value"], {"arm": 0, "loss": -3.0, "event_id": "rating-2"}]},
    )
}
IMPORT: dict[str, Example] = {"exported": Example(summary="An exported session", value=EXPORTED)}
