"""The parameters of a Converse call.

Values and pure functions. Source: docs.aws.amazon.com/bedrock, "ConverseStream", "Prompt caching for faster model inference".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from stepline.adapters.provider.wire import media_kind, notice_unsent
from stepline.ports.model import Content, Media, MediaKind, ModelRequest, Part, RoleChoice

CACHING: Final = ("anthropic.claude", "amazon.nova")
"""The names of models that take marks, at most four in a request; a mark makes others refuse it."""
HOURLY: Final = "anthropic.claude"
"""The name of models whose marks may last an hour."""
_NAME: Final = re.compile(r"[^A-Za-z0-9]+")
NAME_CHARS: Final = 100


def plan_converse(
    request: ModelRequest, role: RoleChoice, *, takes: Sequence[MediaKind] | None = None
) -> dict[str, Any]:
    """Return the parameters of a request. `takes` are the kinds of files that its model reads; None: all."""
    named = role.named
    mark: dict[str, Any] | None = {"cachePoint": {"type": "default"}} if _is_one_of(named, CACHING) else None
    if mark and role.cache_ttl == "1h" and _is_one_of(named, (HOURLY,)):
        mark = {"cachePoint": {"type": "default", "ttl": "1h"}}
    room = role.thinking if isinstance(role.thinking, int) else 0
    limits = (request.max_tokens + room, role.max_tokens)
    config: dict[str, Any] = {"maxTokens": min(limit for limit in limits if limit)}
    if request.temperature is not None:
        config["temperature"] = request.temperature
    call: dict[str, Any] = {
        "modelId": role.model,
        "messages": [{"role": "user", "content": _blocks(request.content, mark, takes)}],
        "inferenceConfig": config,
    }
    if system := _blocks(request.system, mark, takes):
        call["system"] = system
    return call


def _is_one_of(model: str, names: Sequence[str]) -> bool:
    return any(name in model for name in names)


def _blocks(
    parts: Sequence[Content], mark: dict[str, Any] | None, takes: Sequence[MediaKind] | None
) -> list[dict[str, Any]]:
    """Return content blocks without blank texts, which the service refuses."""
    blocks: list[dict[str, Any]] = []
    for place, part in enumerate(parts):
        if isinstance(part, Media):
            blocks.append(_file(part, place, takes))
        elif part.text.strip():
            blocks.append({"text": part.text})
            if part.cache and mark and isinstance(part, Part):
                blocks.append(mark)
    return blocks


def _file(part: Media, place: int, takes: Sequence[MediaKind] | None) -> dict[str, Any]:
    """Return a file; a model that does not read its kind gets a notice in its place."""
    if takes is not None and media_kind(part) not in takes:
        return {"text": notice_unsent(part)}
    source = {"bytes": part.data}
    if media_kind(part) == "pictures":
        return {"image": {"format": part.body.mime.rpartition("/")[2], "source": source}}
    name = _NAME.sub("-", part.path)[-NAME_CHARS:]
    return {"document": {"format": "pdf", "name": f"{place}-{name}", "source": source}}
