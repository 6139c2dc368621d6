"""The scripted model's answers, under every fault, by the packages of the protocols' makers: so its bytes are not our reading alone.

`openai` and `anthropic` parse them with their own clients, and validate each event strictly; botocore's parser has the service's
model, which each frame fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

import anthropic
import botocore.session
import httpx2
import openai
import pytest
import urllib3
from anthropic.types import RawMessageStreamEvent
from botocore.eventstream import EventStreamBuffer, ParserError
from botocore.model import ListShape, MapShape, Shape, StructureShape
from openai.types.chat import ChatCompletionChunk
from pydantic import TypeAdapter

from stepline.local.scripted.fault import Kind
from stepline.local.scripted.server import ScriptedServer
from tests.support.generation import tagged

ASKED: Final = [{"role": "user", "content": "Hello."}]
FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "refusal": {"text": tagged("thinking", "I"), "explanation": "No."},
    "thinking": {"thinking_tokens": 9, "text": "Hello, all of you."},
    "cut": {"after_chars": 20},
    "error_in_stream": {"after_chars": 20},
    "malformed_stream": {"after_chars": 20},
    "fixture": {"text": "Hello 😀, and more than one piece."},
    "slow_tokens": {"text": "Hello, slowly.", "token_delay_ms": 1},
}
REFUSED: Final[Mapping[str, int]] = {
    "rate_limited": 429,
    "overloaded": 529,
    "invalid_request": 400,
    "context_limit": 400,
    "server_error": 500,
}
"""Faults that are a status, as Messages has it."""
BROKEN: Final = frozenset({"cut", "error_in_stream", "malformed_stream"})
KINDS: Final = get_args(Kind)
ENDING: Final[Mapping[str, tuple[str, str, str]]] = {"refusal": ("refusal", "stop", "content_filtered")}
USUAL: Final = ("end_turn", "stop", "end_turn")
FRAME_STATUSES: Final = {529: 503}
"""The statuses that chat completions and Converse have in place of one of Messages."""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(token_delay_ms=0) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, server: ScriptedServer) -> str:
    """A fault, which the next request meets."""
    server.faults.add({"kind": request.param, **FIELDS.get(request.param, {})})
    found: str = request.param
    return found


def test_anthropics_types_hold_every_answer(server: ScriptedServer, kind: str) -> None:
    types: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
    events: list[Any] = []
    failed: Exception | None = None
    with anthropic.Anthropic(api_key="key", base_url=server.url, max_retries=0) as client:
        try:
            found = client.messages.create(
                model="claude-haiku-5-5", max_tokens=900, messages=ASKED, stream=True
            )
            events.extend(types.validate_python(event.model_dump(), strict=True) for event in found)
        except (anthropic.APIError, httpx2.HTTPError, json.JSONDecodeError) as error:
            failed = error
    if kind in REFUSED:
        assert isinstance(failed, anthropic.APIStatusError)
        assert failed.status_code == REFUSED[kind]
    elif kind in BROKEN:
        assert failed is not None
        assert events
    else:
        assert failed is None
        assert events[-2].delta.stop_reason == ENDING.get(kind, USUAL)[0]


def test_openais_types_hold_every_answer(server: ScriptedServer, kind: str) -> None:
    chunks: list[Any] = []
    failed: Exception | None = None
    with openai.OpenAI(api_key="key", base_url=f"{server.url}/v1", max_retries=0) as client:
        try:
            found = client.chat.completions.create(
                model="scripted", messages=ASKED, stream=True, stream_options={"include_usage": True}
            )
            chunks.extend(ChatCompletionChunk.model_validate(one.model_dump(), strict=True) for one in found)
        except (openai.APIError, httpx2.HTTPError, json.JSONDecodeError) as error:
            failed = error
    if kind in REFUSED:
        assert isinstance(failed, openai.APIStatusError)
        assert failed.status_code == FRAME_STATUSES.get(REFUSED[kind], REFUSED[kind])
        assert isinstance(failed.body, dict)
        assert (failed.code == "context_length_exceeded") == (kind == "context_limit")
    elif kind in BROKEN:
        assert failed is not None
        assert chunks
    else:
        assert failed is None
        assert chunks[-2].choices[0].finish_reason == ENDING.get(kind, USUAL)[1]
        assert chunks[-1].usage.completion_tokens > 0


SERVICE: Final[Any] = botocore.session.get_session().get_service_model("bedrock-runtime")
EVENTS: Final[Shape] = SERVICE.operation_model("ConverseStream").output_shape.members["stream"]
PYTHON: Final = {"string": str, "integer": int, "long": int, "boolean": bool, "float": float, "blob": str}


def check_shape(shape: Shape, value: Any, where: str) -> None:
    """Fail for a field that the service's model has not, that has another type, or that is missing."""
    if isinstance(shape, StructureShape):
        assert isinstance(value, dict), where
        assert value.keys() <= shape.members.keys(), where
        assert value.keys() >= set(shape.required_members), where
        for name, inner in value.items():
            check_shape(shape.members[name], inner, f"{where}.{name}")
        assert not (shape.is_tagged_union and len(value) != 1), where
    elif isinstance(shape, ListShape):
        for inner in value:
            check_shape(shape.member, inner, where)
    elif isinstance(shape, MapShape):
        for inner in value.values():
            check_shape(shape.value, inner, where)
    else:
        assert isinstance(value, PYTHON[shape.type_name]), where
        allowed = getattr(shape, "enum", ())
        assert not allowed or value in allowed, (where, value)


def test_botocores_model_of_the_service_holds_every_frame(server: ScriptedServer, kind: str) -> None:
    body = {"messages": [{"role": "user", "content": [{"text": "Hello."}]}]}
    url = f"{server.url}/model/eu.amazon.nova-2-lite-v1%3A0/converse-stream"
    answer = urllib3.request("POST", url, json=body, preload_content=False)
    if kind in REFUSED:
        assert answer.status == FRAME_STATUSES.get(REFUSED[kind], REFUSED[kind])
        named = answer.json()["__type"]
        assert named in SERVICE.shape_names
        assert SERVICE.shape_for(named).metadata["error"]["httpStatusCode"] == answer.status
        return
    seen: list[str] = []
    ended, failed = "", None
    try:
        for name, payload in read_frames(answer):
            check_shape(EVENTS.members[name], payload, name)
            ended = payload.get("stopReason", ended)
            seen.append(name)
    except (urllib3.exceptions.HTTPError, ParserError) as error:
        failed = error
    assert seen
    if kind in BROKEN:
        assert failed is not None or seen[-1] == "serviceUnavailableException"
    else:
        assert failed is None
        assert ended == ENDING.get(kind, USUAL)[2]
        assert seen[-2:] == ["messageStop", "metadata"]


def read_frames(answer: urllib3.BaseHTTPResponse) -> Iterator[tuple[str, Any]]:
    """Yield the name and the fields of each frame, as botocore reads them."""
    buffer = EventStreamBuffer()
    for data in answer.stream(amt=64):
        buffer.add_data(data)
        for message in buffer:
            fields = message.to_response_dict()
            headers = fields["headers"]
            yield headers.get(":event-type") or headers[":exception-type"], json.loads(fields["body"])
