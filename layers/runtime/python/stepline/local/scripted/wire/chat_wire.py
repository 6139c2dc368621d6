"""Wire format of chat completions: a request as one of Messages, and the events of an answer as chunks.

The provider caches a prompt by itself, so the last parts of a request are marked.
Source: the types of the package `openai` 3.57, with which a test parses the answers.
"""

from __future__ import annotations

import json
from typing import Any, Final

from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.messages_request import BadRequestError

USUAL_TOKENS: Final = 4_096
MARKED: Final = 3
KEEP_ALIVE: Final = b": keep-alive\n\n"
DONE: Final = b"data: [DONE]\n\n"
_REASONS: Final = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}
_TYPES: Final = {
    "rate_limit_error": ("requests", "rate_limit_exceeded"),
    "authentication_error": ("invalid_request_error", "invalid_api_key"),
    "not_found_error": ("invalid_request_error", "model_not_found"),
    "overloaded_error": ("server_error", 503),
    "api_error": ("server_error", 500),
}
_STATUSES: Final = {529: 503}
_WINDOW: Final = ("prompt is too long", "input length and")


def read_chat(body: Any) -> dict[str, Any]:
    """Return a request as one of Messages. Raises BadRequestError."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise BadRequestError("you must provide a messages parameter")
    system: list[Any] = []
    messages: list[Any] = []
    for message in body["messages"]:
        role = message.get("role") if isinstance(message, dict) else None
        parts = _read_parts(message["content"]) if role else []
        if role in ("system", "developer"):
            system += parts
        elif role in ("user", "assistant"):
            messages.append({"role": role, "content": parts})
        else:
            raise BadRequestError(f"Invalid value: '{role}' for a role")
    for part in [*system[-1:], *(messages[-1]["content"][-MARKED:] if messages else ())]:
        part["cache_control"] = {"type": "ephemeral"}
    stops = body.get("stop") or []
    return {
        "model": body.get("model"),
        "max_tokens": body.get("max_completion_tokens") or body.get("max_tokens") or USUAL_TOKENS,
        "system": system,
        "messages": messages,
        "stream": bool(body.get("stream")),
        "stop_sequences": [stops] if isinstance(stops, str) else stops,
    }


def _read_parts(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_read_part(part) for part in content]


def _read_part(part: dict[str, Any]) -> dict[str, Any]:
    match part.get("type"):
        case "text":
            return {"type": "text", "text": part.get("text")}
        case "image_url":
            return _read_file("image", part["image_url"]["url"])
        case "file":
            return _read_file("document", part["file"]["file_data"])
        case kind:
            raise BadRequestError(f"Invalid value: '{kind}' for a part's type")


def _read_file(kind: str, url: str) -> dict[str, Any]:
    head, _, data = url.partition(";base64,")
    return {
        "type": kind,
        "source": {"type": "base64", "media_type": head.removeprefix("data:"), "data": data},
    }


def chat_error(kind: str, text: str) -> dict[str, Any]:
    """Return an error body; inside a stream it is a chunk of the same shape."""
    named, code = _TYPES.get(kind, (kind, None))
    if text.startswith(_WINDOW):
        code = "context_length_exceeded"
    return {"error": {"message": text, "type": named, "param": None, "code": code}}


def chat_status(status: int) -> int:
    """Return the status that this API has in place of one of the other's."""
    return _STATUSES.get(status, status)


def count_chat(counts: wire.Event) -> dict[str, Any]:
    """Return the `usage` of an answer from that of Messages."""
    read = counts["cache_read_input_tokens"]
    prompt = counts["input_tokens"] + read + counts["cache_creation_input_tokens"]
    output, thought = counts["output_tokens"], counts["output_tokens_details"]["thinking_tokens"]
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": read},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


def chat_completion(message: wire.Event) -> dict[str, Any]:
    """Return a whole message as a completion."""
    text = "".join(block["text"] for block in message["content"] if block["type"] == "text")
    refused, reason = _end(message)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": refused},
        "finish_reason": reason,
        "logprobs": None,
    }
    return {
        "id": f"chatcmpl-{message['id'][4:]}",
        "object": "chat.completion",
        "created": 0,
        "model": message["model"],
        "choices": [choice],
        "usage": count_chat(message["usage"]),
    }


class ChatEncoder:
    """Encodes the events of one answer as chunks."""

    def __init__(self, *, counts: bool) -> None:
        """Begin an answer; `counts`: its tokens are sent in a last chunk without choices."""
        self._counts = counts
        self._head: dict[str, Any] = {}

    def encode(self, event: wire.Event) -> bytes:
        """Return the chunks of an event; b"" for one that this protocol has not."""
        match event["type"]:
            case "message_start":
                start = event["message"]
                self._head = {
                    "id": f"chatcmpl-{start['id'][4:]}",
                    "object": "chat.completion.chunk",
                    "created": 0,
                    "model": start["model"],
                }
                return self._chunk({"role": "assistant", "content": ""})
            case "content_block_delta":
                return self._delta(event["delta"])
            case "message_delta":
                return self._closing(event)
            case "error":
                return _encode(chat_error(event["error"]["type"], event["error"]["message"]))
            case kind:
                return {"message_stop": DONE, "ping": KEEP_ALIVE}.get(kind, b"")

    def _delta(self, change: dict[str, Any]) -> bytes:
        match change["type"]:
            case "text_delta":
                return self._chunk({"content": change["text"]})
            case "thinking_delta":
                return self._chunk({"reasoning_content": change["thinking"]})
            case _:
                return b""

    def _closing(self, event: wire.Event) -> bytes:
        refused, reason = _end(event["delta"])
        chunks = self._chunk({"refusal": refused}) if refused else b""
        chunks += self._chunk({}, reason)
        if self._counts:
            chunks += _encode({**self._head, "choices": [], "usage": count_chat(event["usage"])})
        return chunks

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _encode({**self._head, "choices": [choice]})


def _end(of: dict[str, Any]) -> tuple[str | None, str]:
    """Return the words of a refusal, and the reason of the end."""
    reason = of["stop_reason"]
    if reason != "refusal":
        return None, _REASONS.get(reason, reason)
    words = (of["stop_details"] or {}).get("explanation")
    return words, "stop" if words else "content_filter"


def _encode(chunk: dict[str, Any]) -> bytes:
    """Return a chunk as a server-sent event; a lone surrogate, which UTF-8 cannot encode, is escaped."""
    try:
        return b"data: %b\n\n" % json.dumps(chunk, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return b"data: %b\n\n" % json.dumps(chunk).encode()
