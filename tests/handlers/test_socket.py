import json

import pytest

from lambdas import socket
from stepline.adapters.memory.log import MemoryLog
from stepline.errors import SteplineError
from stepline.model.wire.event import AckFrame, ErrorFrame, decode_frame
from stepline.ports.channel import Principal

from .conftest import LambdaRuntime, recorded

OK = {"statusCode": 200}


def connected(runtime: LambdaRuntime) -> list[bytes]:
    inbox: list[bytes] = runtime.app.ports.publisher.open("k1")  # type: ignore[attr-defined]  # the memory twin's own
    assert runtime.call(socket.handler, recorded("connect")) == OK
    return inbox


def test_a_connection_is_stored_with_the_principal_of_the_authorizer(runtime: LambdaRuntime) -> None:
    connected(runtime)
    found = runtime.app.ports.subscriptions.principal("k1")
    assert found == Principal(tenant="acme", project="support", user="ada", expires_at=4_000_000_000)


def test_a_connection_without_an_authorizer_is_not_opened(runtime: LambdaRuntime) -> None:
    event = recorded("connect")
    del event["requestContext"]["authorizer"]
    with pytest.raises(KeyError):
        runtime.call(socket.handler, event)
    assert runtime.app.ports.subscriptions.principal("k1") is None
    assert runtime.metrics() == {"EdgeErrors": 1}


def test_a_message_opens_a_turn_and_is_acknowledged(runtime: LambdaRuntime) -> None:
    inbox = connected(runtime)
    assert runtime.call(socket.handler, recorded("message")) == OK
    ack = decode_frame(inbox[-1])
    assert isinstance(ack, AckFrame)
    assert (ack.message_id, ack.n, ack.kind) == ("m1", 1, "prompt")
    assert len(runtime.app.ports.machine.queue) == 1  # type: ignore[attr-defined]  # the memory twin's own


def test_a_non_reactive_event_is_acknowledged_and_starts_no_turn(runtime: LambdaRuntime) -> None:
    inbox = connected(runtime)
    body = {
        "action": "event",
        "conversation": "c-1",
        "message_id": "e1",
        "kind": "alert",
        "payload": {"a": 1},
    }
    assert runtime.call(socket.handler, {**recorded("message"), "body": json.dumps(body)}) == OK
    ack = decode_frame(inbox[-1])
    assert isinstance(ack, AckFrame)
    assert (ack.message_id, ack.n, ack.kind, ack.turn_id) == ("e1", 1, "alert", "")
    assert runtime.app.ports.machine.queue == []  # type: ignore[attr-defined]  # the memory twin's own


@pytest.mark.parametrize("body", [None, "", "{", '{"action": "shout"}', "[" * 20_000])
def test_an_invalid_message_gets_one_error_and_is_not_a_failure(
    runtime: LambdaRuntime, body: str | None
) -> None:
    inbox = connected(runtime)
    assert runtime.call(socket.handler, {**recorded("message"), "body": body}) == OK
    (error,) = [decode_frame(frame) for frame in inbox]
    assert isinstance(error, ErrorFrame)
    assert {"code": error.code}.items() <= runtime.lines[-2].items()
    assert "EdgeErrors" not in runtime.metrics()


class Bug(MemoryLog):
    """Fails on every read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def tail(self, *args: object, **fields: object) -> None:
        raise self._error


@pytest.mark.parametrize("error", [ZeroDivisionError("secret detail"), SteplineError("AWS answered secret")])
def test_a_bug_is_reported_without_its_text_counted_and_logged_with_a_traceback(
    runtime: LambdaRuntime, error: Exception
) -> None:
    runtime.wire(Bug(error))
    inbox = connected(runtime)
    assert runtime.call(socket.handler, recorded("message")) == OK
    error_frame = decode_frame(inbox[-1])
    assert isinstance(error_frame, ErrorFrame)
    assert (error_frame.code, error_frame.message_id) == ("internal", "m1")
    assert b"secret" not in inbox[-1]
    assert runtime.metrics()["EdgeErrors"] == 1
    (line,) = [line for line in runtime.lines if line["level"] == "ERROR"]
    assert (line["message"], line["exception_name"]) == ("message failed", type(error).__name__)


def test_a_closed_connection_is_forgotten_and_may_close_twice(runtime: LambdaRuntime) -> None:
    connected(runtime)
    for _ in range(2):
        assert runtime.call(socket.handler, recorded("disconnect")) == OK
    assert runtime.app.ports.subscriptions.principal("k1") is None


def test_no_log_line_contains_the_text_of_a_user(runtime: LambdaRuntime) -> None:
    connected(runtime)
    runtime.call(socket.handler, recorded("message"))
    runtime.call(socket.handler, {**recorded("message"), "body": json.dumps({"action": "my secret"})})
    assert "secret" not in runtime.text
    assert {line["function_request_id"] for line in runtime.lines} != {None}
