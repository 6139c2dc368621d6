"""The websocket below the session: dials with a token, and splits requests into frames that the gateway accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from stepline.errors import AuthError, DependencyError, LimitError
from stepline.local.client import LOOPBACK_NAMES
from stepline.model.wire.client_message import MESSAGE_MAX_BYTES
from stepline.model.wire.event import ErrorFrame, Frame, decode_frame, is_unknown_kind

FRAME_MAX_BYTES = 32 * 1024
"""API Gateway refuses larger frames; a larger message is split."""

OPEN_TIMEOUT_S = 45.0
"""Covers a cold start of the authorizer followed by one of the socket function."""


class WebsocketConnection(Protocol):
    """The part of a websocket connection that the session uses."""

    def send(self, message: str | list[str]) -> None: ...

    def recv(self, timeout: float | None = None) -> str | bytes: ...


Dial = Callable[[], Any]
"""Opens a connection: a context manager of a `WebsocketConnection`. Raises AuthError, DependencyError."""


def dial_gateway(url: str, token: Callable[[], str], *, origin: str = "") -> Dial:
    """Return a dial that gets a fresh token for each connection."""

    @contextmanager
    def dial() -> Iterator[WebsocketConnection]:
        # The gateway does not support compression; the environment's proxy does not apply to this machine.
        on_this_machine = urlsplit(url).hostname in LOOPBACK_NAMES
        try:
            manager = connect(
                url,
                origin=Origin(origin) if origin else None,
                additional_headers={"Authorization": f"Bearer {token()}"},
                compression=None,
                proxy=None if on_this_machine else True,
                open_timeout=OPEN_TIMEOUT_S,
                close_timeout=2,
                legacy=False,
            )
            connection = manager.__enter__()
        except InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise AuthError(f"the gateway refused the connection with {status}") from error
            raise DependencyError(f"the gateway answered {status}", code="socket_unreachable") from error
        except (InvalidHandshake, OSError) as error:
            raise DependencyError(f"{url} does not answer: {error}", code="socket_unreachable") from error
        with connection:
            yield connection

    return dial


def read_frame(text: str | bytes) -> Frame | None:
    """Decode a frame; return None for a kind that this release does not know.

    Text that is no frame is an error of the gateway itself, sent when the function that it calls fails: its code is
    `gateway`, and it may concern any message. Raises DependencyError `format_newer`.
    """
    try:
        return decode_frame(text)
    except msgspec.DecodeError:
        if is_unknown_kind(text):
            return None
        return ErrorFrame(code="gateway", message=str(text)[:300], retryable=True)


def encode_request(request: dict[str, Any]) -> str | list[str]:
    """Encode a request; above 32 KB of UTF-8, as a list of pieces.

    Raises:
        LimitError: `message_too_large`.
    """
    body = msgspec.json.encode(request)
    if len(body) > MESSAGE_MAX_BYTES:
        raise LimitError(
            f"the message has {len(body)} bytes, at most {MESSAGE_MAX_BYTES} can be sent",
            code="message_too_large",
        )
    if len(body) <= FRAME_MAX_BYTES:
        return body.decode()
    return list(split_utf8(body, FRAME_MAX_BYTES))


def split_utf8(body: bytes, max_bytes: int) -> Iterator[str]:
    """Split UTF-8 into pieces of at most `max_bytes` (4 or more), never inside a character."""
    at = 0
    while at < len(body):
        end = min(at + max_bytes, len(body))
        while end < len(body) and body[end] & 0xC0 == 0x80:
            end -= 1
        yield body[at:end].decode()
        at = end
