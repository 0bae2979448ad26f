"""A collector of traces on loopback: takes OTLP over HTTP and keeps what came."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Collector:
    """A server of its own thread; ends with the ``with`` block."""

    def __init__(self) -> None:
        collector = self
        self.bodies: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                zipped = self.headers.get("Content-Encoding") == "gzip"
                collector.bodies.append(gzip.decompress(body) if zipped else body)
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def resources(self) -> Iterator[tuple[dict[str, Any], list[Any]]]:
        """What came so far: each sender's attributes, and its spans."""
        for body in list(self.bodies):
            for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
                yield attributes(sent.resource), [span for scope in sent.scope_spans for span in scope.spans]

    def spans(self) -> list[Any]:
        """All spans that came so far."""
        return [span for _, spans in self.resources() for span in spans]


def attributes(told: Any) -> dict[str, Any]:
    """The attributes of a span or a resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in told.attributes}
