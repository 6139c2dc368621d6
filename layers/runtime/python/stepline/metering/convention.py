"""Attributes of spans by OpenTelemetry's conventions for generative AI, made of the runtime's values.

Texts are cut so that no span exceeds the limit of a backend: X-Ray refuses a span of more than 200 KB. The input of the
model keeps its end, every other text its beginning.
Source: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai; the CloudWatch guide, "OTLP endpoint".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from stepline.errors import SteplineError
from stepline.model.usage import Usage
from stepline.ports.model import Completion, Content, ModelRequest, Part
from stepline.ports.tracing.traces import Attribute, Attributes

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
STREAMED: Final = "gen_ai.request.stream"
TEMPERATURE: Final = "gen_ai.request.temperature"
FIRST_CHUNK_S: Final = "gen_ai.response.time_to_first_chunk"
FINISH: Final = "gen_ai.response.finish_reasons"
RESPONSE: Final = "gen_ai.response.id"
TOOL: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"
SYSTEM: Final = "gen_ai.system_instructions"
INPUT: Final = "gen_ai.input.messages"
OUTPUT: Final = "gen_ai.output.messages"
USER: Final = "user.hash"

SYSTEM_MAX_BYTES: Final = 30_000
INPUT_MAX_BYTES: Final = 90_000
OUTPUT_MAX_BYTES: Final = 60_000
CUT: Final = "…"


def usage_attributes(usage: Usage) -> Attributes:
    """Return the tokens of calls; those of the prompt include cached tokens."""
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
    }


def request_attributes(request: ModelRequest, provider: str) -> Attributes:
    """Return the attributes of a request, without its texts."""
    made: dict[str, Attribute] = {
        OPERATION: "chat",
        PROVIDER: provider,
        MAX_TOKENS: request.max_tokens,
        STREAMED: True,
        "stepline.role": request.role,
    }
    return made if request.temperature is None else {**made, TEMPERATURE: request.temperature}


def answer_attributes(made: Completion) -> Attributes:
    """Return the attributes of an answer, even a partial one, without its text."""
    known: dict[str, Attribute] = {
        RESPONSE_MODEL: made.model,
        FINISH: (made.stop_reason,),
        "stepline.retries": made.retries,
        **usage_attributes(made.usage),
    }
    return {**known, RESPONSE: made.message_id} if made.message_id else known


def request_texts(request: ModelRequest) -> Attributes:
    """Return the attributes of the texts in a request."""
    system = _clip("\n\n".join(part.text for part in request.system), SYSTEM_MAX_BYTES)
    return {
        SYSTEM: _json([{"type": "text", "content": system}]),
        INPUT: _json([{"role": "user", "parts": _newest(request.content)}]),
    }


def answer_texts(text: str, reason: str) -> Attributes:
    """Return the attributes of an answer, of the model or of the agent."""
    part = {"type": "text", "content": _clip(text, OUTPUT_MAX_BYTES)}
    return {OUTPUT: _json([{"role": "assistant", "parts": [part], "finish_reason": reason}])}


def call_texts(params: Any, code: str | None = None) -> Attributes:
    """Return the arguments of a tool's call, with its program if it has one."""
    given = params if code is None else {**params, "code": code}
    return {ARGUMENTS: _clip(_json(given), INPUT_MAX_BYTES)}


def result_texts(texts: Iterable[str]) -> Attributes:
    """Return the result of a tool's call."""
    return {RESULT: _clip("\n".join(filter(None, texts)), INPUT_MAX_BYTES)}


def failure_code(error: BaseException) -> str:
    """Return the code of an error; for a foreign error, the name of its class."""
    return error.reason if isinstance(error, SteplineError) else type(error).__name__


def _clip(text: str, most_bytes: int, *, from_end: bool = False) -> str:
    """Return the text if its JSON has at most `most_bytes`, else its beginning, or its end."""
    kept = text
    while (size := len(_json(kept).encode())) > most_bytes:
        # Escapes are not spread evenly, so one proportional cut may not be enough.
        chars = min(len(kept) - 1, len(kept) * most_bytes // size)
        kept = kept[-chars:] if from_end and chars else kept[:chars]
    if kept == text:
        return text
    return f"{CUT}{kept}" if from_end else f"{kept}{CUT}"


def _newest(content: Iterable[Content]) -> list[dict[str, str]]:
    """Return the last parts of a request that fit, the first of them possibly cut."""
    parts: list[dict[str, str]] = []
    left = INPUT_MAX_BYTES
    for part in reversed(list(content)):
        if left <= 0:
            break
        if isinstance(part, Part):
            text = _clip(part.text, left, from_end=True)
            parts.append({"type": "text", "content": text})
            left -= len(_json(text).encode())
        else:
            parts.append({"type": "file", "file_id": part.path, "mime_type": part.body.mime})
    return parts[::-1]


def _json(value: Any) -> str:
    """Return JSON that can be encoded: text of a model may contain lone surrogates."""
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()
