"""Run `stream_with_channels` over known text, and a model that waits for its reader."""

import asyncio
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from stepline.adapters.memory.model import MemoryModelClient, Say
from stepline.bundle.generation.model_service import user_message
from stepline.bundle.generation.stream import stream_with_channels
from stepline.model.usage import Usage
from stepline.ports.model import Completion, ModelRequest
from stepline.protocol.parser.grammar import ChannelSpec

SOURCES = [
    {"sid": 1, "title": "One", "url": "https://example.com/1"},
    {"sid": 2, "title": "Two", "url": "https://example.com/2"},
]
THINKING = ChannelSpec("thinking", replace_citations=False, emit_marker="thinking")
ANSWER = ChannelSpec("answer")
USAGE = ChannelSpec("usage", "json", replace_citations=False)
CODE = ChannelSpec("code", "text", escape="none", replace_citations=False, strip_usage=False)


async def ignore(**_: Any) -> None:
    """Hear nothing."""


def stream(model: Any, **arguments: Any) -> Any:
    """Return the result of the call, of a client or of a text streamed in pieces of 7 characters."""
    return asyncio.run(call(model, **arguments))


async def call(model: Any, **arguments: Any) -> Any:
    client = MemoryModelClient(Say(text=model, piece_chars=7)) if isinstance(model, str) else model
    given = {
        "messages": [user_message("Go.")],
        "role": "answer.generator.regular",
        "channels": [THINKING, ANSWER, USAGE, CODE],
        "emit": ignore,
        "agent": "test.agent",
        "return_full_raw": True,
    }
    return await stream_with_channels(client, **(given | arguments))


class Shown(list[dict[str, Any]]):
    """A main consumer that keeps its deltas."""

    async def emit(self, **delta: Any) -> None:
        self.append(delta)

    def text(self, channel: str, instance: int = 0) -> str:
        return "".join(one["text"] for one in self.of(channel, instance))

    def of(self, channel: str, instance: int = 0) -> list[dict[str, Any]]:
        return [one for one in self if (one["channel"], one["channel_instance"]) == (channel, instance)]


class StallingModel:
    """Sends its pieces, and then waits until it is aborted or allowed to `go`."""

    def __init__(self, *pieces: str, rest: tuple[str, ...] = ()) -> None:
        self.pieces = pieces
        self.rest = rest
        self.go = threading.Event()
        self.ended = threading.Event()
        self.aborted = False
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> Self:
        self.requests.append(request)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended.set()

    def __iter__(self) -> Iterator[str]:
        yield from self.pieces
        self.go.wait()
        if not self.aborted:
            yield from self.rest

    def abort(self) -> None:
        self.aborted = True
        self.go.set()

    def completion(self) -> Completion:
        reason = "aborted" if self.aborted else "end_turn"
        return Completion(text="", stop_reason=reason, usage=Usage(), model="stalling", aborted=self.aborted)
