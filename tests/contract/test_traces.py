"""Traces: the memory twin, and OpenTelemetry's protocol to a collector that decodes it."""

import hashlib
import threading
from datetime import UTC, datetime, timedelta

import pytest

from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.memory.tracing.traces import MemoryTraces
from stepline.adapters.system import SystemClock
from stepline.adapters.tracing.trace_credential import WithHeaders, signed, traces_url, xray_url
from stepline.adapters.tracing.traces import REST_S, SPANS_AT_ONCE, OtlpTraces
from stepline.errors import DependencyError, InputError
from stepline.metering.span import begin_visit
from stepline.metrics import SPANS_LOST
from stepline.model.ids import Lane, root_span_id, trace_id
from stepline.ports.tracing.traces import EndedSpan
from tests.support.collector import Collector, Seen, collector

LANE = Lane(tenant="acme", project="support", conversation="c-1")
TURN = "turn_20261126T071200_abcdef"
AT = datetime(2026, 11, 26, 7, 12, tzinfo=UTC)
SPAN = EndedSpan(
    trace=trace_id(LANE, TURN),
    id=7,
    parent=root_span_id(LANE, TURN),
    name="chat claude",
    kind="client",
    attributes={"gen_ai.operation.name": "chat", "n": 3, "s": 0.5, "yes": True, "reasons": ("end", "cut")},
    began=AT,
    ended=AT + timedelta(seconds=1.5),
    failed="model_timeout",
)


@pytest.fixture
def heard():
    with collector() as made:
        yield made


def otlp(heard: Collector, **fields) -> OtlpTraces:
    given = {
        "sign": WithHeaders(str),
        "timeout_s": 20.0,
        "resource": {"service.name": "stepline"},
        "provider": "anthropic",
        "clock": MemoryClock(),
        "meter": MemoryMeter(),
    }
    return OtlpTraces(traces_url(heard.url), **{**given, **fields})


def seen(span: EndedSpan) -> Seen:
    """What a collector sees of a span."""
    listed = {name: list(v) if isinstance(v, tuple) else v for name, v in span.attributes.items()}
    return Seen(
        trace=f"{span.trace:032x}",
        id=f"{span.id:016x}",
        parent=f"{span.parent:016x}" if span.parent else "",
        name=span.name,
        attributes={**listed, **({"error.type": span.failed} if span.failed else {})},
        resource={"service.name": "stepline"},
        began_s=span.began.timestamp(),
        ended_s=span.ended.timestamp(),
        failed=bool(span.failed),
        kind={"internal": 1, "client": 3}[span.kind],
    )


def test_a_collector_receives_each_span_unchanged(heard):
    root = EndedSpan(
        **{**{f: getattr(SPAN, f) for f in SPAN.__struct_fields__}, "parent": 0, "failed": "", "id": 9}
    )
    otlp(heard).send([SPAN, root])
    assert heard.spans == [seen(SPAN), seen(root)]
    ((path, headers, _),) = heard.requests
    assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")


def test_the_memory_twin_keeps_sent_spans():
    traces = MemoryTraces()
    traces.send([SPAN])
    assert traces.spans == [SPAN]


@pytest.mark.parametrize("kind", ["memory", "otlp"])
def test_a_visit_is_sent_at_its_end_with_all_that_ended_below_it(kind, heard):
    traces = MemoryTraces() if kind == "memory" else otlp(heard)
    clock = MemoryClock()
    visit = begin_visit(traces, clock, LANE, TURN, name="decide", attributes={"stepline.round": 1})
    chat = visit.begin("chat", kind="client")
    clock.pause(2)
    chat.set({"gen_ai.usage.output_tokens": 5}, name="chat claude")
    chat.end()
    chat.end()
    visit.record_turn("invoke_agent default", {}, began=clock.now(), ended=clock.now(), failed="step_failed")
    sent = traces.spans if kind == "memory" else heard.spans
    assert sent == []
    visit.end()
    if kind == "memory":
        sent = [seen(span) for span in sent]
    by_name = {span.name: span for span in sent}
    assert list(by_name) == ["chat claude", "invoke_agent default", "decide"]
    assert {span.trace for span in sent} == {f"{trace_id(LANE, TURN):032x}"}
    assert by_name["chat claude"].parent == by_name["decide"].id
    assert (
        by_name["decide"].parent == by_name["invoke_agent default"].id == f"{root_span_id(LANE, TURN):016x}"
    )
    assert by_name["invoke_agent default"].parent == ""
    assert by_name["invoke_agent default"].failed
    assert by_name["chat claude"].ended_s - by_name["chat claude"].began_s == 2
    assert by_name["chat claude"].attributes == {"gen_ai.usage.output_tokens": 5}


def test_without_traces_a_span_is_nothing():
    visit = begin_visit(None, MemoryClock(), LANE, TURN, name="decide", attributes={})
    below = visit.begin("chat")
    assert below is visit
    below.set({"a": 1})
    below.fail("x")
    below.end()
    assert (below.traced, below.texts, below.seconds()) == (False, False, 0.0)


def test_a_turn_has_one_trace_whose_id_begins_with_its_second():
    made = trace_id(LANE, TURN)
    assert made == trace_id(LANE, TURN)
    assert made >> 96 == AT.timestamp()
    assert made != trace_id(Lane(tenant="b", project="support", conversation="c-1"), TURN)
    assert 0 < trace_id(LANE, "turn_own") < 1 << 128
    assert 0 < root_span_id(LANE, TURN) < 1 << 64


def test_many_spans_go_in_several_requests(heard):
    spans = [
        EndedSpan(**{f: getattr(SPAN, f) for f in SPAN.__struct_fields__} | {"id": n + 1}) for n in range(60)
    ]
    otlp(heard).send(spans)
    assert [int(span.id, 16) for span in heard.spans] == list(range(1, 61))
    assert len(heard.requests) == -(-60 // SPANS_AT_ONCE)


def test_half_of_a_surrogate_pair_does_not_lose_the_span(heard):
    broken = EndedSpan(
        **{f: getattr(SPAN, f) for f in SPAN.__struct_fields__}
        | {"name": "a\ud800", "attributes": {"t": "b\udc00", "l": ("c\ud800",)}}
    )
    otlp(heard).send([broken])
    assert [span.name for span in heard.spans] == ["a?"]


def test_a_refusing_collector_is_paused_and_lost_spans_are_counted(heard):
    clock, meter = MemoryClock(), MemoryMeter()
    traces = otlp(heard, clock=clock, meter=meter)
    heard.status = 503
    traces.send([SPAN])
    traces.send([SPAN, SPAN])
    assert (len(heard.requests), meter.counts[SPANS_LOST]) == (1, 3)
    heard.status = 200
    clock.pause(REST_S)
    traces.send([SPAN])
    assert (len(heard.requests), meter.counts[SPANS_LOST]) == (2, 3)


def test_a_server_that_does_not_answer_delays_a_step_by_the_bound_and_fails_nothing(heard):
    meter = MemoryMeter()
    traces = otlp(heard, meter=meter, clock=SystemClock(), timeout_s=0.05)
    heard.silent.set()
    traces.send([SPAN])
    traces.send([SPAN])
    assert meter.counts[SPANS_LOST] == 2


def test_a_hang_before_a_request_delays_a_step_by_at_most_the_limit(heard):
    meter, free = MemoryMeter(), threading.Event()

    def sign(url, body, headers):
        free.wait(60)
        return headers

    otlp(heard, sign=sign, meter=meter, timeout_s=0.05).send([SPAN])
    assert (heard.requests, meter.counts[SPANS_LOST]) == ([], 1)
    free.set()


def test_a_closed_collector_address_fails_no_step(heard):
    meter = MemoryMeter()
    heard.port = 1
    otlp(heard, meter=meter).send([SPAN])
    assert meter.counts[SPANS_LOST] == 1


def test_headers_are_read_once_and_sent(heard):
    reads = []

    def read():
        reads.append(1)
        return "api-key=a%2Cb, x-team = one "

    traces = otlp(heard, sign=WithHeaders(read))
    traces.send([SPAN])
    traces.send([SPAN])
    assert [(h["api-key"], h["x-team"]) for _, h, _ in heard.requests] == [("a,b", "one")] * 2
    assert reads == [1]


def test_headers_that_are_none_lose_the_spans_and_fail_nothing(heard):
    meter = MemoryMeter()
    sign = WithHeaders(lambda: "secret")
    otlp(heard, sign=sign, meter=meter).send([SPAN])
    assert (heard.requests, meter.counts[SPANS_LOST]) == ([], 1)
    with pytest.raises(InputError) as refused:
        sign("", b"", {})
    assert "secret" not in str(refused.value)


@pytest.fixture
def role(monkeypatch):
    from stepline.adapters.aws.client import session

    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "example",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    session.cache_clear()
    yield
    session.cache_clear()


def test_requests_to_x_ray_are_signed_by_the_role_over_the_very_bytes_that_are_sent(heard, role):
    otlp(heard, sign=signed).send([SPAN])
    ((_, headers, body),) = heard.requests
    credential = headers["authorization"].partition("Credential=")[2].partition(",")[0]
    assert credential.startswith("AKIDEXAMPLE/")
    assert credential.endswith("/eu-central-1/xray/aws4_request")
    assert headers["x-amz-date"]
    again = dict(signed(heard.url + "/v1/traces", body, {}))
    assert hashlib.sha256(body).hexdigest() != hashlib.sha256(b"").hexdigest()
    assert again["Authorization"].startswith("AWS4-HMAC-SHA256 ")


def test_the_address_of_x_ray_is_the_regions_own():
    assert xray_url("eu-central-1") == "https://xray.eu-central-1.amazonaws.com/v1/traces"
    assert xray_url("cn-north-1") == "https://xray.cn-north-1.amazonaws.com.cn/v1/traces"


def test_without_credentials_nothing_is_signed(monkeypatch):
    from stepline.adapters.tracing import trace_credential

    class Empty:
        def get_credentials(self):
            return None

    monkeypatch.setattr(trace_credential, "session", Empty)
    with pytest.raises(DependencyError):
        signed("https://xray.eu-central-1.amazonaws.com/v1/traces", b"", {})
