"""Spans of OpenTelemetry's SDK, encoded by its exporter, and sent over HTTP at the end of each step.

The SDK's own tracer is not used: it chooses ids, but ours derive from the turn; and its batches wait for a thread,
which a function's environment freezes. Its packages are loaded with the first span, or while a function initialises.

Spans are sent in a thread with a bounded wait, so that even a name that does not resolve stays within the limit. A
server that does not accept spans is not contacted for a while: it delays a turn once, not at each step.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from stepline.adapters.http_pool import make_pool
from stepline.errors import DependencyError
from stepline.metrics import SPANS_LOST
from stepline.ports.clock import Clock, Meter
from stepline.ports.tracing.traces import Attribute, EndedSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

logger = logging.getLogger(__name__)

MODULES: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.common.trace_encoder")
"""The modules that the first span loads."""
EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
SPANS_AT_ONCE: Final = 24
"""Maximum spans of a request: texts have less than 200 KB each, and X-Ray accepts 5 MB."""
REST_S: Final = 60
"""How long a server that did not accept spans is not contacted."""
SENT: Final = range(200, 300)

Headers = Mapping[str, str]
Sign = Callable[[str, bytes, Headers], Headers]
"""Returns the headers of a request with its credentials, from its address, its body and its other headers."""


class OtlpTraces:
    """Sends spans to an OTLP server over HTTP."""

    def __init__(
        self,
        url: str,
        *,
        sign: Sign,
        timeout_s: float,
        resource: Mapping[str, str],
        provider: str,
        clock: Clock,
        meter: Meter,
        texts: bool = False,
    ) -> None:
        """Send to `url`, a whole address, for at most `timeout_s` per step; nothing is loaded or connected yet."""
        self.provider = provider
        self.texts = texts
        self._url, self._sign, self._timeout_s = url, sign, timeout_s
        self._resource = dict(resource)
        self._clock, self._meter = clock, meter
        self._lock = Lock()
        self._rests_until_s = 0.0

    def send(self, spans: Sequence[EndedSpan]) -> None:
        with self._lock:
            rests = self._clock.monotonic_s() < self._rests_until_s
        if rests:
            self._meter.count(SPANS_LOST, len(spans))
            return
        taken: list[int] = []
        work = Thread(target=self._deliver, args=(tuple(spans), taken), name="spans", daemon=True)
        work.start()
        work.join(self._timeout_s)
        lost = len(spans) - sum(taken)
        if not lost:
            return
        with self._lock:
            self._rests_until_s = self._clock.monotonic_s() + REST_S
        self._meter.count(SPANS_LOST, lost)
        logger.warning("spans lost", extra={"spans": lost, "late": work.is_alive()})

    def _deliver(self, spans: Sequence[EndedSpan], taken: list[int]) -> None:
        """Encode and send spans, and record how many were accepted."""
        try:
            from opentelemetry.exporter.otlp.proto.common.trace_encoder import (  # noqa: PLC0415 - 65 ms of CPU, with traces only
                encode_spans,
            )

            for first in range(0, len(spans), SPANS_AT_ONCE):
                some = spans[first : first + SPANS_AT_ONCE]
                self._post(encode_spans([self._readable(span) for span in some]).SerializeToString())
                taken.append(len(some))
        except Exception as error:  # a turn never fails because of its trace
            code = error.reason if isinstance(error, DependencyError) else type(error).__name__
            logger.exception("spans not sent", extra={"code": code})

    def _post(self, body: bytes) -> None:
        """Send one request. Raises DependencyError, and the errors of urllib3 and the signature."""
        packed = gzip.compress(body, compresslevel=1)
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        answer = self._pool.request(
            "POST",
            self._url,
            body=packed,
            headers=dict(self._sign(self._url, packed, headers)),
            timeout=self._timeout_s,
            retries=False,
            redirect=False,
        )
        if answer.status not in SENT:
            raise DependencyError(f"spans were answered with {answer.status}")

    @cached_property
    def _pool(self) -> Any:
        return make_pool(self._url)

    def _readable(self, span: EndedSpan) -> ReadableSpan:
        """Return a span as an ended span of the SDK."""
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace import ReadableSpan  # noqa: PLC0415 - as above
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415 - as above
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags  # noqa: PLC0415 - as above

        flags = TraceFlags(TraceFlags.SAMPLED)
        failed = {"error.type": span.failed} if span.failed else {}
        return ReadableSpan(
            name=_sayable(span.name),
            context=SpanContext(span.trace, span.id, is_remote=False, trace_flags=flags),
            parent=SpanContext(span.trace, span.parent, is_remote=True, trace_flags=flags)
            if span.parent
            else None,
            resource=Resource(self._resource),
            attributes={name: _plain(value) for name, value in {**span.attributes, **failed}.items()},
            kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
            instrumentation_scope=InstrumentationScope("stepline"),
            status=Status(StatusCode.ERROR) if span.failed else Status(),
            start_time=_nanos(span.began),
            end_time=_nanos(span.ended),
        )


def _sayable(text: str) -> str:
    """Return a text without halves of surrogate pairs, which protobuf refuses."""
    return text.encode("utf-8", "replace").decode()


def _plain(value: Attribute) -> Attribute:
    match value:
        case str():
            return _sayable(value)
        case tuple():
            return tuple(map(_sayable, value))
        case _:
            return value


def _nanos(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1) * 1000
