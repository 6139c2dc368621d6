"""A deployment's choice of traces: none, to X-Ray with the role, or to a server with headers."""

import pytest

from stepline.adapters.aws.client import session
from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.tracing.trace_credential import signed
from stepline.bootstrap.choice import traces_of
from stepline.metering.span import begin_visit
from stepline.metrics import SPANS_LOST
from stepline.model.ids import Lane
from stepline.settings import Settings
from tests.support.collector import collector

LANE = Lane(tenant="acme", project="support", conversation="c-1")


def chosen(**variables):
    return traces_of(Settings.from_env(variables), MemoryClock(), MemoryMeter())


@pytest.fixture
def region(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    session.cache_clear()
    yield "eu-central-1"
    session.cache_clear()


def test_there_are_no_traces_without_the_switch():
    assert chosen() is None
    assert chosen(OTEL_EXPORTER_OTLP_ENDPOINT="https://otlp.example") is None


def test_spans_go_to_x_ray_with_the_role_unless_a_server_is_named(region):
    traces = chosen(STEPLINE_TRACING="on")
    assert (traces._url, traces._sign) == (f"https://xray.{region}.amazonaws.com/v1/traces", signed)
    assert not traces.texts


def test_a_server_gets_spans_with_its_headers_the_stage_and_the_provider():
    with collector() as heard:
        traces = chosen(
            STEPLINE_TRACING="text",
            OTEL_EXPORTER_OTLP_ENDPOINT=heard.url + "/",
            OTEL_EXPORTER_OTLP_HEADERS="api-key=abc",
            OTEL_EXPORTER_OTLP_TIMEOUT="20000",
            STEPLINE_STAGE="prod",
            STEPLINE_MODEL_PROVIDER="bedrock",
        )
        assert traces.texts
        assert traces.provider == "aws.bedrock"
        begin_visit(traces, MemoryClock(), LANE, "turn_1", name="decide", attributes={}).end()
        ((path, headers, _),) = heard.requests
        (span,) = heard.spans
    assert (path, headers["api-key"]) == ("/v1/traces", "abc")
    assert span.resource == {"service.name": "stepline", "deployment.environment.name": "prod"}


def test_a_secret_that_cannot_be_read_loses_spans_and_fails_nothing(monkeypatch, region):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    meter = MemoryMeter()
    settings = Settings.from_env(
        {
            "STEPLINE_TRACING": "on",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "20000",
            "STEPLINE_OTLP_SECRET_ARN": "arn:aws:secretsmanager:eu-central-1:111122223333:secret:x-AbCdEf",
        }
    )
    traces = traces_of(settings, MemoryClock(), meter)
    begin_visit(traces, MemoryClock(), LANE, "turn_1", name="decide", attributes={}).end()
    assert meter.counts[SPANS_LOST] == 1
