"""One generation from its request to its end: read the model, take its text apart, bring it to the listeners."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, get_args

from stepline.bundle.channel_result import ChannelResult, StreamMeta
from stepline.bundle.delivery import Delivery
from stepline.bundle.model_pump import ModelPump
from stepline.bundle.model_service import service_error, usage_row
from stepline.bundle.subscriber import Consumer, Failures, StreamPolicyViolation
from stepline.errors import SteplineError
from stepline.model.usage import Usage
from stepline.ports.model import Completion, ModelClient, ModelRequest
from stepline.protocol.parser.channel import ChannelParser
from stepline.protocol.parser.grammar import ChannelSpec, Format
from stepline.protocol.parser.transcript import CloseReason

Results: TypeAlias = dict[str, ChannelResult]

NOTHING: Final = Completion(text="", stop_reason="", usage=Usage(), model="")
"""What came of a call that was never made."""

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Generation:
    """One call. `raw_listener` hears each piece of the text before it is taken apart."""

    client: ModelClient
    request: ModelRequest
    parser: ChannelParser
    delivery: Delivery
    raw_listener: Consumer | None
    error: SteplineError | None = None
    completion: Completion = NOTHING

    async def run(self) -> None:
        """Read the model to its end, by whichever it comes; its failure is kept in `error`.

        Raises what else ended it: StreamPolicyViolation, CancelledError, a defect.
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
        """Return what is known of the whole."""
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
        except SteplineError as error:  # the model's: what listeners raise does not come this far
            self.error = error
            return "provider_error"
        return "eof"

    async def _take(self, pieces: list[str]) -> None:
        """Deliver the text of `pieces`, up to one that the raw listener objects to."""
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
        """Tell everybody that it is over; a cancel meanwhile costs the listener who was being told, and no other."""
        while True:
            try:
                await self.delivery.close(reason)
            except StreamPolicyViolation as second:
                logger.info("a second policy violation", extra={"code": second.code})
            except asyncio.CancelledError:
                continue
            return


def plan_parser(channels: Sequence[ChannelSpec]) -> ChannelParser:
    """Return the parser of `channels`. Raises ValueError if a name is declared twice or a format is none."""
    names = [name.lower() for spec in channels for name in (spec.name, *spec.aliases)]
    if len(set(names)) < len(names):
        raise ValueError("a channel is declared twice")
    for spec in channels:
        if spec.format not in get_args(Format):
            raise ValueError(f"channel {spec.name} has no known format: {spec.format}")
    return ChannelParser(channels)


def log_results(results: Results) -> None:
    """Log what came of each channel, in numbers."""
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
