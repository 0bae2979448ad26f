"""Answers that the OpenAPI document shows, of the session that ``body_examples`` posts."""

from __future__ import annotations

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
