"""Driving a learner over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from loadtest.client import Client
from loadtest.errors import ServiceError
from loadtest.replay.driver import Counts, Event, Receipt
from loadtest.replay.plan import IDLE_TTL_SECONDS, Plan
from service.engine.ledger import Action, ArmAction, PointAction
from service.learners.base import FloatArray, Information


class HttpDriver:
    """Drives a session of the service.

    Every event carries an ``event_id`` and every act an ``Idempotency-Key``, so that a call may be
    made again after a lost answer without counting twice.
    """

    def __init__(self, client: Client, plan: Plan, session_id: str) -> None:
        self.log = client.log
        self._client = client
        self._information = plan.information
        self._session_id = session_id
        self._path = f"/v1/sessions/{session_id}"
        request = {"session_id": session_id, "learner": plan.learner, "seed": plan.seed, **plan.session}
        client.call("create", "POST", "/v1/sessions", request | {"idle_ttl_seconds": IDLE_TTL_SECONDS})

    def act(self) -> Action:
        # The key need only differ from act to act: its scope is this session's route.
        key = f"act-{len(self.log.seconds['act']) + 1}"
        answer = self._client.call("act", "POST", f"{self._path}/act", key=key)
        with _understood("act"):
            if "arm" in answer:
                return ArmAction(answer["slot"], answer["arm"], answer["probability"])
            points = answer.get("query_points")
            query_points = None if points is None else np.array(points, dtype=float)
            return PointAction(answer["slot"], np.array(answer["x"], dtype=float), query_points)

    def look(self, slot: int) -> FloatArray | None:
        if self._information not in (Information.ARM, Information.SLOT):
            return None
        view = self._view()
        with _understood("view"):
            if view["slot"] != slot:
                raise ServiceError(
                    f"slot {slot} is open, but the session shows {view['slot']}: is someone else in it?"
                )
            return np.array(view["probabilities"], dtype=float)

    def deliver(self, events: Sequence[Event]) -> Receipt:
        body = {"events": [self._body(event) for event in events]}
        answer = self._client.call("feedbacks", "POST", f"{self._path}/feedbacks", body)
        with _understood("feedbacks"):
            known = answer["applied"] + answer["duplicates"]
            receipt = Receipt(known, answer["duplicates"], answer.get("surplus", 0))
        if receipt.acknowledged + receipt.surplus != len(events):
            raise ServiceError(f"{len(events)} events sent, {receipt.acknowledged} acknowledged")
        return receipt

    def counts(self) -> Counts:
        view = self._view()
        with _understood("view"):
            return Counts(*(int(view[name]) for name in Counts._fields))

    def describe(self) -> dict[str, Any]:
        return {"driver": "http", "session_id": self._session_id, "parameters": self._view().get("learner")}

    def _view(self) -> Any:
        return self._client.call("view", "GET", self._path)

    def _body(self, event: Event) -> dict[str, Any]:
        event_id = f"slot-{event.slot}"
        if self._information is Information.ARM:
            return {"arm": event.arm, "loss": event.posted, "event_id": event_id}
        if self._information is Information.SLOT:
            return {"arm": event.arm, "loss": event.posted, "slot": event.slot, "event_id": event_id}
        return {self._information.value: event.posted.tolist(), "event_id": event_id}


@contextmanager
def _understood(call: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServiceError(f"{call}: the service's answer is not understood ({error!r})") from error
