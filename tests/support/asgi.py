"""An application asked over ASGI, byte by byte."""

from fastapi import FastAPI

JSON = [(b"content-type", b"application/json")]


class Asked:
    """An application, asked over ASGI: its answers as bytes."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def ask(self, path, body=b"", headers=JSON, method="POST", pieces=None, known_length=True):
        parts = list(pieces or [body])
        messages = [
            {"type": "http.request", "body": part, "more_body": n < len(parts)} for n, part in enumerate(parts, 1)
        ]
        left, sent = iter(messages), []

        async def receive():
            return next(left, {"type": "http.disconnect"})

        async def send(message):
            sent.append(message)

        path, _, query = path.partition("?")
        length = [(b"content-length", b"%d" % sum(map(len, parts)))] if known_length else []
        scope = {"type": "http", "http_version": "1.1", "method": method, "path": path, "root_path": ""}
        scope |= {"raw_path": path.encode(), "query_string": query.encode()}
        scope |= {"headers": [*length, *headers, (b"x-request-id", b"asked")], "client": ("127.0.0.1", 1)}
        await self._app(scope, receive, send)
        head = sent[0]
        return head["status"], head["headers"], b"".join(message.get("body", b"") for message in sent[1:])
