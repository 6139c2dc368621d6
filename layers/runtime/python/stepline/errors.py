"""The error taxonomy: one level deep, each with a stable code.

    SteplineError
    ├── InputError        the client sent invalid input                      → one `error` event
    ├── NotFoundError     it does not exist, or it belongs to another user   → one `error` event
    ├── AuthError         no valid token, a foreign origin, or it expired    → one `error` event
    ├── LimitError        a published limit is exceeded                      → one `error` event
    ├── BusyError         the lane is contended beyond our patience          → the client sends again
    ├── PathError         a logical path with invalid syntax                 → the model, as a notice
    ├── ToolError         a tool refused its parameters or failed            → the model, as a result
    ├── SandboxError      a program could not run or be collected            → the model, as a run's error
    ├── DecisionError     the model's output breaks the protocol             → the model, as a notice
    ├── Fenced            another attempt owns this step now                 → Step Functions retries
    ├── UnknownOutcome    a write whose answer was lost or contended         → read again, same intention
    ├── DependencyError   a service we depend on failed temporarily          → Step Functions retries
    ├── ModelOverloaded   the model's provider sheds load (529, 5xx)         → the round waits
    ├── ModelRateLimited  the model's provider limits our rate (429)         → the round waits
    ├── ModelUnreachable  no connection to the model's service               → Step Functions retries
    ├── ModelTimeout      the model does not answer in time                  → Step Functions retries
    ├── ModelStreamBroken the model's answer breaks off, or is invalid       → Step Functions retries
    ├── ContextLimit      the request does not fit into the model's window   → closes the turn with an error
    ├── ModelRefused      the provider refuses the request for good (4xx)    → closes the turn with an error
    └── Gone              the connection no longer exists                    → its subscription is dropped

Step Functions matches on the class name, clients and the model on `code`; both are stable, messages are not.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

HOOK_FAILED: Final = "hook_failed"
"""The code of a turn whose `pre_run_hook` failed."""


class SteplineError(Exception):
    """Base class. `code` goes on the wire; the message is for people; `context` becomes fields of the log line."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, code: str | None = None, **context: str | float | list[str] | None
    ) -> None:
        """Set a more precise `code` than that of the class, if one is documented."""
        super().__init__(message)
        self.reason = code or type(self).code
        self.context = context


RETRY_AFTER: Final = "[retry_after_s=%d]"
"""The end of a message that says how long to wait: Step Functions passes on no other data of an error."""

_RETRY_AFTER: Final = re.compile(r"\[retry_after_s=([0-9]{1,7})\]")


def retry_after_of(cause: str) -> int:
    """Return the seconds to wait from the cause of a failed state; 0 for none."""
    found = _RETRY_AFTER.search(cause)
    return int(found[1]) if found else 0


class InputError(SteplineError):
    code = "bad_message"


class NotFoundError(SteplineError):
    code = "not_found"


class AuthError(SteplineError):
    code = "unauthorized"


class LimitError(SteplineError):
    code = "limit_exceeded"


class BusyError(SteplineError):
    code = "busy"


class PathError(SteplineError):
    code = "invalid_path"


class ToolError(SteplineError):
    code = "tool_error"


class SandboxError(SteplineError):
    code = "sandbox_execution_failed"


class DecisionError(SteplineError):
    code = "action_schema_error"


class Fenced(SteplineError):
    code = "fenced"
    retryable = True


class UnknownOutcome(SteplineError):
    code = "unknown_outcome"
    retryable = True


class DependencyError(SteplineError):
    code = "dependency"
    retryable = True


class ModelOverloaded(SteplineError):
    code = "model_overloaded"
    retryable = True


class ModelRateLimited(SteplineError):
    code = "model_rate_limited"
    retryable = True


class ModelUnreachable(SteplineError):
    code = "model_unreachable"
    retryable = True


class ModelTimeout(SteplineError):
    code = "model_timeout"
    retryable = True


class ModelStreamBroken(SteplineError):
    code = "model_stream_broken"
    retryable = True


class ContextLimit(SteplineError):
    code = "context_limit"


class ModelRefused(SteplineError):
    code = "model_refused"


class Gone(SteplineError):
    code = "gone"


def retryable_names() -> list[str]:
    """Return the class names that a state machine may retry, for its `ErrorEquals`."""
    return sorted(c.__name__ for c in SteplineError.__subclasses__() if c.retryable)
