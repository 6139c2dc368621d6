"""A Messages request, validated as the provider does."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any, Final

from stepline.model.base import Value
from stepline.model.file.magic_bytes import find_mismatch
from stepline.model.file.mime import PDF, PICTURES

MAX_MARKS: Final = 4
TTL_S: Final = {"5m": 300, "1h": 3600}
MEDIA_TYPES: Final = {"image": PICTURES, "document": frozenset({PDF})}
IMAGE_BYTES: Final = 5 * 1024 * 1024
"""Maximum of one picture, in base64."""
_BYTES_PER_TOKEN: Final = 4
_MEDIA_TOKENS: Final = 1500
_BLOCK_TYPES: Final = frozenset(
    {"text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "search_result"}
)


class BadRequestError(Exception):
    """A refused request: `kind` and the message are the provider's."""

    def __init__(self, message: str, *, status: int = 400, kind: str = "invalid_request_error") -> None:
        """Refuse with a status and an error type."""
        super().__init__(message)
        self.status = status
        self.kind = kind


class PromptBlock(Value):
    """One cacheable position of the prompt. `identity` holds everything that is compared, without marks."""

    identity: str
    text: str
    tokens: int
    ttl_s: int | None = None


class Prompt(Value):
    """A parsed request: its blocks in the cache's order (tools, system, messages), and its parameters."""

    model: str
    max_tokens: int
    stream: bool
    blocks: tuple[PromptBlock, ...]
    system: str
    messages: tuple[tuple[str, str], ...]
    stop_sequences: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt."""
        return sum(block.tokens for block in self.blocks)

    @property
    def newest_message(self) -> str:
        """Text of the last message."""
        return self.messages[-1][1]


def count_tokens(text: str) -> int:
    """Return the tokens this server counts for a text: a quarter of its UTF-8 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def parse_prompt(body: Any) -> Prompt:
    """Parse a request's JSON. Raises BadRequestError with the provider's message."""
    if not isinstance(body, dict):
        raise BadRequestError("Input should be a valid dictionary")
    model = _required(body, "model", str)
    max_tokens = _required(body, "max_tokens", int)
    if max_tokens < 1:
        raise BadRequestError("max_tokens: must be greater than or equal to 1")
    messages = _required(body, "messages", list)
    if not messages:
        raise BadRequestError("messages: at least one message is required")
    blocks = [_block(tool, "tools", n) for n, tool in enumerate(body.get("tools") or [])]
    system = _blocks(body.get("system") or [], "system")
    texts: list[tuple[str, str]] = []
    blocks += system
    for n, message in enumerate(messages):
        role, parts = _message(message, n)
        texts.append((role, "\n".join(part.text for part in parts)))
        blocks += parts
    _check_marks(blocks)
    return Prompt(
        model=model,
        max_tokens=max_tokens,
        stream=bool(body.get("stream")),
        blocks=tuple(blocks),
        system="\n".join(block.text for block in system),
        messages=tuple(texts),
        stop_sequences=tuple(body.get("stop_sequences") or ()),
    )


def _required(body: dict[str, Any], name: str, kind: type) -> Any:
    if name not in body:
        raise BadRequestError(f"{name}: Field required")
    value = body[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadRequestError(f"{name}: Input should be a valid {kind.__name__}")
    return value


def _message(message: Any, n: int) -> tuple[str, list[PromptBlock]]:
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("user", "assistant"):
        raise BadRequestError(f"messages.{n}.role: Input should be 'user' or 'assistant'")
    if "content" not in message:
        raise BadRequestError(f"messages.{n}.content: Field required")
    return role, _blocks(message["content"], f"messages.{n}.{role}")


def _blocks(content: Any, where: str) -> list[PromptBlock]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise BadRequestError(f"{where}: Input should be a valid list")
    return [_block(block, where, n) for n, block in enumerate(content)]


def _block(block: Any, where: str, n: int) -> PromptBlock:
    if not isinstance(block, dict):
        raise BadRequestError(f"{where}.{n}: Input should be a valid dictionary")
    kind = block.get("type")
    if where != "tools" and kind not in _BLOCK_TYPES:
        raise BadRequestError(
            f"{where}.{n}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        )
    text = block.get("text") if kind == "text" else ""
    if not isinstance(text, str):
        raise BadRequestError(f"{where}.{n}.text: Field required")
    if kind == "text" and not text.strip():
        raise BadRequestError(f"{where}: text content blocks must contain non-whitespace text")
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    identity = json.dumps([where.partition(".")[0], where.rpartition(".")[2], bare], sort_keys=True)
    media = isinstance(kind, str) and kind in MEDIA_TYPES
    if isinstance(kind, str) and media:
        _check_source(block.get("source"), kind, f"{where}.{n}.{kind}.source")
    return PromptBlock(
        identity=identity,
        text=text,
        tokens=count_tokens(text) if kind == "text" else _MEDIA_TOKENS if media else count_tokens(identity),
        ttl_s=_ttl_s(block.get("cache_control"), f"{where}.{n}"),
    )


def _check_source(source: Any, kind: str, where: str) -> None:
    """Refuse a picture or a document in a request that the provider would refuse."""
    if not isinstance(source, dict) or source.get("type") != "base64":
        raise BadRequestError(f"{where}: Input should be of type 'base64'")
    mime, data = source.get("media_type"), source.get("data")
    if mime not in MEDIA_TYPES[kind]:
        raise BadRequestError(
            f"{where}.base64.media_type: Input should be one of {sorted(MEDIA_TYPES[kind])}"
        )
    if not isinstance(data, str) or not data:
        raise BadRequestError(f"{where}.base64.data: Field required")
    if kind == "image" and len(data) > IMAGE_BYTES:
        raise BadRequestError(
            f"{where}.base64: image exceeds 5 MB maximum: {len(data)} bytes > {IMAGE_BYTES} bytes"
        )
    try:
        decoded = base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise BadRequestError(f"{where}.base64.data: Invalid base64 data") from error
    if find_mismatch(decoded, mime):
        raise BadRequestError(
            f"{where}.base64: The file was specified using the {mime} media type, and is none"
        )


def summed_up(body: Any) -> Any:
    """Return a request with the hash and the size of each file instead of its bytes, for a small record."""
    if isinstance(body, list):
        return [summed_up(one) for one in body]
    if not isinstance(body, dict):
        return body
    if body.get("type") == "base64" and isinstance(body.get("data"), str):
        data = base64.b64decode(body["data"])
        facts = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        return {**{name: value for name, value in body.items() if name != "data"}, **facts}
    return {name: summed_up(value) for name, value in body.items()}


def _ttl_s(mark: Any, where: str) -> int | None:
    if mark is None:
        return None
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        raise BadRequestError(f"{where}.cache_control.type: Input should be 'ephemeral'")
    ttl = mark.get("ttl", "5m")
    if ttl not in TTL_S:
        raise BadRequestError(f"{where}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    return TTL_S[ttl]


def _check_marks(blocks: list[PromptBlock]) -> None:
    lives = [block.ttl_s for block in blocks if block.ttl_s is not None]
    if len(lives) > MAX_MARKS:
        raise BadRequestError(
            f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. Found {len(lives)}."
        )
    if lives != sorted(lives, reverse=True):
        raise BadRequestError(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )
