"""Chat completions as servers stream them: each fault of documentation and bug reports in one row."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.chat.completion_fold import CompletionFold, read_chunks
from stepline.adapters.provider.client import AnswerText
from stepline.errors import (
    ContextLimit,
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    ModelStreamBroken,
    SteplineError,
)
from stepline.model.decision import Declined
from stepline.model.usage import Usage
from stepline.ports.model import AnswerFacts

DONE = b"data: [DONE]\n\n"
COUNTS = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37}


def event(fields: Any) -> bytes:
    return b"data: %b\n\n" % json.dumps(fields, ensure_ascii=False).encode()


def chunk(content: object = None, *, reason: str | None = None, **delta: Any) -> bytes:
    part = {"content": content, **delta}
    choice = {"index": 0, "delta": part, "finish_reason": reason}
    return event({"id": "chatcmpl-1", "model": "m-1", "choices": [choice]})


def counted(**more: Any) -> bytes:
    return event({"id": "chatcmpl-1", "model": "m-1", "choices": [], "usage": {**COUNTS, **more}})


ROLE = chunk("", role="assistant")
HELLO = chunk("Hel") + chunk("lo")
STOP = chunk(reason="stop")
WHOLE = {"role": "assistant", "content": "Hello"}


def whole(message: Any = WHOLE, **more: Any) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(
        {"id": "chatcmpl-1", "model": "m-1", "choices": [choice], "usage": COUNTS, **more}
    ).encode()


def read(body: bytes, *, step: int = 0) -> tuple[str, AnswerFacts]:
    fold, text = CompletionFold(), AnswerText(9)
    pieces = [body[at : at + step] for at in range(0, len(body), step)] if step else [body]
    for one in read_chunks(pieces):
        text.add(fold.take(one))
    if fold.facts().ended:
        text.end()
    return text.kept, fold.facts()


HELLOS = {
    "as documented": ROLE + HELLO + STOP + counted() + DONE,
    "usage beside the last choice": ROLE
    + HELLO
    + event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": COUNTS})
    + DONE,
    "usage in every chunk": event(
        {"choices": [{"delta": {"content": "Hello"}}], "usage": {"prompt_tokens": 30, "completion_tokens": 1}}
    )
    + STOP
    + counted()
    + DONE,
    "usage before the text": counted() + HELLO + STOP + DONE,
    "no [DONE]": ROLE + HELLO + STOP + counted(),
    "[DONE] without a reason": ROLE + HELLO + counted() + DONE,
    "no empty line at the end": (ROLE + HELLO + STOP + counted()).rstrip(b"\n"),
    "CRLF": (ROLE + HELLO + STOP + counted() + DONE).replace(b"\n", b"\r\n"),
    "CR": (ROLE + HELLO + STOP + counted() + DONE).replace(b"\n", b"\r"),
    "no space after the colon": (ROLE + HELLO + STOP + counted() + DONE).replace(b"data: ", b"data:"),
    "comments": b": OPENROUTER PROCESSING\n\n" + ROLE + b": ping\n\n" + HELLO + b":\n\n" + STOP + counted(),
    "empty data": b"data:\n\n" + ROLE + b"data: \n\n" + HELLO + STOP + counted() + DONE,
    "reasoning_content": ROLE + chunk(None, reasoning_content="I think.") + HELLO + STOP + counted() + DONE,
    "reasoning": ROLE + chunk("", reasoning="I think.") + HELLO + STOP + counted() + DONE,
    "null and missing contents": ROLE
    + chunk(None)
    + event({"choices": [{"delta": {}}]})
    + event({"choices": [{"delta": None}]})
    + event({"choices": []})
    + event({"choices": None})
    + HELLO
    + STOP
    + counted(),
    "null usage": ROLE + event({"choices": [], "usage": None}) + HELLO + STOP + counted() + DONE,
    "null error": ROLE + event({"choices": [], "error": None}) + HELLO + STOP + counted() + DONE,
    "tool calls that were not asked for": ROLE
    + HELLO
    + chunk(None, tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "{"}}])
    + chunk(reason="tool_calls")
    + counted(),
    "another choice": ROLE
    + event({"choices": [{"index": 1, "delta": {"content": "No"}}]})
    + HELLO
    + STOP
    + counted(),
    "contents in parts": ROLE
    + chunk([{"type": "thinking", "thinking": [{"type": "text", "text": "I"}]}])
    + chunk([{"type": "text", "text": "Hello"}])
    + STOP
    + counted(),
    "not streamed": whole(),
    "not streamed, over lines": json.dumps(json.loads(whole()), indent=1).encode(),
    "not streamed, in parts": whole({"content": [{"type": "text", "text": "Hello"}]}),
    "not streamed, as one event": b"data: " + whole() + b"\n\n" + DONE,
    "two chunks in an event": b"data: "
    + chunk("Hel")[6:].rstrip(b"\n")
    + b"\ndata: "
    + chunk("lo")[6:].rstrip(b"\n")
    + b"\n\n"
    + STOP
    + counted(),
    "named events": b"event: message\n" + ROLE + HELLO + STOP + counted() + DONE,
}


@pytest.mark.parametrize("body", HELLOS.values(), ids=HELLOS)
def test_an_answer_is_read_in_each_shape_that_servers_give_it(body: bytes) -> None:
    text, facts = read(body)
    assert (text, facts.ended, facts.declined) == ("Hello", True, None)
    assert facts.stop_reason in ("end_turn", "")
    assert (facts.usage, facts.counted) == (Usage(input_tokens=30, output_tokens=7), True)


@pytest.mark.parametrize("body", HELLOS.values(), ids=HELLOS)
@pytest.mark.parametrize("step", [1, 3, 7])
def test_an_answer_is_the_same_wherever_its_bytes_are_cut(body: bytes, step: int) -> None:
    assert read(body, step=step) == read(body)


SPLIT = [
    (
        '{"choices": [{"delta": {"content": "three\\ud83d"}}]}',
        '{"choices": [{"delta": {"content": "\\ude00"}}]}',
    ),
    ('{"choices": [{"delta": {"content": "three😀"}}]}', '{"choices": [{"delta": {"content": ""}}]}'),
]


@pytest.mark.parametrize("lines", SPLIT, ids=["escapes", "utf-8"])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_character_that_is_cut_is_joined(lines: tuple[str, str], step: int) -> None:
    body = b"".join(b"data: %b\n\n" % line.encode() for line in lines) + STOP
    assert read(body, step=step)[0] == "three😀"


ENDS = {
    "length": (chunk(reason="length"), "max_tokens", None),
    "a filter": (chunk(reason="content_filter"), "refusal", Declined(category="content_filter")),
    "GLM's filter": (chunk(reason="sensitive"), "refusal", Declined(category="content_filter")),
    "a refusal": (
        chunk(None, refusal="I can") + chunk(None, refusal="not.") + STOP,
        "refusal",
        Declined(explanation="I cannot."),
    ),
    "an empty refusal": (chunk(None, refusal="") + STOP, "end_turn", None),
    "a word of the server": (
        chunk(reason="model_context_window_exceeded"),
        "model_context_window_exceeded",
        None,
    ),
}


@pytest.mark.parametrize(("end", "reason", "declined"), ENDS.values(), ids=ENDS)
def test_an_end_has_one_meaning(end: bytes, reason: str, declined: Declined | None) -> None:
    _, facts = read(ROLE + HELLO + end + DONE)
    assert (facts.stop_reason, facts.declined, facts.ended) == (reason, declined, True)


def test_a_long_refusal_is_kept_to_its_limit() -> None:
    _, facts = read(chunk(None, refusal="no " * 2000) * 3 + STOP)
    assert facts.declined
    assert len(facts.declined.explanation) == 2000


COUNTED = {
    "cached": (
        {"prompt_tokens_details": {"cached_tokens": 20}},
        Usage(input_tokens=10, cache_read_tokens=20, output_tokens=7),
    ),
    "cached, as DeepSeek counts": (
        {"prompt_cache_hit_tokens": 20},
        Usage(input_tokens=10, cache_read_tokens=20, output_tokens=7),
    ),
    "more cached than sent": (
        {"prompt_tokens_details": {"cached_tokens": 99}},
        Usage(cache_read_tokens=30, output_tokens=7),
    ),
    "no details": ({"prompt_tokens_details": None}, Usage(input_tokens=30, output_tokens=7)),
    "reasoning is output": (
        {"completion_tokens_details": {"reasoning_tokens": 5}},
        Usage(input_tokens=30, output_tokens=7),
    ),
}


@pytest.mark.parametrize(("more", "usage"), COUNTED.values(), ids=COUNTED)
def test_tokens_are_those_that_the_server_counted(more: dict[str, Any], usage: Usage) -> None:
    assert read(HELLO + STOP + counted(**more))[1].usage == usage


def test_an_answer_without_counts_has_begun_and_is_not_counted() -> None:
    _, facts = read(ROLE + HELLO + STOP + DONE)
    assert (facts.usage, facts.counted) == (Usage(), False)


def test_unread_facts_are_counted_and_lose_no_text() -> None:
    body = event({"id": 7, "model": [], "usage": "much", "choices": [{"delta": {"content": "Hello"}}]})
    text, facts = read(body + event([1]) + event({"choices": "no"}) + STOP)
    assert text == "Hello"
    assert dict(facts.unread) == {"id": 1, "model": 1, "usage": 1, "event": 1, "choices": 1}


CUT = {
    "nothing": b"",
    "a comment": b": ping\n\n",
    "no end": ROLE + HELLO,
    "within a chunk": ROLE + HELLO + STOP[:20],
    "only [DONE]": ROLE + DONE,
}


@pytest.mark.parametrize("body", CUT.values(), ids=CUT)
def test_a_stream_without_an_end_is_no_answer(body: bytes) -> None:
    assert not read(body)[1].ended


def error(message: str, **fields: Any) -> bytes:
    return event({"error": {"message": message, **fields}})


BROKEN: dict[str, tuple[bytes, type[SteplineError], str]] = {
    "not JSON": (b"data: {\n\n", ModelStreamBroken, "stream_malformed"),
    "a number as text": (chunk(5), ModelStreamBroken, "stream_malformed"),
    "OpenAI": (error("The server had an error", type="server_error"), ModelOverloaded, "model_overloaded"),
    "a rate limit": (
        error("slow down", type="requests", code="rate_limit_exceeded"),
        ModelRateLimited,
        "model_rate_limited",
    ),
    "no money": (
        error("You exceeded your quota", type="insufficient_quota", code="insufficient_quota"),
        ModelRefused,
        "model_refused",
    ),
    "OpenRouter": (
        event(
            {
                "error": {"code": 502, "message": "Provider disconnected"},
                "choices": [{"delta": {"content": ""}, "finish_reason": "error"}],
            }
        ),
        ModelOverloaded,
        "model_overloaded",
    ),
    "vLLM": (error("bad", type="BadRequestError", code=400), ModelRefused, "model_refused"),
    "vLLM, older": (
        event({"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}),
        ModelRefused,
        "model_refused",
    ),
    "llama.cpp": (error("failed", type="server_error", code=500), ModelOverloaded, "model_overloaded"),
    "a text": (event({"error": "something"}), DependencyError, "model_unavailable"),
    "LM Studio": (
        b"event: error\n"
        + event({"error": {"message": "Trying to keep the first 9 tokens when context the overflows."}}),
        ContextLimit,
        "context_limit",
    ),
    "not JSON, named an error": (
        b"event: error\ndata: out of memory\n\n",
        DependencyError,
        "model_unavailable",
    ),
    "a reason": (chunk(reason="error"), ModelStreamBroken, "stream_cut"),
    "SGLang": (chunk(reason="abort"), ModelStreamBroken, "stream_cut"),
    "DeepSeek": (chunk(reason="insufficient_system_resource"), ModelOverloaded, "model_overloaded"),
}


@pytest.mark.parametrize(("body", "kind", "code"), BROKEN.values(), ids=BROKEN)
def test_an_error_in_a_stream_with_status_200_has_a_code(
    body: bytes, kind: type[SteplineError], code: str
) -> None:
    with pytest.raises(SteplineError) as caught:
        read(ROLE + HELLO + body + STOP + DONE)
    assert (type(caught.value), caught.value.reason) == (kind, code)


@given(
    st.lists(
        st.sampled_from(
            [ROLE, HELLO, STOP, DONE, counted(), *CUT.values(), *(row[0] for row in BROKEN.values())]
        )
    ),
    st.integers(1, 9),
)
def test_any_order_of_chunks_is_an_answer_or_an_error_with_a_code(parts: list[bytes], step: int) -> None:
    try:
        text, facts = read(b"".join(parts), step=step)
    except SteplineError:
        return
    assert text.replace("Hello", "") == ""
    assert facts.usage is None or facts.usage.output_tokens in (0, 7)
