"""Decodes the chunks of a chat completion, and folds them into the text that each adds and the facts so far.

Text is in `delta.content`, or in `message.content` from a server that does not stream; it may be null, missing, empty, or
a list of parts. Reasoning (`reasoning_content`, `reasoning`) and tool calls, which no request asks for, are no text. All
other fields are facts: one that cannot be read is dropped and counted, and affects nothing else.

An answer is complete when its `finish_reason` has arrived, or `[DONE]` after a text: some servers send only one of them.
The tokens come in any chunk, often in a last one without choices, or never; an answer that has begun has used some.

Source: the types of the package `openai` 3.57; openrouter.ai, "Streaming"; docs.vllm.ai, "Reasoning Outputs"; public bug
reports of llama.cpp, LM Studio, Ollama, SGLang, LiteLLM and DeepSeek.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from stepline.adapters.provider.client import EXPLANATION_CHARS, NO_FIELDS, FactReader
from stepline.adapters.provider.error import map_body
from stepline.adapters.provider.server_sent import DONE, ServerSent, read_objects, split_events
from stepline.errors import ModelOverloaded, ModelStreamBroken
from stepline.model.decision import Declined
from stepline.model.usage import Usage
from stepline.ports.model import AnswerFacts

END: Final = object()
"""The event of `[DONE]`."""
FILTERED: Final = "content_filter"
_REASONS: Final[Mapping[str, str]] = {
    "stop": "end_turn",
    "eos": "end_turn",
    "tool_calls": "end_turn",
    "function_call": "end_turn",
    "length": "max_tokens",
    FILTERED: "refusal",
    "sensitive": "refusal",
}
"""Reasons of the end of an answer in our words; others are kept."""
_BROKEN: Final = frozenset({"error", "abort", "network_error"})
_BUSY: Final = "insufficient_system_resource"


def read_chunks(chunks: Iterable[bytes]) -> Iterator[object]:
    """Yield the decoded chunks of an answer, and END.

    Raises:
        ModelStreamBroken: `stream_malformed`, for data that is not JSON: it may have been text.
        SteplineError: as `map_body`, for an error that the server sent in the stream.
    """
    for sent in split_events(chunks):
        if DONE.fullmatch(sent.data):
            yield END
        elif sent.data.strip():
            yield from _decode(sent)


def _decode(sent: ServerSent) -> Iterator[object]:
    try:
        found = read_objects(sent.data)
    except (ValueError, RecursionError) as error:
        if sent.name == "error":
            raise map_body(200, None, message=sent.data.decode("utf-8", "replace")) from error
        if sent.whole:
            raise ModelStreamBroken(f"not a chunk we know: {error}", code="stream_malformed") from error
        return  # the connection ended within it
    for one in found:
        if isinstance(one, dict) and (
            one.get("error") or "error" in (sent.name, one.get("object"), one.get("type"))
        ):
            raise map_body(200, one)
        yield one


def is_chunk(event: object) -> bool:
    """Return True for a chunk of this protocol, and for END."""
    return event is END or (isinstance(event, dict) and ("choices" in event or "usage" in event))


class CompletionFold:
    """The state of one answer."""

    def __init__(self) -> None:
        """Start with no chunks."""
        self._model = ""
        self._ident = ""
        self._stop_reason = ""
        self._begun = False
        self._said = False
        self._done = False
        self._broken = False
        self._filtered = False
        self._refusal = ""
        self._prompt: int | None = None
        self._cached: int | None = None
        self._output: int | None = None
        self._facts = FactReader()

    def take(self, event: Any) -> str:
        """Apply one chunk and return the text that it adds.

        Raises ModelStreamBroken: `stream_malformed` for an invalid text, which would leave a hole in the answer, and
        `stream_cut` if the server says that it broke off; ModelOverloaded.
        """
        try:
            text = self._apply(event)
        except (ModelStreamBroken, ModelOverloaded):
            self._broken = True
            raise
        self._said = self._said or bool(text)
        return text

    def decline(self, explanation: str) -> None:
        """End the answer: the server refused the prompt for its content."""
        self._filtered, self._refusal, self._stop_reason = True, explanation, "refusal"

    def facts(self) -> AnswerFacts:
        """Return the facts so far."""
        declined = self._filtered or bool(self._refusal)
        counted = self._prompt is not None and self._output is not None
        cached = min(self._cached or 0, self._prompt or 0)
        used = Usage(
            input_tokens=(self._prompt or 0) - cached,
            cache_read_tokens=cached,
            output_tokens=self._output or 0,
        )
        return AnswerFacts(
            model=self._model,
            message_id=self._ident,
            stop_reason="refusal" if declined else self._stop_reason,
            ended=not self._broken and (bool(self._stop_reason) or (self._done and self._said)),
            declined=Declined(category=FILTERED if self._filtered else "", explanation=self._refusal)
            if declined
            else None,
            usage=used if self._begun else None,
            counted=counted,
            unread=self._facts.unread,
        )

    def _apply(self, event: Any) -> str:
        if event is END:
            self._done = True
            return ""
        if not isinstance(event, dict):
            self._facts.unread["event"] += 1
            return ""
        self._begun = self._begun or is_chunk(event)
        facts = self._facts
        self._ident = facts.word(event, "id") or self._ident
        self._model = facts.word(event, "model") or self._model
        self._count(facts.fields(event, "usage"))
        choices = event.get("choices")
        if not isinstance(choices, list):
            facts.unread["choices"] += choices is not None
            return ""
        return "".join(
            self._choose(choice) for choice in choices if isinstance(choice, dict) and not choice.get("index")
        )

    def _choose(self, choice: Mapping[str, Any]) -> str:
        whole = choice.get("message")
        part = whole if isinstance(whole, dict) else self._facts.fields(choice, "delta")
        text = _read_content(part.get("content"))
        room = EXPLANATION_CHARS - len(self._refusal)
        self._refusal += self._facts.text(part, "refusal")[: max(0, room)]
        if part.get("tool_calls") or part.get("function_call"):
            self._facts.unread["tool_calls"] = 1
        reason = self._facts.word(choice, "finish_reason")
        if reason in _BROKEN:
            raise ModelStreamBroken(f"the server ended the answer: {reason}", code="stream_cut")
        if reason == _BUSY:
            raise ModelOverloaded(f"the server ended the answer: {reason}")
        self._stop_reason = _REASONS.get(reason, reason) or self._stop_reason
        self._filtered = self._filtered or self._stop_reason == "refusal"
        self._done = self._done or part is whole
        return text

    def _count(self, used: Mapping[str, Any]) -> None:
        """Store the newer counts; keep the old value of a missing one."""
        if used is NO_FIELDS:
            return
        facts = self._facts
        prompt, output = facts.count(used, "prompt_tokens"), facts.count(used, "completion_tokens")
        cached = facts.count(facts.fields(used, "prompt_tokens_details"), "cached_tokens")
        if cached is None:
            cached = facts.count(used, "prompt_cache_hit_tokens")
        self._prompt = self._prompt if prompt is None else prompt
        self._output = self._output if output is None else output
        self._cached = self._cached if cached is None else cached


def _read_content(content: object) -> str:
    """Return the text of a delta or a message. Raises ModelStreamBroken `stream_malformed`."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "".join(_read_part(part) for part in content)
    raise ModelStreamBroken("a content that is no text", code="stream_malformed")


def _read_part(part: object) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    kind = part.get("type", "text") if isinstance(part, dict) else None
    if kind != "text":
        return ""  # thinking, or a kind that we do not know
    if not isinstance(text, str | None):
        raise ModelStreamBroken("a part of text without a text", code="stream_malformed")
    return text or ""
