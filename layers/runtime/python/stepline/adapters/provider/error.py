"""Maps a provider's errors to ours: one table of statuses and kinds, one of wordings.

    status                    kind (in the body, or in the stream)                    becomes
    429                       rate_limit_error, ThrottlingException, …                ModelRateLimited
    500 502 503 504 529       overloaded_error, api_error, timeout_error, …           ModelOverloaded
    408                       ModelTimeoutException                                   ModelTimeout
                              ModelStreamErrorException                               ModelStreamBroken
    409 424 499               ModelErrorException, …                                  DependencyError
    413, and any wording of the table below                                           ContextLimit
    401                       authentication_error                                    ModelRefused
    every other 4xx, 2xx without an answer, 3xx, and 501                              ModelRefused
    no status: connection                                                             ModelUnreachable
               timeout                                                                ModelTimeout
               broken stream                                                          ModelStreamBroken

Source: the providers' published error pages; the wordings as quoted in public bug reports. A wording is
checked only where the code is not specific: a rate limit also mentions tokens.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from stepline.errors import (
    ContextLimit,
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    SteplineError,
)

CONTEXT_LIMIT_KINDS: Final = frozenset(
    {
        "context_length_exceeded",  # OpenAI, and servers that imitate it
        "context_window_exceeded",
        "model_context_window_exceeded",
        "exceed_context_size_error",  # llama.cpp
        "request_too_large",  # Anthropic, above 32 MB
    }
)

_CODES: Final = CONTEXT_LIMIT_KINDS | {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "rate_limit_exceeded",
    "content_filter",
}
"""The codes of chat completions that say more than the type beside them."""
CONTEXT_LIMIT_WORDINGS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"prompt is too long",  # Anthropic
        r"input length and `?max_tokens`? exceed(s)? context limit",  # Anthropic
        r"input is too long\b",  # Bedrock
        r"too many input tokens",  # Bedrock
        r"maximum context length",  # OpenAI, vLLM, DeepSeek, OpenRouter
        r"exceeds? (the|your|this model's) (\w+ )?context (window|length|size|limit)",  # OpenAI, llama.cpp
        r"exceeds the available context size",  # llama.cpp
        r"context (window|length) (is |was |has been )?exceeded",
        r"input token count\b.{0,300}\bexceeds the maximum",  # Gemini
        r"exceeds the maximum number of tokens allowed",  # Gemini
        r"maximum prompt length is \d",  # xAI
        r"too large for model with \d+ maximum context",  # Mistral
        r"longer than the maximum model length",  # vLLM
        r"reduce the length of the (messages|prompt|input)",  # Groq, OpenAI
        r"longer than the model's context length",  # SGLang
        r"exceeds? (the )?maximum context",  # Ollama
        r"trying to keep the first \d+ tokens when context",  # LM Studio
        r"context size has been exceeded",  # LM Studio
        r"inputs`? tokens \+ `?max_new_tokens`? must be <=",  # TGI, Together
        r"exceeds? the (model's )?maximum (allowed )?(input|prompt|token) (length|limit|size)",  # Fireworks, Cohere
    )
)


class _Rule(NamedTuple):
    """One row of the table above. A kind takes precedence over the status."""

    error: type[SteplineError]
    statuses: Container[int]
    kinds: frozenset[str]
    code: str | None = None


_SHED_LOAD: Final = (
    _Rule(ModelRefused, (), frozenset({"insufficient_quota", "billing_hard_limit_reached"})),  # with 429
    _Rule(
        ModelRateLimited,
        {429},
        frozenset({"rate_limit_error", "rate_limit_exceeded", "throttlingexception"}),
    ),
    _Rule(ModelRateLimited, (), frozenset({"modelnotreadyexception"})),
    _Rule(ModelOverloaded, {529}, frozenset({"overloaded_error", "engine_overloaded"})),
)
_REST: Final = (
    _Rule(ModelTimeout, {408}, frozenset({"modeltimeoutexception"})),
    _Rule(ModelStreamBroken, (), frozenset({"modelstreamerrorexception"}), "stream_cut"),
    _Rule(
        DependencyError,
        {409, 424, 425, 499},
        frozenset({"conflict_error", "modelerrorexception"}),
        "model_unavailable",
    ),
    _Rule(ModelRefused, {401}, frozenset({"authentication_error"}), "model_credentials"),
    _Rule(
        ModelRefused,
        {*range(201, 500), 501},
        frozenset(
            {
                "invalid_request_error",
                "billing_error",
                "permission_error",
                "not_found_error",
                "validationexception",
                "accessdeniedexception",
                "resourcenotfoundexception",
                "servicequotaexceededexception",
            }
        ),
    ),
    _Rule(
        ModelOverloaded,
        range(500, 600),
        frozenset(
            {
                "api_error",
                "server_error",
                "timeout_error",
                "internalserverexception",
                "serviceunavailableexception",
            }
        ),
    ),
)


_WRONG_TLS: Final = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|UNKNOWN_PROTOCOL|UNSUPPORTED_PROTOCOL"
)
"""OpenSSL's reasons for a connection that no later attempt makes."""


_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


def says_context_limit(kind: str, message: str) -> bool:
    """Return True if an error's kind or wording means that the request is too large for the model."""
    return kind.lower() in CONTEXT_LIMIT_KINDS or any(w.search(message) for w in CONTEXT_LIMIT_WORDINGS)


def is_wrong_tls(error: BaseException) -> bool:
    """Return True for a certificate that is not trusted, or a port that speaks no TLS: no later attempt succeeds."""
    return bool(_WRONG_TLS.search(str(error)))


def parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a `retry-after` header; None for other forms (a date, invalid text)."""
    try:
        seconds = float(value) if value else -1.0
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def parse_waits(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait: of `retry-after-ms`, which is exact, else of `retry-after`."""
    exact_ms = parse_retry_after(headers.get("retry-after-ms"))
    return parse_retry_after(headers.get("retry-after")) if exact_ms is None else exact_ms / 1000


def map_answer(
    *, status: int, kind: str = "", message: str = "", retry_after_s: float | None = None
) -> SteplineError:
    """Map an error in a provider's answer.

    Args:
        status: of the HTTP response; 200 for an error that arrived inside a stream, where only `kind` counts.
        kind: the body's `error.type`, or the name of a Bedrock exception; any case.
        message: the provider's text. It goes into the error's message, never on the wire.
        retry_after_s: the wait in seconds that the provider requests.
    """
    word, text = kind.lower(), message or kind or f"status {status}"
    is_context = status not in (401, 403) and (status == 413 or says_context_limit(kind, message))
    rules: tuple[_Rule, ...] = (
        *_SHED_LOAD,
        *((_Rule(ContextLimit, {status}, frozenset()),) if is_context else ()),
        *_REST,
    )
    for rule in rules:
        if status in rule.statuses or word in rule.kinds:
            return rule.error(text, code=rule.code, status=status, kind=kind, retry_after_s=retry_after_s)
    return DependencyError(text, code="model_unavailable", status=status, kind=kind)


def map_body(
    status: int, body: object, headers: Mapping[str, str] = _NO_HEADERS, *, message: str = ""
) -> SteplineError:
    """Map an error response, or an error in a stream, whose status is 200.

    Args:
        status: as in `map_answer`.
        body: the decoded JSON, of any shape; a text if it is not JSON.
        headers: a mapping that ignores case.
        message: the text to use if the body has none.
    """
    body = next(iter(body), None) if isinstance(body, list) else body  # Gemini puts it into a list
    outer = body if isinstance(body, dict) else {}
    inner = outer.get("error")
    if not isinstance(inner, dict):
        inner = {"message": outer.get("message") or inner or outer.get("detail"), "code": outer.get("code")}
    # Amazon names the exception in a header and puts the text at the top level of the body.
    named = str(headers.get("x-amzn-errortype", "")).partition(":")[0]
    kinds = [str(inner.get(key) or "") for key in ("code", "type")]
    if status == 200 and kinds[0].isdigit() and 400 <= int(kinds[0][:4]) < 600:
        status = int(kinds[0])  # of servers that repeat it in an error within a stream
    kind = next((k for k in kinds if k.lower() in _CODES), "") or kinds[1] or named
    return map_answer(
        status=status,
        kind=kind,
        message=str(inner.get("message") or message),
        retry_after_s=parse_waits(headers),
    )
