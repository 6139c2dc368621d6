"""The model for bundles: the service, the request, and the report of a failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from stepline.bundle.generation.channel_result import ServiceError
from stepline.errors import SteplineError
from stepline.model.base import Value
from stepline.model.usage import Usage
from stepline.ports.model import ModelClient, ModelRequest, Part


@dataclass(frozen=True, kw_only=True)
class ModelService:
    """A model client and a clock: `now_s` returns the seconds since 1970."""

    client: ModelClient
    now_s: Callable[[], float] = time.time


class PromptMessage(Value):
    """One message of a prompt. A part's `cache` lets the provider cache everything up to it."""

    role: Literal["system", "user"]
    content: tuple[Part, ...]


MessageLike: TypeAlias = PromptMessage | Mapping[str, Any]
"""A message, or `{"role": …, "content": …}` with a text, a part, or a list of both as its content."""


def system_message(text: str, *, cache: bool = False) -> PromptMessage:
    """Return a message with instructions."""
    return PromptMessage(role="system", content=(Part(text=text, cache=cache),))


def user_message(text: str, *, cache: bool = False) -> PromptMessage:
    """Return a message of the user."""
    return PromptMessage(role="user", content=(Part(text=text, cache=cache),))


def service_of(svc: ModelService | ModelClient) -> ModelService:
    """Return the service, or a new one for a bare client."""
    return svc if isinstance(svc, ModelService) else ModelService(client=svc)


def plan_request(
    messages: Sequence[MessageLike], *, role: str, max_tokens: int, temperature: float
) -> ModelRequest:
    """Return the request of `messages`: the system ones in order, then the user's, as one message.

    Raises ValueError for any other message.
    """
    read = [_read_message(one) for one in messages]
    return ModelRequest(
        role=role,
        system=tuple(part for one in read if one.role == "system" for part in one.content),
        content=tuple(part for one in read if one.role == "user" for part in one.content),
        max_tokens=max_tokens,
        temperature=temperature,
    )


def usage_row(usage: Usage) -> dict[str, int | bool]:
    """Return token counts under the names of providers and reports; `prompt_tokens` is the total input."""
    cache_write = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": cache_write,
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "estimated": usage.estimated,
    }


def service_error(error: SteplineError, *, role: str, client: ModelClient, model: str) -> ServiceError:
    """Return the report of a failed call. `context` has the error's context, and the role of the call."""
    status = error.context.get("status")
    return ServiceError(
        kind="llm",
        stage="stream_loop",
        service_name=type(client).__name__,
        model_name=model,
        error_type=type(error).__name__,
        code=error.reason,
        message=str(error),
        http_status=int(status) if isinstance(status, int | float) else None,
        retryable=error.retryable,
        context={"role": role, **error.context},
    )


def _read_message(message: MessageLike) -> PromptMessage:
    if isinstance(message, PromptMessage):
        return message
    role, content = message.get("role"), message.get("content")
    if role not in ("system", "user"):
        raise ValueError(f"a message is of role system or user, not {role!r}")
    parts = content if isinstance(content, list | tuple) else [content]
    return PromptMessage(role=role, content=tuple(_read_part(part) for part in parts))


def _read_part(part: object) -> Part:
    match part:
        case Part():
            return part
        case str():
            return Part(text=part)
        case {"text": str(text), **rest}:
            return Part(text=text, cache=bool(rest.get("cache")))
        case _:
            raise ValueError(f"a message's content is text or parts, not {type(part).__name__}")
