"""The arguments of a model call.

Values and pure functions. A family's defaults are in the table of `family`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from stepline.adapters.anthropic.family import ABOVE_HIGH, ModelFamily, family_of
from stepline.adapters.provider.wire import (  # programs that use `client` need the last two
    ROOM_TOKENS,
    Retry,  # noqa: F401
    media_kind,
    notice_unsent,
    plan_roles,  # noqa: F401
)
from stepline.model.base import Value
from stepline.model.file.mime import PICTURES
from stepline.ports.model import CacheTtl, Content, Effort, Media, MediaKind, ModelRequest, RoleChoice

OLDER_BEDROCK: Final = "bedrock-2023-05-31"
"""The API version of Bedrock's older models; the SDK sends 2026-10-21 to all, which those refuse."""
SMALL_TOKENS: Final = 4_096
"""An answer up to this size does not need much thinking: a title, a summary, the end of a steered turn."""


def plan_call(
    request: ModelRequest, role: RoleChoice, *, older: bool = False, takes: Sequence[MediaKind] | None = None
) -> dict[str, Any]:
    """Return the SDK's arguments for a request: one system list, one user message, and its cache marks.

    The request's `max_tokens` is the limit of its text; tokens for thinking that cannot be switched off are added.
    `older`: some models use an older version of the API, with Bedrock's own fields in `extra_body`. `takes` are the kinds
    of files that the server reads, None for all.
    """
    family = family_of(role.named)
    plan = plan_thinking(role, family, request.max_tokens)
    limits = (request.max_tokens + plan.room_tokens, role.max_tokens, family.output_tokens)
    call: dict[str, Any] = {
        "model": role.model,
        "max_tokens": min(limit for limit in limits if limit),
        "messages": [{"role": "user", "content": _blocks(request.content, role.cache_ttl, takes)}],
        "stream": True,
    }
    if system := _blocks(request.system, role.cache_ttl, takes):
        call["system"] = system
    if plan.thinking:
        call["thinking"] = dict(plan.thinking)
    if plan.effort:
        call["output_config"] = {"effort": plan.effort}
    if older and family.older:
        call["extra_body"] = {"anthropic_version": OLDER_BEDROCK}
        if request.temperature is not None and not plan.room_tokens:
            call["extra_body"]["temperature"] = request.temperature
    return call


class ThinkingPlan(Value):
    """The fields of a call that control thinking, and its tokens in addition to those of the text."""

    thinking: Mapping[str, str | int] = MappingProxyType({})
    effort: Effort | None = None
    room_tokens: int = 0


def plan_thinking(role: RoleChoice, family: ModelFamily, text_tokens: int) -> ThinkingPlan:
    """Return how a role's model thinks about an answer of `text_tokens`.

    Thinking is off if its family allows that and the role chose nothing else: the protocol has its own thinking,
    which users see while it is written, and they would wait for both. If thinking cannot be switched off, a small
    answer has low effort. An effort above `high` is a choice to think.
    """
    if isinstance(role.thinking, int):
        budget: dict[str, str | int] = {"type": "enabled", "budget_tokens": role.thinking}
        return ThinkingPlan(thinking=budget, effort=role.effort, room_tokens=role.thinking)
    kind = role.thinking or (None if role.effort in ABOVE_HIGH else family.off)
    sent: dict[str, str | int] = {"type": kind} if kind else {}
    if kind != "adaptive" and (kind or not family.thinks):
        return ThinkingPlan(thinking=sent, effort=role.effort)
    small = text_tokens <= SMALL_TOKENS and role.thinking is None and "low" in family.efforts
    effort = role.effort or ("low" if small else None)
    return ThinkingPlan(thinking=sent, effort=effort, room_tokens=ROOM_TOKENS[effort or family.effort])


def _blocks(
    parts: Sequence[Content], ttl: CacheTtl, takes: Sequence[MediaKind] | None
) -> list[dict[str, Any]]:
    """Return content blocks without blank texts, which the provider refuses.

    Source: platform.claude.com, "Vision", "PDF support". Bedrock accepts the same blocks, but only with base64.
    """
    mark = {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl != "5m" else {})}}
    return [
        _file(part, takes)
        if isinstance(part, Media)
        else {"type": "text", "text": part.text, **(mark if part.cache else {})}
        for part in parts
        if isinstance(part, Media) or part.text.strip()
    ]


def _file(part: Media, takes: Sequence[MediaKind] | None) -> dict[str, Any]:
    if takes is not None and media_kind(part) not in takes:
        return {"type": "text", "text": notice_unsent(part)}
    data, mime = base64.b64encode(part.data).decode("ascii"), part.body.mime
    source = {"type": "base64", "media_type": mime, "data": data}
    return {"type": "image" if mime in PICTURES else "document", "source": source}
