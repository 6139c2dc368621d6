"""Wire format of Bedrock's Converse: a request as one of Messages, and the events of an answer as frames.

Source: botocore's model of the service, with which a test reads the answers.
"""

from __future__ import annotations

from typing import Any, Final

from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.messages_request import BadRequestError

USUAL_TOKENS: Final = 4_096
_EXCEPTIONS: Final = {
    "invalid_request_error": (400, "ValidationException"),
    "rate_limit_error": (429, "ThrottlingException"),
    "overloaded_error": (503, "ServiceUnavailableException"),
    "api_error": (500, "InternalServerException"),
    "not_found_error": (404, "ResourceNotFoundException"),
}


def read_converse(body: Any, model: str) -> dict[str, Any]:
    """Return a request as one of Messages. Raises BadRequestError."""
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise BadRequestError("messages: Field required")
    return {
        "model": model,
        "max_tokens": (body.get("inferenceConfig") or {}).get("maxTokens") or USUAL_TOKENS,
        "system": _read_blocks(body.get("system") or []),
        "messages": [
            {"role": message.get("role"), "content": _read_blocks(message["content"])}
            for message in body["messages"]
        ],
        "stream": True,
    }


def _read_blocks(blocks: list[Any]) -> list[Any]:
    found: list[Any] = []
    for block in blocks:
        if mark := block.get("cachePoint"):
            found[-1]["cache_control"] = {"type": "ephemeral", "ttl": mark.get("ttl", "5m")}
        elif "text" in block:
            found.append({"type": "text", "text": block["text"]})
        else:
            found.append(_read_file(block))
    return found


def _read_file(block: dict[str, Any]) -> dict[str, Any]:
    if image := block.get("image"):
        kind, mime, data = "image", f"image/{image['format']}", image["source"]["bytes"]
    elif document := block.get("document"):
        kind, mime, data = "document", f"application/{document['format']}", document["source"]["bytes"]
    else:
        raise BadRequestError("a content block of an unknown kind")
    return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}}


def converse_error(status: int, kind: str, text: str) -> tuple[int, dict[str, str]]:
    """Return the status and the body of an error."""
    status, named = _EXCEPTIONS.get(kind, (status, "ValidationException"))
    return status, {"__type": named, "message": text}


def encode_converse(event: wire.Event) -> bytes:
    """Return the frames of an event; b"" for one that this protocol has not."""
    match event["type"]:
        case "message_start":
            return _frame("messageStart", {"role": "assistant"})
        case "content_block_delta":
            return _delta(event)
        case "content_block_stop":
            return _frame("contentBlockStop", {"contentBlockIndex": event["index"]})
        case "message_delta":
            stop = _frame("messageStop", {"stopReason": _reason(event["delta"])})
            return stop + _frame("metadata", {"usage": _count(event["usage"]), "metrics": {"latencyMs": 1}})
        case "error":
            _, named = _EXCEPTIONS.get(event["error"]["type"], (0, "ModelStreamErrorException"))
            headers = {":exception-type": named[0].lower() + named[1:], ":message-type": "exception"}
            return wire.pack_frame(headers, {"message": event["error"]["message"]})
        case _:
            return b""


def _delta(event: wire.Event) -> bytes:
    change = event["delta"]
    match change["type"]:
        case "text_delta":
            delta = {"text": change["text"]}
        case "thinking_delta":
            delta = {"reasoningContent": {"text": change["thinking"]}}
        case _:
            return b""
    return _frame("contentBlockDelta", {"delta": delta, "contentBlockIndex": event["index"]})


def _reason(of: dict[str, Any]) -> str:
    reason = str(of["stop_reason"])
    return "content_filtered" if reason == "refusal" else reason


def _count(counts: wire.Event) -> dict[str, Any]:
    found = {
        "inputTokens": counts["input_tokens"],
        "outputTokens": counts["output_tokens"],
        "cacheReadInputTokens": counts["cache_read_input_tokens"],
        "cacheWriteInputTokens": counts["cache_creation_input_tokens"],
    }
    return {**found, "totalTokens": sum(found.values())}


def _frame(kind: str, payload: dict[str, Any]) -> bytes:
    return wire.pack_frame(
        {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}, payload
    )
