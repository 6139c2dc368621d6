"""A server of OTLP over HTTP on loopback: it decodes requests by the protocol's own messages."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Seen(NamedTuple):
    """A received span: ids in hexadecimal, `parent` "" for the topmost one, times in seconds."""

    trace: str
    id: str
    parent: str
    name: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    began_s: float
    ended_s: float
    failed: bool
    kind: int


@dataclass
class Collector:
    """The received requests with their path, headers in lower case and raw body, and the spans in them."""

    port: int
    status: int = 200
    requests: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)
    spans: list[Seen] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)
    silent: threading.Event = field(default_factory=threading.Event)
    """While it is set, requests are accepted and not answered."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        with self.arrived:
            self._take(path, headers, body)
            self.arrived.notify_all()

    def until(self, come: Callable[[list[Seen]], bool], *, timeout_s: float = 60) -> list[Seen]:
        """Return the spans as soon as `come` is true of them; a client may get its answer before the span of it is sent."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: come(self.spans), timeout_s):
                raise AssertionError(f"not there, of {[span.name for span in self.spans]}")
            return list(self.spans)

    def _take(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.requests.append((path, headers, body))
        packed = headers.get("content-encoding") == "gzip"
        request = ExportTraceServiceRequest.FromString(gzip.decompress(body) if packed else body)
        for group in request.resource_spans:
            resource = _values(group.resource.attributes)
            for scope in group.scope_spans:
                self.spans += [_seen(span, resource) for span in scope.spans]


def _seen(span: Any, resource: Mapping[str, Any]) -> Seen:
    return Seen(
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        name=span.name,
        attributes=_values(span.attributes),
        resource=resource,
        began_s=span.start_time_unix_nano / 1e9,
        ended_s=span.end_time_unix_nano / 1e9,
        failed=span.status.code == span.status.STATUS_CODE_ERROR,
        kind=span.kind,
    )


def _values(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector."""
    end = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            while made.silent.is_set() and not end.wait(0.01):
                continue
            made.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(made.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Print nothing: clients that hang up are part of the tests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        made = Collector(server.server_port)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield made
        finally:
            end.set()
            server.shutdown()
