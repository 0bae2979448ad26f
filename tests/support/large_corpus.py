"""Large batches of events, plain and odd, by which two ways to answer them are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def event(arm: int, event_id: str | None = None) -> bytes:
    """A plain event."""
    told = "" if event_id is None else f',"event_id":"{event_id}"'
    return f'{{"arm":{arm},"loss":0.{arm}25{told}}}'.encode()


def plain_batch(arms: Sequence[int], ids: str | None = None) -> bytes:
    """Plain events of these arms; with ids that begin so, if any."""
    return batch([event(arm, None if ids is None else f"{ids}{place}") for place, arm in enumerate(arms)])


def batch(events: Sequence[bytes]) -> bytes:
    """A body with these events."""
    return b'{"events":[' + b",".join(events) + b"]}"


ODD = (
    *(b'{"arm":0,"loss":"x"}', b'{"arm":-1,"loss":1}', b'{"arm":77,"loss":1}', b'{"arm":0,"loss":9}', b"{}", b"1"),
    *(b'{"arm":0,"loss":1,"other":1}', b'{"arm":0,"arm":1,"loss":1}', b'{"arm":0,"loss":1e999}', b"[]", b""),
    *(b'{"arm":0,"loss":' + b"1" * 500 + b"}", b'{"arm":0,"loss":NaN}', b'{"arm":0,"loss":1}}', b'{"arm":0'),
    *(b'{"arm":0,"loss":1,"event_id":"\xff"}', b'{"arm":0,"loss":1,"event_id":"' + b"x" * 5000 + b'"}'),
    *(b'{"arm":0,"loss":1}],"events":[', b'{"arm":0,"loss":1}],"more":[{}', b"[" * 3000, b'{"losses":[0.5,0.5]}'),
    *(
        b'{"arm":0,"loss":null}',
        b'{"arm":0,"reward":0.5}',
        b'{"arm":0,"loss":1,"slot":7}',
        b'{"label":"a","loss":1}',
    ),
    *(b'{"arm":0,"loss":1,"event_id":"a\\u0041"}', '{"label":"é","loss":1}'.encode(), b'{"gradient":[0.5,0.5]}'),
)
"""What an event may be instead."""


def large_corpus(session: str, arms: Sequence[int], most: int) -> Iterator[tuple[str, bytes]]:
    """Path and body of large batches.

    Parameters
    ----------
    session : its id
    arms : of its decisions, more than ``most``
    most : events that a batch may have
    """
    path = f"/v1/sessions/{session}/feedbacks"
    right, half = [event(arm) for arm in arms[:900]], [event(arm) for arm in arms[900:1350]]
    for place in (0, 450, 899):
        for odd in ODD:
            yield path, batch([*right[:place], odd, *right[place + 1 :]])
    yield f"{path}?on_surplus=refuse", plain_batch([0] * most)
    yield path, batch(right)
    ids = plain_batch(arms[900:1800], "id:")
    yield from ((path, ids), (path, ids))
    yield f"{path}?on_surplus=skip", plain_batch([*arms[:800], *arms[1800:1900]], "id:")
    yield path, plain_batch([0] * most + [0])
    yield f"{path}?on_surplus=skip", batch([*half, event(0, "twice"), *half, event(0, "twice")])
    yield path, batch([event(arm, "},{") for arm in arms[:900]])
    yield f"{path}?on_surplus=skip", batch([event(arm, f"a}},{{b{at}") for at, arm in enumerate(arms[:600])])
    yield f"{path}?on_surplus=skip", plain_batch(arms[:900]).replace(b":", b" :\t").replace(b"},", b"},\r\n ")
    yield f"{path}?on_surplus=skip", plain_batch(arms[:900]).replace(b"},", b"} ,")
    yield f"{path}?on_surplus=skip", plain_batch(arms[:900]).replace(b"loss", b"reward")
    words = (b"loss", b"reward")
    yield f"{path}?on_surplus=skip", batch([b'{"arm":0,"%b":1}' % words[at > 500] for at in range(1000)])
    slots = [b'{"arm":%d,"loss":0.5,"slot":%d}' % (arm, slot) for slot, arm in enumerate(arms, 1)]
    yield f"{path}?on_surplus=skip", batch(slots[1900:2800])
    yield f"{path}?on_surplus=skip", batch([*right, *slots[2800:2900]])
    yield f"{path}?on_surplus=skip", batch([b'{"label":"b:c","loss":0.5}'] * 1000)
    yield f"{path}?on_surplus=skip", batch([b'{"losses":[0.5,0.5,0.25]}'] * 1000)
    yield f"{path}?on_surplus=skip", batch([b'{"arm":1,"loss":null}'] * 1000)
    body = plain_batch(arms[:900])
    yield path, body.replace(b'{"events"', b'{"events":[],"events"')
    yield path, body.replace(b'"events":[', b'"events":[,')
    yield path, body.replace(b"]}", b",]}")
    yield from (
        (path, before + body + after) for before, after in ((b"\xef\xbb\xbf", b""), (b"", b"x"), (b"[", b"]"))
    )
    yield f"{path}?on_surplus=skip", b" " * 200 + body + b"\n" * 200
    yield path, b'{"events":[' + b" " * 20_000 + b"]}"
    yield path, body + b" " * 200_000
    yield f"{path}?on_invalid=skip", batch([*right, event(77)])
    yield f"{path}?on_surplus=no", body
    yield "/v1/sessions/none/feedbacks", body
    yield "/v1/sessions/-/feedbacks", body
    yield f"/v1/sessions/{session}/feedback", b" " * 20_000 + event(0)
