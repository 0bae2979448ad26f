"""Session ``s`` over HTTP, of four arms where nothing else is said: made, changed, asked for acts and viewed."""

from tests.support import vectors

PATH = "/v1/sessions/s"
ARMS = ["a", "b", "c", "d"]
KINDS = vectors.over_arms()
TAKES = vectors.with_eligible_arms()


async def session(client, *, kind="centred_tsallis", arms=ARMS, **fields):
    size = {"arms": list(arms)} if isinstance(arms, list) else {"n_arms": arms}
    learner = {"kind": kind} | size | KINDS[kind] | fields.pop("learner", {})
    return await made(client, learner=learner, seed=7, **fields)


async def answered(client, method, path, status=200, **sent):
    """The JSON of an answer with this status."""
    answer = await client.request(method, path, **sent)
    assert answer.status_code == status, answer.text
    return answer.json()


async def made(client, headers=None, **body):
    """The view of a new session of this body."""
    return await answered(client, "POST", "/v1/sessions", 201, json={"session_id": "s"} | body, headers=headers)


async def moved(here, there, path=PATH):
    """Export a session from one service and import it in another; the document."""
    document = (await here.get(f"{path}/export")).json()
    await answered(there, "POST", "/v1/sessions/import", 201, json=document)
    return document


async def _asked(client, method, path, status, headers, body):
    return await answered(client, method, f"{PATH}{path}", status, json=body, headers=headers)


async def act(client, status=200, headers=None, **body):
    return await _asked(client, "POST", "/act", status, headers, body)


async def acts(client, status=200, headers=None, **body):
    return await _asked(client, "POST", "/acts", status, headers, body)


async def settled(client, *events, status=200, query=""):
    """Report events: what became of them, without counts of none; or the problem."""
    answer = await _asked(client, "POST", f"/feedbacks{query}", status, None, {"events": events})
    return answer if status != 200 else {name: n for name, n in answer.items() if n and name != "slot"}


async def change(client, status=200, headers=None, **body):
    """Add, remove, pause and resume arms."""
    return await _asked(client, "PATCH", "/arms", status, headers, body)


async def replace(client, arms, status=200, headers=None):
    """Replace the catalogue whole."""
    return await _asked(client, "PUT", "/arms", status, headers, {"arms": arms})


async def patch(client, status=200, headers=None, **fields):
    """Change fields of the session."""
    return await _asked(client, "PATCH", "", status, headers, fields)


async def pages(client, path, headers=None, **params):
    """The pages of a list, by the cursors that lead from each to the next."""
    while True:
        page = await answered(client, "GET", path, params=params, headers=headers)
        yield page
        if page["next_cursor"] is None:
            return
        params["cursor"] = page["next_cursor"]


async def view(client, path=PATH):
    return (await client.get(path)).json()
