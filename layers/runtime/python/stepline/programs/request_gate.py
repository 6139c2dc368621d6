"""The request gate: check one request of a program before any tool is involved. No clock, no socket, no tool.

The order of the checks is part of the protocol: a peer without the right to call learns nothing else, and only a run
whose jail has reported itself may make calls. It also goes from cheap to expensive: the fields of a request are
located but not decoded until its token is verified, and parameters are not built until they are known to be few.
Source: docs/reference/executor-protocol.md#order-of-checks.
"""

from __future__ import annotations

import hmac
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from stepline.errors import ToolError
from stepline.model.program.execution import Isolation

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

PROTOCOL_VERSION: Final = 1
PARAMS_DEPTH_MAX: Final = 64
VALUES_MAX: Final = 10_000
"""Maximum values in a call's parameters: they are validated, recorded and copied in Python, one by one."""

REFUSED_MAX: Final = 32
"""Refused requests of a run after which it gets no new connection, and each further one closes its own."""

HANGS_UP: Final = frozenset(
    {
        "wrong_peer",
        "too_many_refusals",
        "frame_too_large",
        "frame_timeout",
        "deadline_over",
        "bad_frame",
        "bad_version",
        "unauthorized",
        "unknown_type",
    }
)
"""Codes after which the connection is closed."""

# Every value but the first of its container follows a comma, and every container but one is a value.
_MARKS_MAX: Final = 2 * VALUES_MAX + 1
_SHORT_BYTES: Final = 4096
"""Maximum bytes of the fields that should be short, which are all but the call itself."""

_NULL: Final = msgspec.Raw(b"null")


class _Request(msgspec.Struct, frozen=True):
    """The raw fields of a request. None is decoded: a hostile field can cost many times its size in memory."""

    v: msgspec.Raw = _NULL
    id: msgspec.Raw = _NULL
    type: msgspec.Raw = _NULL
    token: msgspec.Raw = _NULL
    isolation: msgspec.Raw = _NULL
    tool_id: msgspec.Raw = _NULL
    params: msgspec.Raw = _NULL


_REQUEST: Final = msgspec.json.Decoder(_Request)


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The report of the jail: it is set up, with this isolation."""

    id: int
    isolation: Isolation


@dataclass(frozen=True, kw_only=True)
class CallRequest:
    """A call to run. `tool_id` and `params` are as received: the tool host checks them."""

    id: int
    tool_id: Any
    params: Any


@dataclass(frozen=True, kw_only=True)
class CallRefusal:
    """An answer without a call. After a `fatal` one, whose `id` is 0, the connection is closed."""

    id: int
    code: str
    message: str
    fatal: bool = False


GateVerdict: TypeAlias = Hello | CallRequest | CallRefusal


class RequestGate:
    """Check the requests of one run, over all its connections. Several threads may use it."""

    def __init__(self, *, token: str, allowed_uids: frozenset[int], quota: int, deadline_s: float) -> None:
        """Allow calls until `deadline_s` of the caller's clock, at most `quota` of them."""
        self._token = token.encode()
        self._allowed_uids = allowed_uids
        self._quota = quota
        self._deadline_s = deadline_s
        self._lock = threading.Lock()
        self._calls = 0
        self._refused = 0
        self.isolation: Isolation | None = None

    def check_peer(self, uid: int) -> CallRefusal | None:
        """Check the uid of a connecting process, before any byte is read."""
        if uid in self._allowed_uids:
            return None
        return CallRefusal(id=0, code="wrong_peer", message="this socket is another user's", fatal=True)

    def check_refused(self) -> CallRefusal | None:
        """Check that the run may open one more connection after its refusals so far."""
        if self._refused < REFUSED_MAX:
            return None
        message = f"{REFUSED_MAX} requests of this run were refused; it gets no more connections"
        return CallRefusal(id=0, code="too_many_refusals", message=message, fatal=True)

    def refuse(self, why: ToolError, number: int = 0) -> CallRefusal:
        """Count a refused request, of the gate's or of its frame's, and return its answer."""
        with self._lock:
            self._refused += 1
            fatal = why.reason in HANGS_UP or self._refused >= REFUSED_MAX
        return CallRefusal(id=0 if fatal else number, code=why.reason, message=str(why), fatal=fatal)

    def take(self, body: Buffer, now_s: float) -> GateVerdict:
        """Check one request, and count it."""
        number = 0
        try:
            self._check_time(now_s)
            request = _find_fields(body)
            number = _read_number(request.id)
            return self._judge(request, number)
        except ToolError as refused:
            return self.refuse(refused, number)

    def _check_time(self, now_s: float) -> None:
        if now_s >= self._deadline_s:
            raise ToolError("the run's time is over", code="deadline_over")

    def _judge(self, request: _Request, number: int) -> Hello | CallRequest:
        if _short(request.v) != str(PROTOCOL_VERSION).encode():
            raise ToolError(f"this is version {PROTOCOL_VERSION}", code="bad_version")
        if not self._token or not hmac.compare_digest(_read_text(request.token).encode(), self._token):
            raise ToolError("the token is not this run's", code="unauthorized")
        match _read_text(request.type):
            case "hello":
                return Hello(id=number, isolation=self._confine(request.isolation))
            case "call":
                self._count()
                return CallRequest(
                    id=number, tool_id=_read_value(request.tool_id), params=_read_value(request.params)
                )
            case _:
                raise ToolError("a request is a hello or a call", code="unknown_type")

    def _confine(self, found: msgspec.Raw) -> Isolation:
        with self._lock:
            if self.isolation is not None:
                raise ToolError("this run has reported its isolation already", code="already_confined")
            try:
                self.isolation = msgspec.json.decode(_short(found), type=Isolation)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ToolError(f"not an isolation: {error}", code="bad_params") from error
            return self.isolation

    def _count(self) -> None:
        """Count one more call. A call that fails later counts, too: it costs the supervisor the same."""
        if self.isolation is None:
            raise ToolError("the first request of a run is its hello", code="hello_required")
        with self._lock:
            if self._calls >= self._quota:
                raise ToolError(f"a run has at most {self._quota} tool calls", code="quota_exceeded")
            self._calls += 1


def _find_fields(body: Buffer) -> _Request:
    """Return the raw fields of a request. Raises ToolError `bad_frame`."""
    try:
        return _REQUEST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ToolError("a request is a JSON object", code="bad_frame") from error


def _short(field: msgspec.Raw) -> bytes:
    """Return the JSON of a field; b"" if it is long."""
    view = memoryview(field)
    return bytes(view) if view.nbytes <= _SHORT_BYTES else b""


def _read_number(field: msgspec.Raw) -> int:
    """Return the `id` of a request. Raises ToolError `bad_frame`: without it, an answer has no address."""
    try:
        return msgspec.json.decode(_short(field), type=int)
    except msgspec.DecodeError as error:
        raise ToolError("a request has an `id`, an integer", code="bad_frame") from error


def _read_text(field: msgspec.Raw) -> str:
    """Return a short text; "" for any other value."""
    try:
        return msgspec.json.decode(_short(field), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _read_value(field: msgspec.Raw) -> Any:
    """Return the value of a field. Raises ToolError: `bad_params`, too large; `bad_frame`, no JSON."""
    if count_marks(field, _MARKS_MAX) <= _MARKS_MAX:
        try:
            value = msgspec.json.decode(field)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ToolError("a request is a JSON object", code="bad_frame") from error
        if _are_few(value):
            return value
    raise ToolError(
        f"params hold at most {VALUES_MAX} values, {PARAMS_DEPTH_MAX} deep; pass large data as a file",
        code="bad_params",
    )


def count_marks(data: Buffer, most: int, *, piece_bytes: int = 64 * 1024) -> int:
    """Count the commas and opening brackets of some JSON outside its strings; stop after `most`.

    It builds no values: it works in pieces, which needs little memory, and never byte by byte, so that eight megabytes
    take milliseconds.
    """
    view = memoryview(data)
    marks, inside, rest = 0, False, b""
    for start in range(0, view.nbytes, piece_bytes):
        piece = rest + bytes(view[start : start + piece_bytes])
        piece = piece.replace(rb"\\", b"").replace(rb"\"", b"")  # now every quote begins or ends a string
        rest = b"\\" if piece.endswith(b"\\") else b""
        texts = piece.split(b'"')
        marks += sum(b"".join(texts[inside::2]).count(mark) for mark in (b",", b"[", b"{"))
        if marks > most:
            break
        inside ^= len(texts) % 2 == 0
    return marks


def _are_few(value: Any) -> bool:
    """Return True if a value is within the limits on count and depth."""
    level, seen = [value], 0
    for _ in range(PARAMS_DEPTH_MAX):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        seen += len(level)
        if not level or seen > VALUES_MAX:
            break
    return not level
