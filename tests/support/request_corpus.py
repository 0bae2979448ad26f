"""Requests of acts and feedback, plain and odd, by which two ways to answer them are compared."""

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
