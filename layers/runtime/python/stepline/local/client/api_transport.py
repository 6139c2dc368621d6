"""The transport of the HTTP API's client: sends a request with a fresh token, and returns its answer or an error.

Source: docs/concepts/http-api.md#a-client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import responses
from typing import Any, Final, TypedDict, TypeVar, Unpack
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import urllib3

from stepline.adapters.http_pool import make_pool
from stepline.api.problem import Problem
from stepline.api.router import JSON
from stepline.errors import DependencyError, InputError, SteplineError
from stepline.local.client import LOOPBACK_NAMES
from stepline.model.base import Value

Answer = TypeVar("Answer")

_TIMEOUT: Final = urllib3.Timeout(30.0)
"""Covers a cold start of the authorizer followed by one of the function."""
_CODE: Final = re.compile(rb"<Code>(\w{1,64})</Code>")
"""The code of a refusal by S3. Source: docs.aws.amazon.com/AmazonS3, "REST error responses"."""


class ApiError(SteplineError):
    """A refusal: `reason` is its stable code, the message its detail, and `problem` the full answer.

    A refusal by the gateway itself has the code `unauthorized` or `gateway`, one by the upload bucket `form_refused`.
    """

    def __init__(self, problem: Problem) -> None:
        """Create the error from a problem."""
        super().__init__(problem.detail, code=problem.code)
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return self.problem.status

    @property
    def retry_after_s(self) -> int:
        """The seconds after which the request may be repeated; 0 if the answer does not say."""
        return self.problem.retry_after_s


class _More(TypedDict, total=False):
    """The parts of a request besides its path: query, body, and idempotency key."""

    query: Value
    body: Value
    key: str


class ApiTransport:
    """Calls one HTTP API as one user; threads may share it. It never repeats a request and follows no redirect."""

    def __init__(self, api_url: str, token: Callable[[], str]) -> None:
        """Call the API at `api_url`; `token` is called for each request, since tokens expire."""
        self._url, self._token = api_url.rstrip("/"), token
        self._pools: dict[str, urllib3.PoolManager] = {}

    def close(self) -> None:
        """Close the open connections; the next request opens new ones."""
        for pool in self._pools.values():
            pool.clear()

    def post_form(self, url: str, fields: Mapping[str, str], file: bytes) -> None:
        """Post an upload form with its file to the bucket; no token is sent.

        Raises:
            ApiError: `form_refused`, the bucket rejects the form, or the file's size or type.
            DependencyError: `api_unreachable`.
        """
        body, mime = urllib3.encode_multipart_formdata([*fields.items(), ("file", ("file", file))])
        answer = self._send("POST", url, body, {"Content-Type": mime})
        if not 200 <= answer.status < 300:
            found = _CODE.search(answer.data)
            said = found[1].decode() if found else "nothing"
            raise ApiError(make_refusal(answer.status, "form_refused", f"the bucket answered {said}"))

    def _ask(self, method: str, path: str, answer: type[Answer], **more: Unpack[_More]) -> Answer:
        """Call an endpoint and return its answer. Raises ApiError; DependencyError `api_unreachable`."""
        good = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED)
        found = self._exchange(method, path, *good, **more)
        try:
            return msgspec.json.decode(found.data, type=answer)
        except msgspec.MsgspecError as error:
            raise DependencyError(
                "the API's answer has an unexpected format", code="api_unreachable"
            ) from error

    def _locate(self, method: str, path: str) -> str:
        """Return the address to which an endpoint redirects, without following it. Raises like `_ask`."""
        return self._exchange(method, path, HTTPStatus.FOUND).headers["Location"]

    def _call(self, method: str, path: str, **more: Unpack[_More]) -> None:
        """Call an endpoint whose answer is empty. Raises like `_ask`."""
        self._exchange(method, path, HTTPStatus.NO_CONTENT, **more)

    def _exchange(
        self, method: str, path: str, *good: HTTPStatus, **more: Unpack[_More]
    ) -> urllib3.BaseHTTPResponse:
        body = more.get("body")
        headers = {"Authorization": f"Bearer {self._token()}", "Accept": JSON}
        if key := more.get("key"):
            headers["Idempotency-Key"] = key
        if body is not None:
            headers["Content-Type"] = JSON
        url = f"{self._url}{path}{encode_query(more.get('query'))}"
        answer = self._send(method, url, None if body is None else msgspec.json.encode(body), headers)
        if answer.status not in good:
            raise ApiError(_read_problem(answer))
        return answer

    def _send(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool(url).request(
                method, url, body=body, headers=headers, timeout=_TIMEOUT, retries=False, redirect=False
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise DependencyError("the API does not answer", code="api_unreachable") from error

    def _pool(self, url: str) -> urllib3.PoolManager:
        target = urlsplit(url)
        if target.netloc not in self._pools:
            # The environment's proxy does not apply to this machine.
            self._pools[target.netloc] = (
                urllib3.PoolManager() if target.hostname in LOOPBACK_NAMES else make_pool(url)
            )
        return self._pools[target.netloc]


def part(text: str) -> str:
    """Return a name as one segment of a path. Raises InputError `bad_path` for a slash: the gateway decodes slashes."""
    if "/" in text:
        raise InputError(f"`{text}` cannot be part of a path", code="bad_path")
    return rest(text)


def rest(text: str) -> str:
    """Return a name as the rest of a path, with its slashes. Raises InputError `bad_path` as `part` does."""
    if "?" in text or {"", ".", ".."} & set(text.split("/")):
        raise InputError(f"`{text}` cannot be part of a path", code="bad_path")
    return quote(text, safe="/")


def encode_query(query: Value | None) -> str:
    """Return a query with its `?`, without default values; "" if nothing is left."""
    given = {} if query is None else msgspec.to_builtins(query)
    texts = {name: value if isinstance(value, str) else _spell(value) for name, value in given.items()}
    return f"?{urlencode(texts)}" if texts else ""


def make_refusal(status: int, code: str, detail: str) -> Problem:
    """Return the problem for a refusal that does not come from the API itself."""
    again = status in (429, 502, 503, 504)
    title = responses.get(status, "Unknown")
    return Problem(title=title, status=status, code=code, detail=detail, retryable=again)


def _read_problem(answer: urllib3.BaseHTTPResponse) -> Problem:
    try:
        return msgspec.json.decode(answer.data, type=Problem)
    except msgspec.MsgspecError:
        code = "unauthorized" if answer.status in (401, 403) else "gateway"
        return make_refusal(answer.status, code, f"the gateway answered {answer.status}")


def _spell(value: Any) -> str:
    return msgspec.json.encode(value).decode()
