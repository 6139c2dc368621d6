"""Problems: the single form of a refusal over HTTP, with the same stable codes as on the websocket.

Source: RFC 9457, Problem Details for HTTP APIs.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from stepline.errors import (
    AuthError,
    BusyError,
    DependencyError,
    Fenced,
    InputError,
    LimitError,
    NotFoundError,
    PathError,
    SteplineError,
    UnknownOutcome,
)
from stepline.model.base import Value

PROBLEM_MIME: Final = "application/problem+json"

AGAIN: Final = "Please try again in a moment."

_STATUS: Final[dict[type[SteplineError], HTTPStatus]] = {
    InputError: HTTPStatus.BAD_REQUEST,
    PathError: HTTPStatus.BAD_REQUEST,
    AuthError: HTTPStatus.UNAUTHORIZED,
    NotFoundError: HTTPStatus.NOT_FOUND,
    LimitError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    BusyError: HTTPStatus.SERVICE_UNAVAILABLE,
    DependencyError: HTTPStatus.SERVICE_UNAVAILABLE,
    Fenced: HTTPStatus.SERVICE_UNAVAILABLE,
    UnknownOutcome: HTTPStatus.SERVICE_UNAVAILABLE,
}
_STATUS_OF_CODE: Final = {
    "rate_limited": HTTPStatus.TOO_MANY_REQUESTS,
    "limit_turns": HTTPStatus.TOO_MANY_REQUESTS,
    "queue_full": HTTPStatus.TOO_MANY_REQUESTS,
    "limit_tokens": HTTPStatus.TOO_MANY_REQUESTS,
    "limit_usd": HTTPStatus.TOO_MANY_REQUESTS,
    "stopped": HTTPStatus.FORBIDDEN,
    "limits_changed": HTTPStatus.PRECONDITION_FAILED,
    "method_not_allowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "media_type": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "idempotency_key_reused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "turn_open": HTTPStatus.CONFLICT,
    "import_unfinished": HTTPStatus.CONFLICT,
    "conversation_exists": HTTPStatus.CONFLICT,
    "another_import": HTTPStatus.CONFLICT,
    "has_forks": HTTPStatus.CONFLICT,
    "fork_too_deep": HTTPStatus.CONFLICT,
    "import_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "import_too_many_files": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "not_inspectable": HTTPStatus.FORBIDDEN,
}


_PHRASES: Final = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Content Too Large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Content",
}


class Problem(Value, omit_defaults=False):
    """A refusal. `code` is stable; `detail` is a sentence for people; `retryable`: it may be accepted later."""

    title: str
    status: int
    code: str
    detail: str
    type: str = "about:blank"
    retryable: bool = False
    retry_after_s: int = 0


def status_of(error: SteplineError) -> HTTPStatus:
    """Return the status of an error; 500 for an internal one."""
    known = _STATUS_OF_CODE.get(error.reason)
    return known or _STATUS.get(type(error), HTTPStatus.INTERNAL_SERVER_ERROR)


def phrase_of(status: HTTPStatus) -> str:
    """Return the phrase of a status by RFC 9110; older Pythons use older phrases for two of them."""
    return _PHRASES.get(status, status.phrase)


def make_problem(error: SteplineError) -> Problem:
    """Return the problem of an error. The message of an internal error is left out."""
    status = status_of(error)
    ours = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    wait = error.context.get("retry_after_s", 0)
    return Problem(
        title=phrase_of(status),
        status=int(status),
        code=error.reason if status != HTTPStatus.INTERNAL_SERVER_ERROR else SteplineError.code,
        detail=AGAIN if ours else str(error),
        retryable=status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS),
        retry_after_s=int(wait) if isinstance(wait, int | float) else 0,
    )
