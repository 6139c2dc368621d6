"""The router: find the endpoint of a request, read its input, run it, and write the answer.

A refusal of an endpoint becomes a problem; an internal failure is raised, and the edge answers for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from stepline.api.endpoint import Call, Endpoint, Redirect, Services, StreamPart
from stepline.api.problem import PROBLEM_MIME, make_problem, status_of
from stepline.errors import InputError, LimitError, NotFoundError, SteplineError
from stepline.ingress.allow import check_request
from stepline.log.owned_tail import conceal_deletion
from stepline.model.ids import Lane
from stepline.ports.channel import Principal

ANSWER_MAX_BYTES: Final = 4 * 1024 * 1024
"""A function's answer has at most 6 MB, in which the body is a string with each quote escaped."""
JSON: Final = "application/json"
KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")
"""An idempotency key: printable ASCII."""

COMMON: Final[Mapping[HTTPStatus, tuple[str, ...]]] = {
    HTTPStatus.BAD_REQUEST: ("bad_message",),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("answer_too_large",),
    HTTPStatus.TOO_MANY_REQUESTS: ("rate_limited",),
    HTTPStatus.INTERNAL_SERVER_ERROR: ("internal",),
    HTTPStatus.SERVICE_UNAVAILABLE: ("dependency", "busy"),
}
"""The refusals that every endpoint has, by status."""
OF_BODIES: Final[Mapping[HTTPStatus, tuple[str, ...]]] = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("limit_exceeded",),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: ("media_type",),
}
"""The additional refusals of every endpoint that has a body."""

# No cache may keep an answer to one user.
_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request in the form of its gateway; names of headers are in lower case.

    API Gateway decodes all escapes in `path` but `%25`, so a name's part is decoded once more.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class ApiResponse:
    """Status, headers and body of an answer; `code` is that of a refusal."""

    status: HTTPStatus
    headers: Mapping[str, str]
    body: bytes = b""
    code: str = ""


class Router:
    """Answers requests by a table of endpoints."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """Compile the table; if two templates match, the first one wins."""
        templates = [endpoint.path.split("/") for endpoint in endpoints]
        wide = [next((i for i, part in enumerate(one) if part.endswith("+}")), None) for one in templates]
        self._table = list(zip(templates, wide, endpoints, strict=True))

    def answer(self, services: Services, principal: Principal, request: Request) -> ApiResponse:
        """Answer a request of an authenticated caller. Raises errors that are internal failures and not refusals."""
        path: dict[str, str] = {}
        try:
            endpoint, path = self._find(request)
            check_request(services.ports, principal, endpoint.kind)
            call = Call(
                services=services,
                principal=principal,
                path=path,
                query=_read_query(endpoint, request.query),
                body=_read_body(endpoint, request),
                idempotency_key=_read_key(request.headers),
                known=request.headers.get("if-none-match", ""),
            )
            return _write(endpoint, endpoint.run(call))
        except SteplineError as error:
            if status_of(error) == HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return make_error_response(_conceal(services, principal, path, error))

    def _find(self, request: Request) -> tuple[Endpoint, dict[str, str]]:
        allowed, parts = [], request.path.split("/")
        for template, wide, endpoint in self._table:
            names = _match(template, wide, parts)
            if names is not None:
                if endpoint.method == request.method:
                    return endpoint, names
                allowed.append(endpoint.method)
        if allowed:
            raise InputError(
                "this address does not support the method",
                code="method_not_allowed",
                allow=", ".join(sorted(set(allowed))),
            )
        raise NotFoundError("there is nothing here")


def _conceal(
    services: Services, principal: Principal, path: Mapping[str, str], error: SteplineError
) -> SteplineError:
    """Return the refusal that the caller may see; a conversation named in the body is checked by its endpoint."""
    if "conversation" not in path:
        return error
    lane = Lane(tenant=principal.tenant, project=principal.project, conversation=path["conversation"])
    return conceal_deletion(services.ports, lane, principal.user, error)


def make_error_response(error: SteplineError) -> ApiResponse:
    """Return the answer of an error."""
    problem = make_problem(error)
    headers = {"Content-Type": PROBLEM_MIME, **_HEADERS}
    if problem.retry_after_s:
        headers["Retry-After"] = str(problem.retry_after_s)
    if isinstance(allow := error.context.get("allow"), str):
        headers["Allow"] = allow
    body = msgspec.json.encode(problem)
    return ApiResponse(status=HTTPStatus(problem.status), headers=headers, body=body, code=problem.code)


def _match(template: Sequence[str], wide: int | None, parts: Sequence[str]) -> dict[str, str] | None:
    """Return the values of a template's names in a path, decoded once; None if it is another path.

    `wide` is the part of the template that takes several of the path, if there is one.
    """
    if wide is not None:
        end = max(wide, len(parts) - (len(template) - wide - 1))
        parts = [*parts[:wide], "/".join(parts[wide:end]), *parts[end:]]
    if len(template) != len(parts):
        return None
    names = {}
    for expected, part in zip(template, parts, strict=True):
        if not expected.startswith("{"):
            if expected != part:
                return None
        elif not part:
            return None
        else:
            names[expected.strip("{+}")] = unquote(part)
    return names


def _read_query(endpoint: Endpoint, query: Mapping[str, str]) -> Any:
    try:
        return msgspec.convert(dict(query), endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(f"invalid query: {error}") from error


def _read_body(endpoint: Endpoint, request: Request) -> Any:
    if endpoint.body is None:
        return None
    if len(request.body) > endpoint.body_bytes:
        raise LimitError(f"a body has at most {endpoint.body_bytes} bytes", limit=endpoint.body_bytes)
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != JSON:
        raise InputError(f"a body is {JSON}", code="media_type")
    try:
        return msgspec.json.decode(request.body, type=endpoint.body)
    except msgspec.MsgspecError as error:
        raise InputError(f"invalid body: {error}") from error


def _read_key(headers: Mapping[str, str]) -> str:
    key = headers.get("idempotency-key")
    if key is None:
        return ""
    if not KEY.fullmatch(key):
        raise InputError("an idempotency key must have 1 to 128 printable characters")
    return key


def _write(endpoint: Endpoint, value: Any) -> ApiResponse:
    if isinstance(value, Redirect):
        return ApiResponse(status=HTTPStatus.FOUND, headers={"Location": value.url, **_HEADERS})
    status, headers = endpoint.status, {"Content-Type": JSON, **_HEADERS}
    if isinstance(value, StreamPart):
        status, headers = value.status, headers | dict(value.headers)
        body = b"" if value.messages is None else b"[%s]" % b",".join(value.messages)
    elif endpoint.answer is None:
        return ApiResponse(status=HTTPStatus.NO_CONTENT, headers=_HEADERS)
    else:
        body = msgspec.json.encode(value)
    if len(body) > ANSWER_MAX_BYTES:
        raise LimitError("the answer is too large: ask for less at a time", code="answer_too_large")
    return ApiResponse(status=status, headers=headers, body=body)
