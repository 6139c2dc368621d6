"""The request of each model family: thinking, effort, tokens, the cache, and Bedrock's versions and ids."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest

from stepline.adapters.anthropic.call import OLDER_BEDROCK, ROOM_TOKENS, plan_call
from stepline.adapters.anthropic.family import MODEL_FAMILIES, family_of, find_refusals
from stepline.adapters.anthropic.provider import AnthropicProvider, BedrockProvider
from stepline.adapters.provider.wire import Retry, fall_back, plan_roles
from stepline.errors import ModelRefused
from stepline.local.scripted import event_stream as wire
from stepline.ports.model import ModelRequest, Part, RoleChoice
from tests.support.asked_provider import ask_bedrock

GATE = ModelRequest(role="gate.simple", system=(), content=(Part(text="hi", cache=True),), max_tokens=400)
DECISION = ModelRequest(role="solver", system=(), content=(Part(text="hi"),), max_tokens=20_000)
DEFAULTS = (AnthropicProvider.default_model, BedrockProvider.default_model)
PROFILE = "arn:aws:bedrock:eu-central-1:111122223333:application-inference-profile/x1"
OTHER = "arn:aws:bedrock:eu-central-1:111122223333:application-inference-profile/x2"
LOW, MEDIUM, HIGH = (ROOM_TOKENS[effort] for effort in ("low", "medium", "high"))


def asked(request: ModelRequest, model: str, **chosen: Any) -> tuple[Any, Any, int]:
    """Return a call's fields for thinking and effort, and its `max_tokens`."""
    call = plan_call(request, RoleChoice(model=model, **chosen))
    thinking = call.get("thinking", {})
    kind = thinking.get("budget_tokens", thinking.get("type"))
    return kind, call.get("output_config", {}).get("effort"), call["max_tokens"]


@pytest.mark.parametrize(
    ("model", "small", "large"),
    [
        ("claude-sonnet-5-5", ("between_tools", None, 400), ("between_tools", None, 20_000)),
        ("claude-sonnet-5", ("disabled", None, 400), ("disabled", None, 20_000)),
        ("claude-opus-5", ("disabled", None, 400), ("disabled", None, 20_000)),
        ("claude-haiku-5-5", ("disabled", None, 400), ("disabled", None, 20_000)),
        ("claude-opus-5-5", (None, "low", 400 + LOW), (None, None, 20_000 + MEDIUM)),
        ("claude-fable-5-1", (None, "low", 400 + LOW), (None, None, 20_000 + HIGH)),
        ("claude-mythos-5-2", (None, "low", 400 + LOW), (None, None, 20_000 + HIGH)),
        ("claude-opus-4-8", (None, None, 400), (None, None, 20_000)),
        ("claude-sonnet-4-6", (None, None, 400), (None, None, 20_000)),
        ("claude-haiku-4-5-20251001", (None, None, 400), (None, None, 20_000)),
        ("llama-4", (None, None, 400), (None, None, 20_000)),
        ("eu.anthropic.claude-opus-5-5", (None, "low", 400 + LOW), (None, None, 20_000 + MEDIUM)),
    ],
)
def test_a_model_thinks_only_if_thinking_cannot_be_disabled_and_has_tokens_for_it(
    model: str, small: tuple[Any, Any, int], large: tuple[Any, Any, int]
) -> None:
    assert asked(GATE, model) == small
    assert asked(DECISION, model) == large


@pytest.mark.parametrize(
    ("model", "chosen", "expected"),
    [
        ("claude-sonnet-5-5", {"thinking": "adaptive"}, ("adaptive", None, 400 + HIGH)),
        ("claude-sonnet-5-5", {"thinking": "adaptive", "effort": "low"}, ("adaptive", "low", 400 + LOW)),
        ("claude-sonnet-5-5", {"effort": "medium"}, ("between_tools", "medium", 400)),
        # Disabled thinking is refused with such an effort, which was chosen to think.
        ("claude-opus-5", {"effort": "xhigh"}, (None, "xhigh", 400 + ROOM_TOKENS["xhigh"])),
        ("claude-opus-5-5", {"effort": "high"}, (None, "high", 400 + HIGH)),
        ("claude-opus-5-5", {"max_tokens": 1000}, (None, "low", 1000)),
        ("claude-haiku-4-5", {"thinking": 2048}, (2048, None, 2448)),
        ("claude-opus-4-7", {"thinking": "adaptive", "effort": "max"}, ("adaptive", "max", 400 + 32_768)),
        ("claude-opus-5", {"thinking": "disabled"}, ("disabled", None, 400)),
        ("our-own", {"thinking": "adaptive"}, ("adaptive", None, 400 + HIGH)),
    ],
)
def test_the_choice_of_a_role_overrides_the_default_of_its_family(
    model: str, chosen: dict[str, Any], expected: tuple[Any, Any, int]
) -> None:
    assert asked(GATE, model, **chosen) == expected


def test_no_call_requests_more_tokens_than_its_model_supports() -> None:
    long = ModelRequest(role="x", system=(), content=(Part(text="hi"),), max_tokens=120_000)
    assert asked(long, "claude-opus-5-5")[2] == 128_000
    assert asked(long, "claude-opus-4-1")[2] == 32_000
    assert asked(long, "our-own")[2] == 120_000


@pytest.mark.parametrize("prefix", MODEL_FAMILIES)
def test_no_family_refuses_its_default_fields(prefix: str) -> None:
    family = family_of(prefix)
    assert family is MODEL_FAMILIES[prefix], "an earlier row hides it"
    for request in (GATE, DECISION):
        kind, effort, tokens = asked(request, prefix)
        assert find_refusals(RoleChoice(model=prefix, thinking=kind, effort=effort, max_tokens=tokens)) == []
        assert tokens == request.max_tokens or (family.thinks and family.off is None)


def test_the_default_models_are_in_the_table() -> None:
    assert {family_of(model).thinks for model in DEFAULTS} == {True}


def test_a_role_without_a_model_uses_the_model_of_all_other_roles() -> None:
    chosen = {
        "*": RoleChoice(model="claude-opus-5-5", effort="high"),
        "gate.simple": RoleChoice(effort="low"),
    }
    roles = plan_roles(AnthropicProvider.default_model, chosen)
    assert roles["gate.simple"] == RoleChoice(model="claude-opus-5-5", effort="low")


def test_a_role_without_a_model_has_the_family_of_the_model_of_all_other_roles() -> None:
    chosen = {"*": RoleChoice(model=PROFILE, family="claude-haiku-4-5"), "gate.simple": RoleChoice()}
    roles = plan_roles(AnthropicProvider.default_model, chosen)
    assert (roles["gate.simple"].model, roles["gate.simple"].named) == (PROFILE, "claude-haiku-4-5")


def test_a_fallback_has_a_family_of_its_own() -> None:
    role = RoleChoice(
        model=PROFILE, family="claude-opus-5-5", fallback=OTHER, fallback_family="claude-haiku-4-5"
    )
    assert (fall_back(role).model, fall_back(role).named) == (OTHER, "claude-haiku-4-5")
    assert fall_back(RoleChoice(model=PROFILE, family="claude-opus-5-5")).named == "claude-opus-5-5"


def test_a_refusal_names_the_family_of_a_profile() -> None:
    role = RoleChoice(model=PROFILE, family="claude-opus-5-5", thinking=2048)
    assert find_refusals(role) == ["claude-opus-5-5 takes no budget for thinking"]


def test_a_cache_of_an_hour_is_requested_if_a_role_chose_it() -> None:
    marked = plan_call(GATE, RoleChoice(model="m", cache_ttl="1h"))["messages"][0]["content"][0]
    assert marked["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    marked = plan_call(GATE, RoleChoice(model="m"))["messages"][0]["content"][0]
    assert marked["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("older", "model", "thinking", "sent"),
    [
        (True, "global.anthropic.claude-opus-4-6-v1", None, 0.3),
        (True, "us.anthropic.claude-haiku-4-5-20251001-v1:0", None, 0.3),
        (True, "us.anthropic.claude-haiku-4-5-20251001-v1:0", 2048, None),
        (True, "global.anthropic.claude-opus-4-7", None, None),
        (True, "global.anthropic.claude-sonnet-5-5", None, None),
        (True, PROFILE, None, None),
        (False, "claude-haiku-4-5", None, None),
        (False, "our-own", None, None),
    ],
)
def test_a_temperature_is_sent_only_to_models_that_accept_one(
    older: bool, model: str, thinking: int | None, sent: float | None
) -> None:
    warm = ModelRequest(role="x", system=(), content=(Part(text="hi"),), max_tokens=9, temperature=0.3)
    call = plan_call(warm, RoleChoice(model=model, thinking=thinking), older=older)
    assert "temperature" not in call
    assert call.get("extra_body", {}).get("temperature") == sent


ANSWER: list[wire.Event] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_bdrk_01",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5-20251001",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 9,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
                "output_tokens": 1,
            },
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 6},
    },
    {
        "type": "message_stop",
        "amazon-bedrock-invocationMetrics": {
            "inputTokenCount": 9,
            "outputTokenCount": 6,
            "invocationLatency": 763,
            "firstByteLatency": 502,
        },
    },
]
"""A stream from Bedrock, with the metrics that only Bedrock adds."""


class Recorded(ThreadingHTTPServer):
    """Answers every request with the same recorded bytes, and keeps the requests."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Recorder)
        self.answer = (status, headers, body)
        self.paths: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []


class _Recorder(BaseHTTPRequestHandler):
    server: Recorded

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Log nothing."""

    def do_POST(self) -> None:
        self.server.paths.append(self.path)
        self.server.heads.append({name.lower(): value for name, value in self.headers.items()})
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        status, headers, body = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


FRAMES = b"".join(map(wire.encode_frame, ANSWER))
STREAM = (200, {"content-type": "application/vnd.amazon.eventstream"}, FRAMES)
REFUSED = (
    400,
    {"content-type": "application/json", "x-amzn-errortype": "ValidationException:http://internal/"},
    json.dumps({"message": '"thinking.type.disabled" is not supported for this model.'}).encode(),
)


@pytest.fixture
def bedrock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    server = Recorded(*getattr(request, "param", STREAM))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def say(server: Recorded, model: str, region: str, *, family: str = "") -> str:
    url = f"http://127.0.0.1:{server.server_address[1]}"
    role = RoleChoice(model=model, family=family)
    client = ask_bedrock(url, {"*": role}, region=region, retry=Retry(tries=1))
    with client.stream(GATE) as stream:
        text = "".join(stream)
    client.close()
    usage = stream.completion().usage
    assert (usage.input_tokens, usage.output_tokens, usage.estimated) == (9, 6, False)
    return text


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("", "2026-10-21"),
        ("us.anthropic.claude-opus-5-5", "2026-10-21"),
        ("anthropic.claude-haiku-5-5", "2026-10-21"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", OLDER_BEDROCK),
        ("global.anthropic.claude-opus-4-6-v1", OLDER_BEDROCK),
    ],
)
@pytest.mark.parametrize("region", ["eu-central-1", "us-east-1"])
def test_bedrock_is_called_with_id_region_and_version(
    bedrock: Recorded, model: str, version: str, region: str
) -> None:
    assert say(bedrock, model, region) == "Hello."
    (path,), (head,), (body,) = bedrock.paths, bedrock.heads, bedrock.bodies
    named = model or "global.anthropic.claude-sonnet-5-5"
    assert unquote(path) == f"/model/{named}/invoke-with-response-stream"
    assert f"/{region}/bedrock/aws4_request" in head["authorization"]
    assert body["anthropic_version"] == version
    assert not {"model", "stream", "temperature", "anthropic_beta"} & body.keys()


@pytest.mark.parametrize(("family", "version"), [("", "2026-10-21"), ("claude-haiku-4-5", OLDER_BEDROCK)])
def test_bedrock_is_called_with_the_arn_of_a_profile_in_the_version_of_its_family(
    bedrock: Recorded, family: str, version: str
) -> None:
    assert say(bedrock, PROFILE, "eu-central-1", family=family) == "Hello."
    (path,), (body,) = bedrock.paths, bedrock.bodies
    assert unquote(path) == f"/model/{PROFILE}/invoke-with-response-stream"
    assert path.count("/") == 3
    assert body["anthropic_version"] == version


@pytest.mark.parametrize("bedrock", [REFUSED], indirect=True)
def test_a_request_that_a_bedrock_model_does_not_support_is_refused_permanently(bedrock: Recorded) -> None:
    with pytest.raises(ModelRefused) as caught:
        say(bedrock, "us.anthropic.claude-sonnet-5-5", "eu-central-1")
    assert caught.value.reason == "model_refused"
    assert len(bedrock.bodies) == 1
