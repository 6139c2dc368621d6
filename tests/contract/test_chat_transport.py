"""Chat completions on the wire: the request, its answer, and each refusal; checked with the types of OpenAI's own package."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, Final

import openai
import pytest
from msgspec.structs import replace
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from stepline.adapters.chat.call import plan_completion
from stepline.adapters.chat.provider import OPENAI_URL, ChatProvider, completions_url
from stepline.adapters.provider.guarded_pool import GuardedPool
from stepline.adapters.provider.wire import Retry, Timeouts
from stepline.adapters.web.address_guard import AddressGuard
from stepline.errors import ModelRefused, ModelTimeout, ModelUnreachable, SteplineError
from stepline.local.scripted.server import ScriptedServer
from stepline.model.decision import Declined
from stepline.ports.model import ModelRequest, Part, RoleChoice
from tests.contract.reply_server import Reply, Scripted
from tests.support.asked_provider import ask_chat
from tests.support.files import FILES

REQUEST: Final = ModelRequest(
    role="solver.react.decision",
    system=(Part(text="Be brief.", cache=True), Part(text=" "), Part(text="Be kind.")),
    content=(Part(text="one"), Part(text="zwei 😀", cache=True), *FILES, Part(text="three")),
    max_tokens=4000,
    temperature=0.5,
)
ONCE: Final = Retry(tries=1)
ANSWER: Final = b'data: {"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}\n\n'
SSE: Final = (("content-type", "text/event-stream"),)
HELLO: Final = Reply(body=ANSWER, headers=SSE)
PARAMS: Final = TypeAdapter(CompletionCreateParamsStreaming)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(token_delay_ms=0) as running:
        yield running


@pytest.fixture
def own(server: ScriptedServer) -> Iterator[openai.OpenAI]:
    """OpenAI's own client of the scripted model."""
    with openai.OpenAI(api_key="key", base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


def refused(reply: Reply, *, retry: Retry = ONCE, **fields: Any) -> SteplineError:
    with Scripted(reply) as running:
        client = ask_chat(running.url, retry=retry, **fields)
        with client.stream(REQUEST) as stream, pytest.raises(SteplineError) as caught:
            list(stream)
        client.close()
    return caught.value


def test_the_request_is_one_that_openais_types_accept() -> None:
    roles = [RoleChoice(model=model, effort="low") for model in ("gpt-5.5", "gpt-4.1", "o3", "llama3.2:3b")]
    for role in (*roles, RoleChoice(model="gpt-5.5", thinking="disabled")):
        PARAMS.validate_python(plan_completion(REQUEST, role, takes=("pictures", "documents")))


def test_a_model_without_a_family_gets_only_what_every_server_takes() -> None:
    role = RoleChoice(model="llama3.2:3b")
    small = replace(REQUEST, content=(Part(text="one"), Part(text=""), Part(text="two")))
    assert plan_completion(small, role) == {
        "model": "llama3.2:3b",
        "messages": [
            {"role": "system", "content": "Be brief.\nBe kind."},
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 4000,
        "temperature": 0.5,
    }


@pytest.mark.parametrize(
    ("role", "limits"),
    [
        (RoleChoice(model="gpt-5.5"), {"max_completion_tokens": 12_192}),
        (RoleChoice(model="openai/gpt-5.5"), {"max_completion_tokens": 12_192}),
        (
            RoleChoice(model="o3", effort="high"),
            {"max_completion_tokens": 20_384, "reasoning_effort": "high"},
        ),
        (
            RoleChoice(model="gpt-5.1", thinking="disabled"),
            {"max_completion_tokens": 4000, "reasoning_effort": "none"},
        ),
        (RoleChoice(model="gpt-5", thinking="disabled"), {"max_completion_tokens": 12_192}),
        (RoleChoice(model="gpt-5.5", max_tokens=9000), {"max_completion_tokens": 9000}),
        (RoleChoice(model="qwen3", thinking=2000), {"max_tokens": 6000, "temperature": 0.5}),
        (RoleChoice(model="gpt-4.1"), {"max_tokens": 4000, "temperature": 0.5}),
    ],
    ids=lambda one: one.model if isinstance(one, RoleChoice) else "",
)
def test_a_model_that_thinks_has_room_for_it_and_no_temperature(
    role: RoleChoice, limits: dict[str, Any]
) -> None:
    call = plan_completion(REQUEST, role)
    fixed = {"model", "messages", "stream", "stream_options"}
    assert {name: value for name, value in call.items() if name not in fixed} == limits


def test_a_model_that_reads_no_files_gets_notices_in_their_place() -> None:
    parts = plan_completion(REQUEST, RoleChoice(model="o3-mini"))["messages"][1]["content"]
    assert [part["type"] for part in parts] == ["text"] * len(parts)
    notices = [part["text"] for part in parts if "it was not sent" in part["text"]]
    assert len(notices) == len(FILES)
    assert any("reads no pictures" in notice for notice in notices)


def test_the_beginning_of_the_next_request_is_equal_byte_for_byte() -> None:
    with Scripted(HELLO) as running:
        client = ask_chat(running.url)
        for more in ((), (Part(text="four"),), (Part(text="four"), *FILES)):
            with client.stream(replace(REQUEST, content=(*REQUEST.content, *more))) as stream:
                list(stream)
        client.close()
    bodies = [body for _, _, body in running.asked]
    first = bodies[0].index(b"three") + len(b"three")
    assert len({body[:first] for body in bodies}) == 1
    fourth = bodies[1].index(b"four") + len(b"four")
    assert len({body[:fourth] for body in bodies[1:]}) == 1


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("", f"{OPENAI_URL}/chat/completions"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://127.0.0.1:11434/", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://h/api/v3/", "http://h/api/v3/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
    ],
)
def test_an_address_without_a_path_has_the_usual_one(base: str, url: str) -> None:
    assert completions_url(base) == url


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {"authorization": "Bearer key"}),
        ({"api_key": lambda: " key\n"}, {"authorization": "Bearer key"}),
        ({"api_key": str}, {}),
        ({"headers": {"Api-Key": "{key}", "X-Title": "s"}}, {"api-key": "key", "x-title": "s"}),
    ],
)
def test_the_key_is_in_the_header_that_the_server_reads(fields: dict[str, Any], sent: dict[str, str]) -> None:
    with Scripted(HELLO) as running:
        client = ask_chat(running.url, **fields)
        with client.stream(REQUEST) as stream:
            assert "".join(stream) == "Hello"
        client.close()
    headers = running.asked[0][1]
    assert {
        name: headers[name] for name in ("authorization", "api-key", "x-title") if name in headers
    } == sent


def test_openai_is_not_called_without_a_key() -> None:
    with pytest.raises(ModelRefused) as caught:
        ChatProvider().connect()
    assert caught.value.reason == "model_credentials"


def said(message: str, *, status: int = 400, **fields: Any) -> Reply:
    return Reply(body=json.dumps({"error": {"message": message, **fields}}).encode(), status=status)


REFUSALS: Final = {
    "a key": (said("Incorrect API key", status=401, code="invalid_api_key"), "model_credentials"),
    "no such model": (said("no such model", status=404, code="model_not_found"), "model_refused"),
    "Ollama, no such model": (Reply(body=b'{"error": "model \'x\' not found"}', status=404), "model_refused"),
    "another server": (Reply(body=b'{"detail": "Not Found"}', status=404), "model_refused"),
    "a page": (
        Reply(body=b"<html>", headers=(("content-type", "text/html; charset=utf-8"),)),
        "model_refused",
    ),
    "no money": (
        said("quota", status=429, type="insufficient_quota", code="insufficient_quota"),
        "model_refused",
    ),
    "too fast": (
        said("slow down", status=429, type="tokens", code="rate_limit_exceeded"),
        "model_rate_limited",
    ),
    "busy": (said("busy", status=503), "model_overloaded"),
    "Gemini": (
        Reply(body=b'[{"error": {"code": 503, "message": "overloaded"}}]', status=503),
        "model_overloaded",
    ),
    "no JSON": (Reply(body=b"upstream connect error", status=502), "model_overloaded"),
}


@pytest.mark.parametrize(("reply", "code"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_has_a_code(reply: Reply, code: str) -> None:
    assert refused(reply).reason == code


WINDOWS: Final = {
    "OpenAI": said(
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        code="context_length_exceeded",
    ),
    "vLLM": said("This model's maximum context length is 4096 tokens. However, you requested 5000", code=400),
    "vLLM, newer": said("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    "llama.cpp": said(
        "the request exceeds the available context size", type="exceed_context_size_error", code=400
    ),
    "SGLang": Reply(
        body=b'{"object": "error", "message": "The input (61709 tokens) is longer than the model\'s context length (40960 tokens).", "code": 400}',
        status=400,
    ),
    "LM Studio": Reply(
        body=b'{"error": "Trying to keep the first 15857 tokens when context the overflows."}', status=400
    ),
    "LM Studio, newer": Reply(body=b'{"error": "Context size has been exceeded."}', status=400),
    "Gemini": said("The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."),
    "Mistral": said("Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    "Groq": said("Please reduce the length of the messages or completion."),
    "Together": said("`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000"),
    "Ollama": said("the input length exceeds the context length"),
    "too many bytes": Reply(body=b"", status=413),
}


@pytest.mark.parametrize("reply", WINDOWS.values(), ids=WINDOWS)
def test_a_full_window_is_recognized_in_the_words_of_each_server(reply: Reply) -> None:
    assert refused(reply).reason == "context_limit"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((("retry-after-ms", "20500"),), 20.5),
        ((("retry-after-ms", "20500"), ("retry-after", "21")), 20.5),
        ((("retry-after", "30"),), 30.0),
        ((("retry-after-ms", "soon"), ("retry-after", "30")), 30.0),
        ((), None),
    ],
)
def test_the_wait_that_a_server_asks_for_is_kept(
    headers: tuple[tuple[str, str], ...], seconds: float | None
) -> None:
    error = refused(Reply(body=b"{}", status=429, headers=headers))
    assert error.context["retry_after_s"] == seconds


def test_azures_filter_of_a_prompt_is_a_refusal_of_the_model() -> None:
    with Scripted(said("The prompt was filtered.", code="content_filter")) as running:
        client = ask_chat(running.url)
        with client.stream(REQUEST) as stream:
            assert list(stream) == []
        client.close()
    done = stream.completion()
    expected = Declined(category="content_filter", explanation="The prompt was filtered.")
    assert (done.stop_reason, done.declined, done.aborted) == ("refusal", expected, False)


def test_a_silent_server_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        client = ask_chat(
            f"http://127.0.0.1:{door.getsockname()[1]}", retry=ONCE, timeouts=Timeouts(read_s=0.05)
        )
        with client.stream(REQUEST) as stream, pytest.raises(ModelTimeout):
            list(stream)
        client.close()


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/v1", "http://localhost:11434/v1", "http://10.0.0.1/v1", "http://169.254.169.254/"],
)
def test_an_address_that_is_not_public_is_refused_unless_its_row_says_private(url: str) -> None:
    client = ask_chat(url, retry=ONCE, guarded=True)
    with client.stream(REQUEST) as stream, pytest.raises(ModelRefused) as caught:
        list(stream)
    assert caught.value.reason == "model_refused"


def test_a_name_is_resolved_once_and_its_address_is_called() -> None:
    with Scripted(HELLO) as running:
        port = running.server_address[1]
        guard = AddressGuard(ports=(port,), resolve=lambda *_: ["127.0.0.1"], is_public=lambda _: True)
        pool = GuardedPool(f"http://model.example:{port}/v1/chat/completions", guard)
        answer = pool.request("POST", "", headers={"x": "y"}, body=b"{}", retries=False)
        assert answer.data == ANSWER
        pool.clear()
    path, headers, _ = running.asked[0]
    assert (path, headers["host"]) == ("/v1/chat/completions", f"model.example:{port}")


def test_a_name_without_an_address_is_unreachable() -> None:
    def resolve(*_: object) -> list[str]:
        raise OSError("no such name")

    pool = GuardedPool("http://model.example/v1", AddressGuard(resolve=resolve))
    with pytest.raises(ModelUnreachable):
        pool.request("POST", "", headers={}, body=b"{}")


def test_openais_own_client_reads_the_scripted_model(server: ScriptedServer, own: openai.OpenAI) -> None:
    asked: Any = plan_completion(replace(REQUEST, temperature=None), RoleChoice(model="scripted"))
    server.faults.add({"kind": "thinking", "thinking_tokens": 9, "text": "Hello, all of you."})
    chunks = list(own.chat.completions.create(**asked))
    assert all(isinstance(one, ChatCompletionChunk) for one in chunks)
    assert (
        "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "Hello, all of you."
    )
    used = chunks[-1].usage
    assert used
    assert used.completion_tokens_details
    assert used.completion_tokens_details.reasoning_tokens == 9
    assert used.total_tokens == used.prompt_tokens + used.completion_tokens
    del asked["stream"], asked["stream_options"]
    whole = own.chat.completions.create(**asked)
    assert isinstance(whole, ChatCompletion)
    assert whole.choices[0].message.content


def test_openais_own_client_reads_the_list_of_models(own: openai.OpenAI) -> None:
    assert [model.id for model in own.models.list()] == ["scripted"]
