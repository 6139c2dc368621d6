"""The wires of the scripted model: how each reads a request, and encodes an answer and a refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.wire.chat_wire import (
    ChatEncoder,
    chat_completion,
    chat_error,
    chat_status,
    read_chat,
)
from stepline.local.scripted.wire.converse_wire import converse_error, encode_converse, read_converse
from stepline.model.base import Value

FRAMES: Final = "application/vnd.amazon.eventstream"


class WireFormat(Value):
    """One wire.

    `read` returns a request, of which the URL may name the model, as one of Messages. `begin` returns the encoder of one
    answer's events, from the request; `whole` encodes an answer that is no stream, and `refuse` returns the status and the body
    of an error. `asks_wait` returns the header that asks for a wait of some seconds.
    """

    read: Callable[[Any, str], dict[str, Any]]
    begin: Callable[[Any], Callable[[wire.Event], bytes]]
    refuse: Callable[[int, str, str], tuple[int, Any]]
    mime: str = "text/event-stream; charset=utf-8"
    whole: Callable[[wire.Event], Any] = dict
    asks_wait: Callable[[float], tuple[str, str]] = lambda seconds: ("retry-after", f"{seconds:g}")


def _refuse_messages(status: int, kind: str, text: str) -> tuple[int, Any]:
    return status, wire.error(kind, text, request_id=f"req_{wire.message_id()[4:]}")


def _begin_chat(asked: Any) -> Callable[[wire.Event], bytes]:
    return ChatEncoder(counts=bool((asked.get("stream_options") or {}).get("include_usage"))).encode


_MESSAGES: Final = WireFormat(
    read=lambda body, _: body, begin=lambda _: wire.encode_sse, refuse=_refuse_messages
)
WIRE_FORMATS: Final[Mapping[str, WireFormat]] = MappingProxyType(
    {
        "messages": _MESSAGES,
        "bedrock": WireFormat(
            read=lambda body, model: {**body, "model": model, "stream": True},
            begin=lambda _: wire.encode_frame,
            refuse=_refuse_messages,
            mime=FRAMES,
        ),
        "chat": WireFormat(
            read=lambda body, _: read_chat(body),
            begin=_begin_chat,
            refuse=lambda status, kind, text: (chat_status(status), chat_error(kind, text)),
            whole=chat_completion,
            asks_wait=lambda seconds: ("retry-after-ms", f"{seconds * 1000:g}"),
        ),
        "converse": WireFormat(
            read=read_converse, begin=lambda _: encode_converse, refuse=converse_error, mime=FRAMES
        ),
    }
)
"""Each wire by its name; `bedrock` has the events of Messages in frames."""
