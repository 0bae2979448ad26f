"""What requests do to the metrics, in one process."""

import pytest


async def test_hundreds_of_paths_and_sessions_make_no_series(make_client):
    app = (await make_client())._transport.app
    metrics = app.state.runtime.metrics

    async def request(method, path):
        await app({"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}, ended, sink)

    async def ended():
        return {"type": "http.request", "body": b""}

    async def sink(message):
        pass

    def names():
        samples = [sample for family in metrics.registry.collect() for sample in family.samples]
        return {(sample.name, *sorted(sample.labels.items())) for sample in samples}

    await request("GET", "/nowhere")
    await request("POST", "/v1/sessions/s/act")
    before = names()
    for number in range(100):
        await request("GET", f"/{number:x}/{'y' * (number % 50)}")
        await request("POST", f"/v1/sessions/s{number}/act")

    assert names() == before
    assert metrics.registry.get_sample_value("bandit_problems_total", {"code": "unknown_session"}) == 101
    assert metrics.registry.get_sample_value("bandit_problems_total", {"code": "not_found"}) == 101


async def test_decisions_of_a_deleted_session_are_outstanding_no_more(make_client):
    client = await make_client()
    registry = client._transport.app.state.runtime.metrics.registry

    def total(name):
        return next(sum(s.value for s in family.samples) for family in registry.collect() if family.name == name)

    def balances():
        """As docs/metrics.md computes them."""
        settled = total("bandit_decisions_settled") + total("bandit_decisions_abandoned")
        sessions = total("bandit_sessions_created") - total("bandit_sessions_deleted")
        return total("bandit_decisions_opened") - settled, sessions

    for session in ("stays", "goes"):
        await client.post("/v1/sessions", json={"session_id": session, "learner": {"kind": "dexp3", "n_arms": 3}})
        await client.post(f"/v1/sessions/{session}/acts", json={"count": 5})
    both = balances()
    await client.delete("/v1/sessions/goes")
    await client.delete("/v1/sessions/goes")

    assert (both, balances()) == ((10, 2), (5, 1))
    assert registry.get_sample_value("bandit_decisions_abandoned_total") == 5


@pytest.mark.parametrize(
    "learner", [{"kind": "dexp3", "n_arms": 3}, {"kind": "exp3", "n_arms": 3, "learning_rate": 0.1}]
)
async def test_delays_are_measured_where_they_are_known(make_client, learner):
    client = await make_client()
    registry = client._transport.app.state.runtime.metrics.registry
    for session, expiry in (("known", {"after_seconds": 64.0, "default_loss": None}), ("unknown", None)):
        body = {"session_id": session, "learner": learner} | ({"expiry": expiry} if expiry else {})
        assert (await client.post("/v1/sessions", json=body)).status_code == 201
        for _ in range(3):
            action = (await client.post(f"/v1/sessions/{session}/act")).json()
            event = {"arm": action["arm"], "slot": action["slot"], "loss": 0.5}
            assert (await client.post(f"/v1/sessions/{session}/feedback", json=event)).json()["applied"] == 1

    assert registry.get_sample_value("bandit_feedback_delay_seconds_count") == 3
    assert registry.get_sample_value("bandit_feedback_delay_seconds_bucket", {"le": "60.0"}) == 3
