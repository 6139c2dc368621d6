"""The fields of a chat completion.

Values and pure functions. The user's message is always a list of parts, each in the order of the request, so that the
beginning of two requests is equal byte for byte wherever their parts are.

Source: the reference of chat completions, as in the types of the package `openai` 3.57.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from stepline.adapters.chat.family import ChatFamily, chat_family, is_off
from stepline.adapters.provider.wire import ROOM_TOKENS, media_kind, notice_unsent
from stepline.ports.model import Content, Media, MediaKind, ModelRequest, RoleChoice

NO_THINKING: Final = "none"
"""The effort that switches thinking off."""
USUAL_EFFORT: Final = "medium"
"""The effort of a model that thinks, if its role chose none."""


def plan_completion(
    request: ModelRequest, role: RoleChoice, *, takes: Sequence[MediaKind] | None = None
) -> dict[str, Any]:
    """Return the fields of a streamed completion: the model, a system and a user message, and the limit of the answer.

    The request's `max_tokens` is the limit of its text; tokens for thinking are added. `takes` are the kinds of files
    that the server reads, None for those of the model's family. Marks are left out: servers cache by themselves.
    """
    family = chat_family(role.named)
    limits = (request.max_tokens + _room_tokens(role, family), role.max_tokens)
    call: dict[str, Any] = {
        "model": role.model,
        "messages": [
            *_system(request),
            {
                "role": "user",
                "content": _parts(request.content, family.takes if takes is None else takes),
            },
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens" if family.thinks else "max_tokens": min(limit for limit in limits if limit),
    }
    if effort := NO_THINKING if is_off(role, family) else role.effort:
        call["reasoning_effort"] = effort
    if request.temperature is not None and not family.thinks:
        call["temperature"] = request.temperature
    return call


def _room_tokens(role: RoleChoice, family: ChatFamily) -> int:
    if isinstance(role.thinking, int):
        return role.thinking
    if is_off(role, family):
        return 0
    return ROOM_TOKENS[role.effort or USUAL_EFFORT] if family.thinks or role.effort else 0


def _system(request: ModelRequest) -> list[dict[str, Any]]:
    text = "\n".join(part.text for part in request.system if part.text.strip())
    return [{"role": "system", "content": text}] if text else []


def _parts(content: Sequence[Content], takes: Sequence[MediaKind]) -> list[dict[str, Any]]:
    """Return the parts without blank texts, which some servers refuse."""
    return [
        _file(part, takes) if isinstance(part, Media) else {"type": "text", "text": part.text}
        for part in content
        if isinstance(part, Media) or part.text.strip()
    ]


def _file(part: Media, takes: Sequence[MediaKind]) -> dict[str, Any]:
    """Return a file; a model that does not read its kind gets a notice in its place."""
    if media_kind(part) not in takes:
        return {"type": "text", "text": notice_unsent(part)}
    url = f"data:{part.body.mime};base64,{base64.b64encode(part.data).decode('ascii')}"
    if media_kind(part) == "pictures":
        return {"type": "image_url", "image_url": {"url": url}}
    name = part.path.rpartition("/")[2]
    return {"type": "file", "file": {"filename": name, "file_data": url}}
