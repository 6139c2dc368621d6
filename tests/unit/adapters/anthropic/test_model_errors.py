"""The mapping of a provider's errors to ours; every class that the SDK can raise is mapped."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

import anthropic
import httpx2
import pytest
from botocore import eventstream
from botocore import exceptions as botocore_exceptions

from stepline.adapters.anthropic.sdk_transport import map_sdk_error
from stepline.adapters.provider.error import map_answer, parse_retry_after, says_context_limit
from stepline.errors import (
    ContextLimit,
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)

OUR_MODEL_ERRORS = (
    *(ContextLimit, DependencyError, ModelOverloaded, ModelRateLimited, ModelRefused),
    *(ModelStreamBroken, ModelTimeout, ModelUnreachable),
)

TOO_LONG = [
    ("", "prompt is too long: 210234 tokens > 200000 maximum"),
    ("", "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length"),
    ("", "input length and max_tokens exceed context limit: 90402 + 116650 > 204648"),
    ("ValidationException", "Input is too long for requested model."),
    ("", "The model returned the following errors: Input is too long for requested model."),
    ("context_length_exceeded", "whatever the words are"),
    (
        "",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens.",
    ),
    ("", "Your input exceeds the context window of this model. Please adjust your input and try again."),
    ("", "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    ("", "the request exceeds the available context size (8192 tokens), try increasing it"),
    ("exceed_context_size_error", "request (15246 tokens)"),
    ("", "This model's maximum prompt length is 131072 but the request contains 140000 tokens."),
    ("", "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    ("", "Please reduce the length of the messages or completion."),
    ("request_too_large", "Request exceeds the maximum size"),
]
NOT_TOO_LONG = [
    "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for this model",
    "messages.0.role: Input should be 'user' or 'assistant'",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    "Your credit balance is too low to access the Anthropic API.",
]


def _response(status: int, *, headers: dict[str, str] | None = None) -> httpx2.Response:
    return httpx2.Response(
        status, headers=headers, request=httpx2.Request("POST", "http://model.test/v1/messages")
    )


def _status_error(
    status: int, body: object, *, headers: dict[str, str] | None = None
) -> anthropic.APIStatusError:
    response = httpx2.Response(
        status,
        headers=headers,
        content=json.dumps(body).encode(),
        request=httpx2.Request("POST", "http://model.test/v1/messages"),
    )
    with anthropic.Anthropic(api_key="x", base_url="http://model.test") as client:
        return client._make_status_error_from_response(response)


def _error_body(kind: str, message: str = "words") -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(("kind", "message"), TOO_LONG, ids=[text[:40] for _, text in TOO_LONG])
def test_every_providers_wording_for_a_full_window_is_recognized(kind: str, message: str) -> None:
    assert says_context_limit(kind, message)
    assert isinstance(
        map_answer(status=400, kind=kind or "invalid_request_error", message=message), ContextLimit
    )


@pytest.mark.parametrize("message", NOT_TOO_LONG)
def test_other_refusals_are_not_treated_as_a_full_window(message: str) -> None:
    assert not says_context_limit("invalid_request_error", message)
    assert isinstance(map_answer(status=400, kind="invalid_request_error", message=message), ModelRefused)


def test_a_rate_limit_that_speaks_of_input_tokens_is_a_rate_limit() -> None:
    error = map_answer(
        status=429,
        kind="rate_limit_error",
        message="prompt is too long for the limit of 30,000 input tokens per minute",
    )
    assert isinstance(error, ModelRateLimited)


@pytest.mark.parametrize(
    ("status", "kind", "ours"),
    [
        (400, "invalid_request_error", ModelRefused),
        (401, "authentication_error", ModelRefused),
        (402, "billing_error", ModelRefused),
        (403, "permission_error", ModelRefused),
        (404, "not_found_error", ModelRefused),
        (408, "", ModelTimeout),
        (409, "conflict_error", DependencyError),
        (413, "request_too_large", ContextLimit),
        (422, "", ModelRefused),
        (424, "ModelErrorException", DependencyError),
        (429, "rate_limit_error", ModelRateLimited),
        (499, "", DependencyError),
        (500, "api_error", ModelOverloaded),
        (501, "", ModelRefused),
        (503, "ServiceUnavailableException", ModelOverloaded),
        (504, "timeout_error", ModelOverloaded),
        (529, "overloaded_error", ModelOverloaded),
        # inside a stream with status 200
        (200, "overloaded_error", ModelOverloaded),
        (200, "rate_limit_error", ModelRateLimited),
        (200, "api_error", ModelOverloaded),
        (200, "invalid_request_error", ModelRefused),
        (200, "throttlingException", ModelRateLimited),
        (200, "modelStreamErrorException", ModelStreamBroken),
        (200, "modelTimeoutException", ModelTimeout),
        (200, "internalServerException", ModelOverloaded),
        (200, "validationException", ModelRefused),
        (200, "something_new", DependencyError),
    ],
)
def test_a_status_and_a_kind_have_one_meaning(status: int, kind: str, ours: type[SteplineError]) -> None:
    assert type(map_answer(status=status, kind=kind)) is ours
    assert type(map_sdk_error(_status_error(status, _error_body(kind)))) is ours


def test_the_error_format_of_amazon_is_read_too() -> None:
    error = _status_error(
        400,
        {"message": "Input is too long for requested model."},
        headers={"x-amzn-errortype": "ValidationException:http://internal.amazon.com/"},
    )
    assert isinstance(map_sdk_error(error), ContextLimit)


def test_a_body_that_is_not_json_does_not_change_the_error() -> None:
    response = httpx2.Response(
        502, text="<html>bad gateway</html>", request=httpx2.Request("POST", "http://m.test/")
    )
    with anthropic.Anthropic(api_key="x", base_url="http://model.test") as client:
        assert isinstance(map_sdk_error(client._make_status_error_from_response(response)), ModelOverloaded)


def test_the_wait_that_a_provider_requests_is_kept() -> None:
    error = map_sdk_error(_status_error(429, _error_body("rate_limit_error"), headers={"retry-after": "7"}))
    assert error is not None
    assert error.context["retry_after_s"] == 7


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("3", 3.0),
        ("0.5", 0.5),
        ("-1", None),
        ("inf", None),
        ("Wed, 21 Oct 2026", None),
    ],
)
def test_a_retry_after_is_seconds_or_nothing(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header) == seconds


def _subclasses(root: type[Exception]) -> Iterator[type[Exception]]:
    yield root
    for child in root.__subclasses__():
        yield from _subclasses(child)


def _instances(root: type[Exception]) -> Iterator[Exception]:
    """One instance of every class below `root`, created without its constructor."""
    for kind in _subclasses(root):
        error = kind.__new__(kind)
        Exception.__init__(error, "words")
        if isinstance(error, anthropic.APIStatusError):
            status = inspect.getattr_static(kind, "status_code", 400)
            error.status_code = status if isinstance(status, int) else 400
            error.response = _response(error.status_code)
            error.body, error.message = None, "words"
        if isinstance(error, anthropic.WorkloadIdentityError):
            error.request_id = None
        yield error


def test_every_error_of_the_sdk_and_its_transport_has_a_meaning() -> None:
    roots = [anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError, eventstream.ParserError]
    seen = 0
    for error in (error for root in roots for error in _instances(root)):
        ours = map_sdk_error(error)
        assert isinstance(ours, OUR_MODEL_ERRORS), type(error)
        seen += 1
    assert seen > 60


def test_missing_credentials_are_never_worth_a_retry() -> None:
    request = httpx2.Request("POST", "http://model.test/")
    unsigned = anthropic.APIConnectionError(request=request)
    unsigned.__cause__ = RuntimeError("Could not resolve AWS credentials from session")
    for error in (unsigned, anthropic.CredentialsError("none"), botocore_exceptions.NoCredentialsError()):
        ours = map_sdk_error(error)
        assert isinstance(ours, ModelRefused)
        assert ours.reason == "model_credentials"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx2.RemoteProtocolError("incomplete chunked read"), "stream_cut"),
        (httpx2.ReadTimeout("silence"), "model_timeout"),
        (httpx2.ConnectTimeout("timed out"), "model_unreachable"),
        (httpx2.InvalidURL("no address"), "model_unreachable"),
        (json.JSONDecodeError("no", "{", 0), "stream_malformed"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "stream_malformed"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "no"), "unencodable_text"),
    ],
)
def test_a_broken_stream_has_a_code_for_its_cause(error: Exception, code: str) -> None:
    ours = map_sdk_error(error)
    assert ours is not None
    assert ours.reason == code


def test_our_own_bug_is_not_mapped() -> None:
    assert map_sdk_error(KeyError("ours")) is None
