"""Requests of sessions, acts and feedback, plain and odd, by which two ways to answer them are compared."""

from __future__ import annotations

from collections.abc import Iterator

NUMBERS = (
    *("0", "1", "-0", "-1", "2", "0.5", "3.0", "1.0", "1e0", "1E-1", "5e-324", "1e-400", "1e400", "01", "1.", "+1"),
    *("0.1000000000000000055511151231257827", "0.30000000000000004", "9007199254740993", "1" + "0" * 22),
    *("0." + "0" * 450 + "1", "1" * 500, "NaN", "Infinity", "true", "null", '"1"', "[1]", '{"a":1}', ""),
)


def event_bodies() -> Iterator[bytes]:
    for number in NUMBERS:
        yield f'{{"arm": 0, "loss": {number}}}'.encode()
        yield f'{{"loss":0.5,"arm":{number}}}'.encode()
    yield from (
        b'{"arm":1,"reward":1}',
        b'{"arm":0,"loss":0,"loss":1}',
        b'{"arm":0,"arm":1,"loss":1,"event_id":"a:\\u003ab"}',
        b'{"arm":0,"arm":1,"loss":1}',
        b'{"arm":0,"loss":1,"event_id":"one"}',
        b'{"arm":0,"loss":1,"event_id":"one"}',
        b'{"arm":0,"loss":1,"event_id":"a:b"}',
        b'{"arm":0,"loss":1,"event_id":""}',
        b'{"arm":0,"loss":1,"event_id":null}',
        b'{"arm":0,"loss":1,"event_id":"tab\\t"}',
        '{"arm":0,"loss":1,"event_id":"é"}'.encode(),
        b'{"arm":0,"loss":1,"event_id":"' + b"x" * 129 + b'"}',
        b'{"arm":0,"loss":1,"slot":1}',
        b'{"arm":0,"loss":1,"other":1}',
        b'{"label":"b:c","loss":1}',
        '{"label":"é","loss":1}'.encode(),
        b'{"arm":0}',
        b'{"losses":[0.5,0.5,0.25]}',
        b'{"arm":99,"loss":1}',
        b' {"arm": 0 ,\n"loss" : 1 } ',
        b'{"arm":0,"loss":1}x',
        b'\xef\xbb\xbf{"arm":0,"loss":1}',
        b'{"arm":0,"loss":1,"event_id":"\xff"}',
        *(b"{}", b"[]", b"null", b"", b"{", b"[" * 5000),
    )


def corpus(session: str) -> Iterator[tuple[str, bytes]]:
    path = f"/v1/sessions/{session}"
    yield f"{path}/acts", b'{"count":40}'
    for body in (
        b"",
        b"{}",
        b'{"eligible":[0,1]}',
        b'{"exclude":["a"]}',
        b'{"count":1}',
        b"[]",
        b'{"eligible":[]}',
    ):
        yield f"{path}/act", body
    for body in (
        b'{"count":2}',
        b'{"count":2.0}',
        b'{"count":51}',
        b'{"count":0}',
        b'{"count":2,"distinct":true}',
    ):
        yield f"{path}/acts", body
    for body in event_bodies():
        yield f"{path}/feedback", body
        yield f"{path}/feedbacks?on_surplus=skip", b'{"events":[' + body + b"]}"
    plain = b'{"arm":0,"loss":0.25},{"arm":1,"loss":1,"event_id":"%d"}'
    yield f"{path}/feedbacks", b'{"events":[' + plain % 1 + b"]}"
    yield f"{path}/feedbacks", b'{"events":[' + plain % 1 + b',{"arm":2,"loss":0.125}]}'
    yield f"{path}/feedbacks", b'{"events":[' + b",".join([plain % 2] * 11) + b"]}"
    yield f"{path}/feedbacks", b'{"events":[],"events":[{"arm":0,"loss":1}]}'
    for query in ("on_surplus=refuse", "on_surplus=no", "on_surplus=skip&on_surplus=skip", "other=1"):
        yield f"{path}/feedback?{query}", b'{"arm":0,"loss":0.5}'
        yield f"{path}/act?{query}", b""
    yield f"{path}/feedbacks?on_invalid=skip", b'{"events":[{"arm":77,"loss":1}]}'
    yield from ((f"/v1/sessions/{name}/act", b"") for name in ("none", "-", "a b", "hot\n", "%2e"))
    yield "/v1/sessions//act", b""
    yield "/v1/sessions/hot/act/", b""
    yield "/v1/sessions/none/feedback", b'{"arm":0,"loss":0.5}'


def session_corpus(session: str) -> Iterator[tuple[str, str, bytes]]:
    """Method, path and body of views and creations."""
    path = f"/v1/sessions/{session}"
    yield from (("GET", path + query, b"") for query in ("", "?", "?segment=", "?other=1", "/", "/act", "//"))
    yield from (("GET", path, body) for body in (b"{}", b"x"))
    yield from (("HEAD", path, b""), ("PUT", path, b"{}"), ("POST", path, b"{}"), ("DELETE", path + "/", b""))
    yield from (("GET", f"/v1/sessions/{name}", b"") for name in ("none", "-", "a b", "import", "hot\n", "%2e", ""))
    yield from (("GET", other, b"") for other in ("/v1/sessionsx", "/v1/session", "/v1/sessions?limit=0", "/"))
    learner = b'"learner":{"kind":"dexp3","n_arms":3}'
    for fields in (
        b'"seed":1',
        b'"session_id":null',
        b'"session_id":"new","seed":1',
        b'"session_id":"new","seed":1',
        b'"session_id":"new","seed":2',
        b'"session_id":"new","floor":0.1',
        b'"session_id":"new","seed":1,"seed":2',
        b'"session_id":"-"',
        b'"session_id":"floor","floor":0.1,"idle_ttl_seconds":60',
        b'"session_id":"ranges","loss_range":[0,1],"reward_range":[0,1]',
        b'"session_id":"log","decision_log":{"max_entries":10},"loss_range":null',
        b'"expiry":{"after_seconds":60,"default_loss":2}',
        b'"other":1',
        b'"seed":1e999',
        b'"session_id":"caf\xc3\xa9"',
    ):
        yield "POST", "/v1/sessions", b"{" + learner + b"," + fields + b"}"
    for body in (
        *(b'{"session_id":"first%d",' % n + learner + b"}" for n in range(3)),
        *(b"{" + learner + b',"session_id":"last%d"}' % n for n in range(3)),
        b'{ "session_id" : "spaces" , ' + learner + b" }",
        b"{" + learner + b' , "session_id" : "more-spaces" }',
        b"\n{" + learner + b',\n"session_id":"lines"\n}\n',
        b'{"session_id":"first0",' + learner + b"}",
        b'{"session_id":"alone"}',
        b'{"session_id":"alone",}',
        b'{,"session_id":"alone"}',
        b'"session_id":"alone"}',
        b"{" + learner + b',,"session_id":"alone"}',
        b'{"session_id":"-",' + learner + b"}",
        b'{"session_id":"' + b"x" * 129 + b'",' + learner + b"}",
        b'{"session_id":"twice","session_id":null,' + learner + b"}",
        b'{"session_id":"twice",' + learner + b',"session_id":"thrice"}',
        b'{"learner":{"kind":"dexp3","n_arms":3,"session_id":"within"}}',
        b'{"learner":{"kind":"dexp3","n_arms":3,"session_id":"within"}',
        b'{"learner":{"session_id":"within","kind":"dexp3","n_arms":3}}',
        b'{"session_id":"label","learner":{"kind":"dexp3","arms":["session_id","b"]}}',
        b'{"session_id":"escaped","learner":{"kind":"dexp3","arms":["\\u0061","b"]}}',
        b'{"learner":{"kind":"dexp3","arms":["a,\\"session_id\\":\\"x"]}}',
    ):
        yield "POST", "/v1/sessions", body
    yield "POST", "/v1/sessions?limit=1", b"{" + learner + b"}"
    yield "POST", "/v1/sessions/", b"{" + learner + b"}"
    yield "POST", "/v1/sessions", b'{"learner":{"kind":"exp3","arms":["\xc3\xa9","b"],"learning_rate":1}}'
    yield "POST", "/v1/sessions", b'{"learner":{"kind":"dexp3","n_arms":100000000}}'
    yield "POST", "/v1/sessions", b'{"learner":{"kind":"dexp3","arms":["' + b"x" * 600 + b'"]}}'
    yield "POST", "/v1/sessions", b'{"learner":{"kind":"dexp3","arms":[' + b'"x",' * 5000 + b'"y"]}}'
    yield "POST", "/v1/sessions", b'{"session_id":"large","learner":{"kind":"exp3_current","n_arms":9000}}'
    yield "GET", "/v1/sessions/large", b""
    yield from (
        ("POST", "/v1/sessions", body) for body in (b"", b"{}", b"[]", b"{", b'{"learner":{"kind":"none"}}')
    )
