"""The gate: what becomes of one request, before any tool is looked at. No clock, no socket, no tool.

The order of the checks is part of the protocol: whoever may not speak learns nothing but that, and only a run
whose jail has reported itself may call anything.
Source: docs/reference/executor-protocol.md#order-of-checks.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from stepline.errors import ToolError
from stepline.model.execution import Isolation

VERSION: Final = 1
DEPTH_MAX: Final = 64
VALUES_MAX: Final = 50_000
"""Of the parameters of one call. What validates, records or copies them walks them in Python, value by value."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The jail has closed itself and says how far."""

    id: int
    isolation: Isolation


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call to make. `tool_id` and `params` are as they came: the host of the tools judges them."""

    id: int
    tool_id: Any
    params: Any


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer without a call. After a `fatal` one the connection has no next request."""

    id: int
    code: str
    message: str
    fatal: bool = False


Verdict: TypeAlias = Hello | Call | Refusal


class Gate:
    """The requests of one run, whichever connection they come from. Its caller lets them in one at a time."""

    def __init__(self, *, token: str, allowed_uids: frozenset[int], quota: int, deadline_s: float) -> None:
        """Let calls in until `deadline_s` of the caller's clock, at most `quota` of them."""
        self._token = token.encode()
        self._allowed_uids = allowed_uids
        self._quota = quota
        self._deadline_s = deadline_s
        self._calls = 0
        self.isolation: Isolation | None = None

    def check_peer(self, uid: int) -> Refusal | None:
        """Judge who connects, before a byte of theirs is read."""
        if uid in self._allowed_uids:
            return None
        return Refusal(id=0, code="wrong_peer", message="this socket is another user's", fatal=True)

    def check_time(self, now_s: float) -> Refusal | None:
        """Judge whether the run still has time."""
        if now_s < self._deadline_s:
            return None
        return Refusal(id=0, code="deadline_over", message="the run's time is over", fatal=True)

    def take(self, body: bytes, now_s: float) -> Verdict:
        """Judge one request, and count it if it is a call."""
        request = _parse(body)
        if isinstance(request, Refusal):
            return request
        try:
            return self._judge(request, request["id"], now_s)
        except ToolError as refused:
            return Refusal(id=request["id"], code=refused.reason, message=str(refused))

    def _judge(self, request: dict[str, Any], number: int, now_s: float) -> Hello | Call:
        self._check_token(request.get("token"))
        match request.get("type"):
            case "hello":
                return Hello(id=number, isolation=self._confine(request.get("isolation")))
            case "call":
                self._count(now_s)
                _check_size(request.get("params"))
                return Call(id=number, tool_id=request.get("tool_id"), params=request.get("params"))
            case _:
                raise ToolError("a request is a hello or a call", code="unknown_type")

    def _check_token(self, token: Any) -> None:
        given = token.encode() if isinstance(token, str) else b""
        if not self._token or not hmac.compare_digest(given, self._token):
            raise ToolError("the token is not this run's", code="unauthorized")

    def _confine(self, found: Any) -> Isolation:
        if self.isolation is not None:
            raise ToolError("this run has reported its isolation already", code="already_confined")
        try:
            self.isolation = msgspec.convert(found, Isolation)
        except msgspec.ValidationError as error:
            raise ToolError(f"not an isolation: {error}", code="bad_params") from error
        return self.isolation

    def _count(self, now_s: float) -> None:
        """Let one more call in. Whatever becomes of it, it counts: a refused one costs the supervisor too."""
        if self.isolation is None:
            raise ToolError("the first request of a run is its hello", code="hello_required")
        if over := self.check_time(now_s):
            raise ToolError(over.message, code=over.code)
        if self._calls >= self._quota:
            raise ToolError(f"a run has at most {self._quota} tool calls", code="quota_exceeded")
        self._calls += 1


def _parse(body: bytes) -> dict[str, Any] | Refusal:
    """Return a request of our version with its `id`. What is none ends the connection: its answer has no address."""
    try:
        request = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _broken("bad_frame", "a request is a JSON object")
    if not isinstance(request, dict):
        return _broken("bad_frame", "a request is a JSON object")
    if type(number := request.get("id")) is not int:
        return _broken("bad_frame", "a request has an `id`, an integer")
    if type(request.get("v")) is not int or request["v"] != VERSION:
        return Refusal(id=number, code="bad_version", message=f"this is version {VERSION}", fatal=True)
    return request


def _check_size(params: Any) -> None:
    """Refuse parameters that would cost the supervisor more than their bytes do. Raises ToolError `bad_params`."""
    level, seen = [params], 0
    for _ in range(DEPTH_MAX):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        seen += len(level)
        if not level or seen > VALUES_MAX:
            break
    if level:
        raise ToolError(
            f"params hold at most {VALUES_MAX} values, {DEPTH_MAX} deep; pass large data as a file",
            code="bad_params",
        )


def _broken(code: str, message: str) -> Refusal:
    return Refusal(id=0, code=code, message=message, fatal=True)
