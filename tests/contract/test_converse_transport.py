"""Converse on the wire: requests that botocore's model of the service accepts, and each answer and refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import botocore.session
import pytest
from botocore.validate import validate_parameters

from stepline.adapters.converse.call import plan_converse
from stepline.adapters.converse.converse_fold import ConverseFold
from stepline.errors import ModelStreamBroken, SteplineError
from stepline.local.scripted import event_stream as wire
from stepline.model.decision import Declined
from stepline.model.usage import Usage
from stepline.ports.model import ModelRequest, Part, RoleChoice
from tests.contract.reply_server import Reply, Scripted
from tests.support.asked_provider import ask_converse
from tests.support.files import FILES

REQUEST: Final = ModelRequest(
    role="solver.react.decision",
    system=(Part(text="Be brief.", cache=True), Part(text=" ")),
    content=(Part(text="one"), Part(text="zwei 😀", cache=True), *FILES, Part(text="three")),
    max_tokens=4000,
    temperature=0.5,
)
OPERATION: Any = (
    botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("ConverseStream")
)
NOVA: Final = "eu.amazon.nova-2-lite-v1:0"


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    return None


@pytest.mark.parametrize("model", [NOVA, "anthropic.claude-haiku-4-5", "meta.llama4-scout-17b-instruct-v1:0"])
def test_the_request_is_one_that_botocores_model_accepts(model: str) -> None:
    call = plan_converse(REQUEST, RoleChoice(model=model, thinking=2000, cache_ttl="1h"))
    validate_parameters(call, OPERATION.input_shape)
    assert call["inferenceConfig"] == {"maxTokens": 6000, "temperature": 0.5}
    marks = [block["cachePoint"] for block in call["messages"][0]["content"] if "cachePoint" in block]
    hourly = {"type": "default", "ttl": "1h"}
    assert marks == {"e": [{"type": "default"}], "a": [hourly], "m": []}[model[0]]


def test_a_model_that_reads_no_documents_gets_notices_in_their_place() -> None:
    call = plan_converse(REQUEST, RoleChoice(model=NOVA), takes=("pictures",))
    content = call["messages"][0]["content"]
    assert not any("document" in block for block in content)
    assert any("image" in block for block in content)
    assert any("reads no documents" in block.get("text", "") for block in content)


def frame(kind: str, fields: dict[str, Any]) -> bytes:
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return wire.pack_frame(headers, fields)


def failed(kind: str) -> bytes:
    return wire.pack_frame({":exception-type": kind, ":message-type": "exception"}, {"message": "words"})


def text(said: str) -> bytes:
    return frame("contentBlockDelta", {"delta": {"text": said}, "contentBlockIndex": 0})


def stop(reason: str) -> bytes:
    return frame("messageStop", {"stopReason": reason})


HELLO: Final = frame("messageStart", {"role": "assistant"}) + text("Hel") + text("lo")
COUNTED: Final = frame(
    "metadata",
    {
        "usage": {
            "inputTokens": 9,
            "outputTokens": 7,
            "totalTokens": 39,
            "cacheReadInputTokens": 20,
            "cacheWriteInputTokens": 3,
        }
    },
)
USED: Final = Usage(input_tokens=9, cache_read_tokens=20, cache_write_5m_tokens=3, output_tokens=7)


def ask(body: bytes, status: int = 200, **headers: str) -> tuple[str, Any]:
    reply = Reply(
        body=body, status=status, headers=tuple((k.replace("_", "-"), v) for k, v in headers.items())
    )
    with Scripted(reply) as running:
        client = ask_converse(running.url, {"*": RoleChoice(model=NOVA)})
        with client.stream(REQUEST) as stream:
            said = "".join(stream)
        client.close()
    return said, stream.completion()


ENDS: Final = {
    "the end": (stop("end_turn") + COUNTED, "end_turn", None),
    "a limit": (stop("max_tokens") + COUNTED, "max_tokens", None),
    "a tool that was not asked for": (
        frame("contentBlockDelta", {"delta": {"toolUse": {"input": "{"}}, "contentBlockIndex": 1})
        + stop("tool_use")
        + COUNTED,
        "end_turn",
        None,
    ),
    "reasoning": (
        frame("contentBlockDelta", {"delta": {"reasoningContent": {"text": "I"}}, "contentBlockIndex": 0})
        + stop("end_turn")
        + COUNTED,
        "end_turn",
        None,
    ),
    "a guardrail": (stop("guardrail_intervened") + COUNTED, "refusal", "guardrail_intervened"),
    "a filter": (stop("content_filtered") + COUNTED, "refusal", "content_filtered"),
    "a full window": (stop("model_context_window_exceeded") + COUNTED, "model_context_window_exceeded", None),
}


@pytest.mark.parametrize(("end", "reason", "category"), ENDS.values(), ids=ENDS)
def test_an_end_has_one_meaning(end: bytes, reason: str, category: str | None) -> None:
    said, done = ask(HELLO + end)
    declined = Declined(category=category) if category else None
    assert (said, done.stop_reason, done.declined, done.usage) == ("Hello", reason, declined, USED)


def test_tokens_that_do_not_arrive_are_estimated() -> None:
    said, done = ask(HELLO + stop("end_turn"))
    assert (said, done.stop_reason, done.usage.estimated) == ("Hello", "end_turn", True)
    assert done.usage.prompt_tokens > 0


def test_tokens_written_for_an_hour_are_counted_as_such() -> None:
    fold = ConverseFold()
    used = {"inputTokens": 1, "outputTokens": 2, "cacheWriteInputTokens": 9}
    fold.take({"metadata": {"usage": {**used, "cacheDetails": [{"ttl": "1h", "inputTokens": 4}]}}})
    assert fold.facts().usage == Usage(
        input_tokens=1, cache_write_5m_tokens=5, cache_write_1h_tokens=4, output_tokens=2
    )
    with pytest.raises(ModelStreamBroken):
        fold.take({"contentBlockDelta": {"delta": {"text": 5}}})


BROKEN: Final = {
    "cut": (HELLO, "stream_cut"),
    "cut within a frame": (HELLO + stop("end_turn")[:20], "stream_cut"),
    "damaged": (HELLO + b"\0\0\0\x20" * 9, "stream_malformed"),
    "throttled": (HELLO + failed("throttlingException"), "model_rate_limited"),
    "overloaded": (HELLO + failed("serviceUnavailableException"), "model_overloaded"),
    "broken": (HELLO + failed("modelStreamErrorException"), "stream_cut"),
}


@pytest.mark.parametrize(("body", "code"), BROKEN.values(), ids=BROKEN)
def test_a_stream_that_breaks_has_a_code(body: bytes, code: str) -> None:
    with pytest.raises(SteplineError) as caught:
        ask(body)
    assert caught.value.reason == code


REFUSALS: Final = {
    "too long": (400, "ValidationException", "Input is too long for requested model.", "context_limit"),
    "a wrong field": (400, "ValidationException", "no such field", "model_refused"),
    "no right": (403, "AccessDeniedException", "not authorized", "model_refused"),
    "no such model": (404, "ResourceNotFoundException", "no such model", "model_refused"),
    "throttled": (429, "ThrottlingException", "slow down", "model_rate_limited"),
    "not ready": (429, "ModelNotReadyException", "not ready", "model_rate_limited"),
    "a timeout": (408, "ModelTimeoutException", "too slow", "model_timeout"),
    "unavailable": (503, "ServiceUnavailableException", "busy", "model_overloaded"),
}


@pytest.mark.parametrize(("status", "kind", "message", "code"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_has_a_code(status: int, kind: str, message: str, code: str) -> None:
    body = f'{{"__type": "{kind}", "message": "{message}"}}'.encode()
    with pytest.raises(SteplineError) as caught:
        ask(body, status, retry_after="30")
    assert caught.value.reason == code
    assert caught.value.context.get("retry_after_s") in (30.0, None)


def test_no_server_is_unreachable() -> None:
    client = ask_converse("http://127.0.0.1:9")
    with client.stream(REQUEST) as stream, pytest.raises(SteplineError) as caught:
        list(stream)
    assert caught.value.reason == "model_unreachable"
