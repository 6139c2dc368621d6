"""Call a model once and stream its answer by channel: to a consumer, to subscribers, to a canvas.

For applications with their own prompts; the agent's loop does not use it. It is asynchronous, because its
callers are: everything happens in the caller's task, except for the blocking read of the model's stream. `ModelPump` is a
thread that does so, and an asynchronous iterator over the text. Text that arrives while the consumer is busy is delivered in
one list, so a slow consumer gets fewer and larger pieces and delays nothing.
Source: docs/how-to/stream-channels.md.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self, TypeAlias, get_args, overload

from stepline.bundle.generation.artifact_stream import plan_artifacts
from stepline.bundle.generation.channel_result import ChannelResult, StreamMeta
from stepline.bundle.generation.dispatch import Delivery
from stepline.bundle.generation.model_service import (
    MessageLike,
    ModelService,
    plan_request,
    service_error,
    service_of,
    usage_row,
)
from stepline.bundle.generation.shown_text import SourceLike, read_sources
from stepline.bundle.generation.subscriber import (
    Consume,
    Consumer,
    Failures,
    StreamPolicyViolation,
    Subscribers,
    subscribers_of,
)
from stepline.errors import SteplineError
from stepline.model.usage import Usage
from stepline.ports.model import Completion, ModelClient, ModelRequest, ModelStream
from stepline.protocol.parser.channel_parser import ChannelParser, CloseReason
from stepline.protocol.parser.grammar import ChannelSpec, Format

Results: TypeAlias = dict[str, ChannelResult]

NOTHING: Final = Completion(text="", stop_reason="", usage=Usage(), model="")
"""The completion of a call that was never made."""

logger = logging.getLogger(__name__)


@overload
async def stream_with_channels(
    svc: ModelService | ModelClient,
    *,
    messages: Sequence[MessageLike],
    role: str,
    channels: Sequence[ChannelSpec],
    emit: Consume,
    agent: str,
    artifact_name: str | None = None,
    sources_list: Sequence[SourceLike] | None = None,
    subscribers: Subscribers | None = None,
    raw_emit: Consume | None = None,
    max_tokens: int = 8000,
    temperature: float = 0.3,
    debug: bool = False,
    composite_cfg: Mapping[str, str] | None = None,
    composite_channel: str | None = None,
    composite_marker: str = "canvas",
    return_full_raw: Literal[False] = False,
) -> Results: ...


@overload
async def stream_with_channels(
    svc: ModelService | ModelClient,
    *,
    messages: Sequence[MessageLike],
    role: str,
    channels: Sequence[ChannelSpec],
    emit: Consume,
    agent: str,
    artifact_name: str | None = None,
    sources_list: Sequence[SourceLike] | None = None,
    subscribers: Subscribers | None = None,
    raw_emit: Consume | None = None,
    max_tokens: int = 8000,
    temperature: float = 0.3,
    debug: bool = False,
    composite_cfg: Mapping[str, str] | None = None,
    composite_channel: str | None = None,
    composite_marker: str = "canvas",
    return_full_raw: Literal[True],
) -> tuple[Results, StreamMeta]: ...


async def stream_with_channels(
    svc: ModelService | ModelClient,
    *,
    messages: Sequence[MessageLike],
    role: str,
    channels: Sequence[ChannelSpec],
    emit: Consume,
    agent: str,
    artifact_name: str | None = None,
    sources_list: Sequence[SourceLike] | None = None,
    subscribers: Subscribers | None = None,
    raw_emit: Consume | None = None,
    max_tokens: int = 8000,
    temperature: float = 0.3,
    debug: bool = False,
    composite_cfg: Mapping[str, str] | None = None,
    composite_channel: str | None = None,
    composite_marker: str = "canvas",
    return_full_raw: bool = False,
) -> Results | tuple[Results, StreamMeta]:
    """Call a model and return each channel's result; with `return_full_raw` also the data about the whole.

    A failure of the model is not raised: the text so far is returned, and the second value's `service_error`
    has the reason. A cancelled task or a consumer's `StreamPolicyViolation` stops the model, closes the open
    instance to its listeners with the reason, and is raised when the model's thread has ended. Arguments are
    explained in docs/how-to/stream-channels.md#arguments; a `temperature` has no effect on a model that does not accept
    one, as no current one does. Raises ValueError for contradicting arguments, before any call.
    """
    setup = plan_artifacts(channels, composite_cfg, composite_channel, composite_marker)
    service, failures = service_of(svc), Failures()
    delivery = Delivery(
        channels,
        emit=emit,
        agent=agent,
        artifact_name=artifact_name,
        subscribers=subscribers_of(subscribers),
        sources=read_sources(sources_list or ()),
        artifacts=setup,
        failures=failures,
        now_s=service.now_s,
    )
    generation = Generation(
        client=service.client,
        request=plan_request(messages, role=role, max_tokens=max_tokens, temperature=temperature),
        parser=_plan_parser(channels),
        delivery=delivery,
        raw_listener=Consumer(raw_emit, "", failures) if raw_emit else None,
    )
    await generation.run()
    results = generation.results(channels)
    if debug:
        _log_results(results)
    return (results, generation.meta(failures)) if return_full_raw else results


@dataclass(kw_only=True)
class Generation:
    """One call. `raw_listener` receives each piece of the text before it is parsed."""

    client: ModelClient
    request: ModelRequest
    parser: ChannelParser
    delivery: Delivery
    raw_listener: Consumer | None
    error: SteplineError | None = None
    completion: Completion = NOTHING

    async def run(self) -> None:
        """Read the model to its end; its failure is kept in `error`.

        Raises other errors: StreamPolicyViolation, CancelledError, a bug.
        """
        try:
            stream = self.client.stream(self.request)
        except SteplineError as error:
            self.error = error
            return
        async with ModelPump(stream) as pump:
            try:
                reason = await self._read(pump)
                await self.delivery.deliver(self.parser.close(reason))
            except BaseException as error:
                pump.abort()
                await self._close(_reason_of(error))
                raise
        self.completion = pump.completion or NOTHING

    def results(self, channels: Sequence[ChannelSpec]) -> Results:
        """Return each channel's result."""
        transcript = self.parser.transcript()
        return {spec.name: self.delivery.result(spec.name, transcript) for spec in channels}

    def meta(self, failures: Failures) -> StreamMeta:
        """Return the data about the whole generation."""
        transcript, done = self.parser.transcript(), self.completion
        failed = None
        if self.error:
            failed = service_error(self.error, role=self.request.role, client=self.client, model=done.model)
        return StreamMeta(
            raw=transcript.raw,
            service_error=failed,
            usage=usage_row(done.usage),
            model_name=done.model,
            provider_message_id=done.message_id,
            stop_reason=done.stop_reason,
            thoughts=[],
            tool_calls=[],
            citations=[],
            subscriber_errors=failures.rows(),
            outside_chars=transcript.outside_chars,
            unknown_channels=list(transcript.unknown_channels),
        )

    async def _read(self, pump: ModelPump) -> CloseReason:
        try:
            async for pieces in pump:
                await self._take(pieces)
        except SteplineError as error:  # the model's: listeners' errors are handled before
            self.error = error
            return "provider_error"
        return "eof"

    async def _take(self, pieces: list[str]) -> None:
        """Deliver the text of `pieces`, up to one that the raw listener rejects."""
        violation: StreamPolicyViolation | None = None
        if self.raw_listener:
            for count, piece in enumerate(pieces):
                try:
                    await self.raw_listener.call(piece)
                except StreamPolicyViolation as objection:
                    violation, pieces = objection, pieces[:count]
                    break
        await self.delivery.deliver(self.parser.feed("".join(pieces)))
        if violation:
            raise violation

    async def _close(self, reason: CloseReason) -> None:
        """Close all consumers; a cancellation meanwhile only interrupts the consumer being called."""
        while True:
            try:
                await self.delivery.close(reason)
            except StreamPolicyViolation as second:
                logger.info("a second policy violation", extra={"code": second.code})
            except asyncio.CancelledError:
                continue
            return


def _plan_parser(channels: Sequence[ChannelSpec]) -> ChannelParser:
    """Return the parser of `channels`. Raises ValueError for a duplicate name or an invalid format."""
    names = [name.lower() for spec in channels for name in (spec.name, *spec.aliases)]
    if len(set(names)) < len(names):
        raise ValueError("a channel is declared twice")
    for spec in channels:
        if spec.format not in get_args(Format):
            raise ValueError(f"channel {spec.name} has no known format: {spec.format}")
    return ChannelParser(channels)


def _log_results(results: Results) -> None:
    """Log the results of all channels, in numbers."""
    for name, result in results.items():
        logger.info(
            "channel streamed",
            extra={
                "channel": name,
                "instances": len(result.instances),
                "chars": len(result.raw),
                "cited": len(result.used_sources),
                "truncated": result.truncated,
            },
        )


def _reason_of(error: BaseException) -> CloseReason:
    match error:
        case StreamPolicyViolation():
            return "policy"
        case asyncio.CancelledError():
            return "cancelled"
        case _:
            return "provider_error"


class ModelPump:
    """Reads `stream` within its `async with`; leaving that stops the call and waits for the thread.

    Leaving waits as long as `abort` takes to end the stream's iteration, also if the waiting task is
    cancelled.
    """

    def __init__(self, stream: ModelStream) -> None:
        self.completion: Completion | None = None
        """The call's completion, after the iteration has ended; None if there is none."""
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._signalled = False
        self._ended = False
        self._error: BaseException | None = None
        self._gone = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="model-pump", daemon=True)

    async def __aenter__(self) -> Self:
        """Send the request."""
        self._thread.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stop the call if it still runs, and wait for its end."""
        self.abort()
        cancelled: asyncio.CancelledError | None = None
        while not self._gone.done():
            try:
                await asyncio.wait([self._gone])
            except asyncio.CancelledError as again:
                cancelled = again
        self._thread.join()
        if cancelled:
            raise cancelled

    def __aiter__(self) -> Self:
        """Return self; iterate once."""
        return self

    async def __anext__(self) -> list[str]:
        """Return all text that has arrived, waiting for some. Raises the stream's error after its text."""
        while True:
            self._signalled = False
            ended = self._ended  # read first: text before the end is available now
            if pieces := self._take():
                return pieces
            if ended:
                if self._error:
                    raise self._error
                raise StopAsyncIteration
            await self._arrived.wait()
            self._arrived.clear()

    def abort(self) -> None:
        """Stop the call; may be called more than once."""
        if not self._ended:
            self._stream.abort()

    def _take(self) -> list[str]:
        pieces: list[str] = []
        while self._pieces:
            pieces.append(self._pieces.popleft())
        return pieces

    def _run(self) -> None:
        try:
            with self._stream as stream:
                try:
                    for piece in stream:
                        self._pieces.append(piece)
                        self._signal()
                finally:
                    self.completion = stream.completion()
        except BaseException as error:  # noqa: BLE001 - the iterator raises it, in the consumer's task
            self._error = error
        finally:
            self._ended = True
            self._loop.call_soon_threadsafe(self._finish)

    def _signal(self) -> None:
        if not self._signalled:
            self._signalled = True
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _finish(self) -> None:
        self._gone.set_result(None)
        self._arrived.set()
